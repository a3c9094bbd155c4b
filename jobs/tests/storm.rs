//! A storm: many processes that retry, all the time, for a lock that is held. The service is asked what it was asked.
//!
//! 20 processes on Redis run always. The 200 of the documentation, on Redis and Postgres:
//! `LOCKYARD_STORM=200 cargo test -p lockyard-jobs --test storm -- --include-ignored --skip replica --nocapture --test-threads 1`.

mod support;

use std::time::Duration;

use lockyard_jobs::{Backoff, OnConflict};
use lockyard_testbed::{Options, Server, Service};
use support::Checked;
use support::replica::{JOB, Replica, Told, serve};

/// Of 200 processes less than 200 requests a second, those that scripts make inside not counted.
const REQUESTS_PER_SECOND_AND_PROCESS: f64 = 1.0;
const WINDOW: Duration = Duration::from_secs(10);

#[tokio::test]
#[ignore = "a replica in a process of its own, started by the other tests of this file"]
async fn replica() -> Checked {
    // Impatient: alone, without a breaker, it would ask about forty times a second.
    let backoff = Backoff::full_jitter(Duration::from_millis(10), Duration::from_millis(50)).max_attempts(u32::MAX);
    serve(Duration::from_secs(1), Duration::ZERO, |job, _| job.on_conflict(OnConflict::Retry(backoff))).await
}

fn processes() -> Checked<usize> {
    Ok(std::env::var("LOCKYARD_STORM").map_or(Ok(20), |count| count.parse())?)
}

async fn is_stopped(service: Service, options: Options, query: &str) -> Checked {
    let Some(server) = Server::start_or_skip_with(service, options.counting()).await? else { return Ok(()) };
    let url = format!("{}{query}", server.lock_url());
    let locks = lockyard::connect(&url).await?;
    let held = locks.acquire(format!("@job/{JOB}")).await?;
    let (count, told, clock) = (processes()?, Told::default(), locks.clock().clone());
    let replicas: Vec<_> = (0..count).map(|_| Replica::start(&url, &told, None)).collect::<Checked<_>>()?;
    // Each says so, once.
    told.reaches("stormed", count).await?;
    let (before, start) = (server.requests().await?, clock.now());
    clock.sleep(WINDOW).await;
    let requests = server.requests().await?.since(&before);
    let took = clock.now().since(start).as_secs_f64();
    // The steps of Postgres' extended protocol are not statements.
    let asked = requests.total_without(&["parse", "bind"]);
    #[expect(clippy::cast_precision_loss, reason = "a few thousand")]
    let (rate, most) = (asked as f64 / took, count as f64 * REQUESTS_PER_SECOND_AND_PROCESS);
    println!("{url}: {count} processes, {asked} requests in {took:.1} s, {rate:.1}/s: {requests:?}");
    assert!(rate < most, "{url}: {rate:.1} requests a second, more than {most}");
    assert_eq!((told.count("stormed"), told.count("started")), (count, 0));
    // None of them has given up.
    held.release().await?;
    told.reaches("started", 1).await?;
    drop(replicas);
    Ok(())
}

#[tokio::test]
async fn redis() -> Checked {
    is_stopped(Service::Redis, Options::new(), "").await
}

#[tokio::test]
#[ignore = "with 200 processes: LOCKYARD_STORM=200 cargo test -p lockyard-jobs --test storm -- --include-ignored --skip replica --test-threads 1"]
async fn postgres_lease() -> Checked {
    is_stopped(Service::Postgres, Options::new().args(["-c", "max_connections=1000"]), "?lock=lease").await
}
