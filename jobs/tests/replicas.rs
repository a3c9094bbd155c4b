//! Many replicas whose clocks differ, on every backend: each slot is run once.

mod support;

use std::time::Duration;

use lockyard::Clock;
use lockyard_jobs::{Job, JobEvent, Schedule, Scheduler, WallTime};
use lockyard_testbed::Service;
use lockyard_testbed::timing::eventually;
use support::{Checked, Heard, MINUTE, SOON, clock_at, soon};
use tokio::sync::oneshot;

const REPLICAS: usize = 5;
const SLOTS: usize = 50;
/// How long the job takes: far less than the clocks are apart. B137.
const SHORT: Duration = Duration::from_millis(10);

/// One replica: a client of its own, a wall clock of its own, and what it has seen.
struct Replica {
    clock: Clock,
    heard: Heard,
    end: oneshot::Sender<()>,
    scheduler: tokio::task::JoinHandle<()>,
}

impl Replica {
    /// `behind` is how far its clock is behind that of the others.
    async fn start(url: &str, name: &str, label: &str, behind: Duration) -> Checked<Self> {
        let (locks, register) = (lockyard::connect(url).await?, lockyard::connect_register(url).await?);
        let clock = clock_at("2026-05-05T12:00:10Z");
        clock.set_back_wall_clock(behind);
        let heard = Heard::default();
        let job = Job::builder(name, locks.clone(), register)
            .schedule(Schedule::every(MINUTE))
            .clock(clock.clone())
            .label(label)
            .observer(heard.clone())
            .build()?;
        let real = locks.clock().clone();
        let work = move |_| {
            let real = real.clone();
            async move {
                real.sleep(SHORT).await;
                Ok::<_, String>(())
            }
        };
        let (end, ended) = oneshot::channel();
        let scheduler = Scheduler::new().add(job, work)?;
        let scheduler = tokio::spawn(async move {
            scheduler.run_until(async { drop(ended.await) }).await;
            let _ = locks.shutdown().await;
        });
        Ok(Self { clock, heard, end, scheduler })
    }

    /// How many slots it is done with: run, or seen that another has.
    fn settled(&self) -> usize {
        let is_over = |event: &&JobEvent| matches!(event, JobEvent::Ended { .. } | JobEvent::Skipped { .. });
        self.heard.events().iter().filter(is_over).count()
    }

    fn ran(&self) -> Vec<WallTime> {
        let started = |event: &JobEvent| match event {
            JobEvent::Started { slot, .. } => Some(*slot),
            _ => None,
        };
        self.heard.events().iter().filter_map(started).collect()
    }
}

/// Every slot comes to the replicas one after the other, as far apart as their clocks: from 2 s ahead to 2 s behind.
async fn each_slot_is_run_once(url: &str) -> Checked {
    let name = format!("sync-{}", std::process::id());
    let (real, start) = (Clock::system(), Clock::system().now());
    let mut replicas = Vec::new();
    for number in 0..REPLICAS {
        let behind = Duration::from_secs(u64::try_from(number)?);
        replicas.push(Replica::start(url, &name, &format!("replica-{number}"), behind).await?);
    }
    let advance = |time: Duration| replicas.iter().for_each(|replica| replica.clock.advance(time));
    // The first clock is 10 s past a tick.
    advance(Duration::from_secs(49));
    for slot in 1..=SLOTS {
        for number in 0..REPLICAS {
            advance(Duration::from_secs(1));
            let done = || async { replicas[number].settled() >= slot };
            let state = || replicas.iter().map(|replica| replica.heard.events().len()).collect::<Vec<_>>();
            eventually(SOON, done)
                .await
                .ok_or_else(|| format!("{url}: replica {number} never settles slot {slot}: {:?}", state()))?;
        }
        advance(MINUTE - Duration::from_secs(u64::try_from(REPLICAS)?));
    }
    let mut ran: Vec<WallTime> = replicas.iter().flat_map(Replica::ran).collect();
    ran.sort();
    let first: WallTime = "2026-05-05T12:01:00Z".parse()?;
    let expected: Vec<_> = (0..SLOTS).map(|n| first.plus(MINUTE * u32::try_from(n).unwrap_or(0))).collect();
    println!("{url}: {} runs in {:?}", ran.len(), real.now().since(start));
    assert_eq!(ran, expected, "{url}");
    for replica in replicas {
        drop(replica.end);
        soon(replica.scheduler).await??;
        assert_eq!(replica.heard.events().iter().filter(|event| matches!(event, JobEvent::Errored { .. })).count(), 0);
    }
    Ok(())
}

async fn on_server(service: Service, query: &str) -> Checked {
    let Some((_server, url)) = support::locks_on(service, query).await? else { return Ok(()) };
    each_slot_is_run_once(&url).await
}

#[tokio::test]
async fn memory() -> Checked {
    each_slot_is_run_once("memory://replicas").await
}

#[tokio::test]
async fn file() -> Checked {
    let folder = tempfile::tempdir()?;
    each_slot_is_run_once(&format!("file:{}", folder.path().display())).await
}

#[tokio::test]
async fn redis() -> Checked {
    on_server(Service::Redis, "").await
}

#[tokio::test]
async fn postgres_advisory() -> Checked {
    on_server(Service::Postgres, "?lock=advisory").await
}

#[tokio::test]
async fn postgres_row() -> Checked {
    on_server(Service::Postgres, "?lock=row").await
}

#[tokio::test]
async fn postgres_lease() -> Checked {
    on_server(Service::Postgres, "?lock=lease").await
}

#[tokio::test]
async fn etcd() -> Checked {
    on_server(Service::Etcd, "").await
}

#[tokio::test]
async fn zookeeper() -> Checked {
    on_server(Service::Zookeeper, "").await
}
