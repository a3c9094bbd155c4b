//! Replicas in processes of their own, one killed, one frozen past its lease, and a server that is restarted: no slot is
//! started twice, and each is run or told to be missed.
//!
//! Redis and the lease table of Postgres run always; the others, which take longer, by
//! `cargo test -p lockyard-jobs --test faults -- --ignored --skip replica`.

mod support;

use std::collections::BTreeSet;
use std::time::Duration;

use lockyard_testbed::Service;
use nix::sys::signal::Signal;
use support::replica::{Replica, Told, serve, ticks};
use support::{Checked, locks_on};

const REPLICAS: usize = 5;
const PERIOD: Duration = Duration::from_millis(250);

#[tokio::test]
#[ignore = "a replica in a process of its own, started by the other tests of this file"]
async fn replica() -> Checked {
    serve(PERIOD, Duration::from_millis(20), |job, locks| job.ttl(lease(locks))).await
}

fn lease(locks: &lockyard::Locker) -> Duration {
    locks.capabilities().ttl.min.max(Duration::from_secs(1))
}

async fn no_slot_twice_and_none_unheard_of(service: Service, query: &str) -> Checked {
    let Some((server, url)) = locks_on(service, query).await? else { return Ok(()) };
    let (ticks, told) = (ticks(PERIOD)?, Told::default());
    let more = async |count: usize| told.reaches("started", told.count("started") + count).await;
    let ttl = lease(&lockyard::connect(&url).await?);
    let mut replicas: Vec<_> = (0..REPLICAS).map(|_| Replica::start(&url, &told, None)).collect::<Checked<_>>()?;
    more(5).await?;
    replicas[0].signal_in_a_run(Signal::SIGKILL).await?;
    more(3).await?;
    replicas[1].signal_in_a_run(Signal::SIGSTOP).await?;
    // Past its lease the others go on; only then does it wake up.
    lockyard::Clock::system().sleep(ttl + ttl / 2).await;
    more(3).await?;
    replicas[1].signal(Signal::SIGCONT)?;
    more(3).await?;
    server.restart().await?;
    more(5).await?;
    for replica in replicas {
        replica.ended().await?;
    }
    let started = told.slots("started", &ticks);
    let once: BTreeSet<_> = started.iter().collect();
    assert_eq!(once.len(), started.len(), "{url}: a slot was started twice: {started:?}");
    let (missed, crashed) = (told.slots("missed", &ticks).len(), told.slots("crashed", &ticks).len());
    println!("{url}: {} started, {missed} missed, {crashed} crashed", started.len());
    assert_eq!(told.silent(&ticks), [], "{url}: nothing was told of them");
    Ok(())
}

#[tokio::test]
async fn redis() -> Checked {
    no_slot_twice_and_none_unheard_of(Service::Redis, "").await
}

#[tokio::test]
async fn postgres_lease() -> Checked {
    no_slot_twice_and_none_unheard_of(Service::Postgres, "?lock=lease").await
}

#[tokio::test]
#[ignore = "takes long: cargo test -p lockyard-jobs --test faults -- --ignored --skip replica"]
async fn postgres_advisory() -> Checked {
    no_slot_twice_and_none_unheard_of(Service::Postgres, "?lock=advisory").await
}

#[tokio::test]
#[ignore = "takes long: cargo test -p lockyard-jobs --test faults -- --ignored --skip replica"]
async fn postgres_row() -> Checked {
    no_slot_twice_and_none_unheard_of(Service::Postgres, "?lock=row").await
}

#[tokio::test]
#[ignore = "takes long: cargo test -p lockyard-jobs --test faults -- --ignored --skip replica"]
async fn etcd() -> Checked {
    no_slot_twice_and_none_unheard_of(Service::Etcd, "").await
}

#[tokio::test]
#[ignore = "takes long: cargo test -p lockyard-jobs --test faults -- --ignored --skip replica"]
async fn zookeeper() -> Checked {
    no_slot_twice_and_none_unheard_of(Service::Zookeeper, "?ttl=4s").await
}
