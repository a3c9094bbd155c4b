//! Replicas in processes of their own, by wall clocks that are set up to 4 s apart: every slot is run, and once. B137.
//!
//! Redis and the lease table of Postgres run always; the others by
//! `cargo test -p lockyard-jobs --test hosts -- --ignored --skip replica`.

mod support;

use std::time::Duration;

use lockyard_jobs::Misfire;
use lockyard_testbed::ClockOffset::{Ahead, Behind};
use lockyard_testbed::{Service, WallClock};
use support::replica::{Replica, Told, serve, ticks};
use support::{Checked, locks_on};

const SLOTS: usize = 50;
/// The clocks are sixteen slots apart.
const PERIOD: Duration = Duration::from_millis(250);
/// How long the job takes: far less than the clocks are apart.
const SHORT: Duration = Duration::from_millis(10);

#[tokio::test]
#[ignore = "a replica in a process of its own, started by the other tests of this file"]
async fn replica() -> Checked {
    // A loaded machine may come late to a slot; none may be left out.
    serve(PERIOD, SHORT, |job, _| job.misfire(Misfire::CatchUp { max: 1000 })).await
}

async fn each_slot_is_run_once(service: Service, query: &str) -> Checked {
    let Some((_server, url)) = locks_on(service, query).await? else { return Ok(()) };
    let (ticks, told) = (ticks(PERIOD)?, Told::default());
    let (mut replicas, mut clocks) = (Vec::new(), Vec::new());
    let second = Duration::from_secs(1);
    for offset in [Behind(second * 2), Behind(second), Ahead(Duration::ZERO), Ahead(second), Ahead(second * 2)] {
        let folder = tempfile::tempdir()?;
        let clock = WallClock::new(folder.path())?;
        clock.set(offset)?;
        replicas.push(Replica::start(&url, &told, Some(&clock))?);
        clocks.push((folder, clock));
    }
    told.reaches("started", SLOTS).await?;
    // The one whose clock is ahead takes most of them: with it gone, the next one goes on where it was.
    replicas.pop().ok_or("five replicas")?.ended().await?;
    told.reaches("started", SLOTS + 2).await?;
    for replica in replicas {
        replica.ended().await?;
    }
    let started = told.slots("started", &ticks);
    let in_order: Vec<_> =
        std::iter::successors(started.first().copied(), |slot| ticks.next_after(*slot)).take(started.len()).collect();
    println!("{url}: {} slots, {} runs", in_order.len(), started.len());
    assert_eq!(started, in_order, "{url}: one was run twice, or left out");
    assert_eq!((told.count("missed"), told.count("crashed")), (0, 0), "{url}");
    Ok(())
}

#[tokio::test]
async fn redis() -> Checked {
    each_slot_is_run_once(Service::Redis, "").await
}

#[tokio::test]
async fn postgres_lease() -> Checked {
    each_slot_is_run_once(Service::Postgres, "?lock=lease").await
}

#[tokio::test]
#[ignore = "takes long: cargo test -p lockyard-jobs --test hosts -- --ignored --skip replica"]
async fn postgres_sessions() -> Checked {
    each_slot_is_run_once(Service::Postgres, "?lock=advisory").await?;
    each_slot_is_run_once(Service::Postgres, "?lock=row").await
}

#[tokio::test]
#[ignore = "takes long: cargo test -p lockyard-jobs --test hosts -- --ignored --skip replica"]
async fn etcd() -> Checked {
    each_slot_is_run_once(Service::Etcd, "").await
}

#[tokio::test]
#[ignore = "takes long: cargo test -p lockyard-jobs --test hosts -- --ignored --skip replica"]
async fn zookeeper() -> Checked {
    each_slot_is_run_once(Service::Zookeeper, "").await
}
