//! Replicas in processes of their own, one killed, one frozen past its lease, and a server that is restarted: no slot is
//! started twice, and each is run or told to be missed.
//!
//! Redis and the lease table of Postgres run always; the others, which take longer, by
//! `cargo test -p lockyard-jobs --test faults -- --ignored --skip replica`.

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lockyard_jobs::{Job, JobEvent, JobObserver, Schedule, Scheduler, Ticks, WallTime};
use lockyard_testbed::Service;
use lockyard_testbed::timing::eventually;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use support::{Checked, SOON, server_of, soon};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, Command};

const REPLICAS: usize = 5;
const PERIOD: Duration = Duration::from_millis(250);
const URL: &str = "LOCKYARD_TEST_REPLICA_URL";

/// The process that the tests of this file start; without its URL it does nothing.
#[tokio::test]
#[ignore = "a replica in a process of its own, started by the other tests of this file"]
async fn replica() -> Checked {
    let Ok(url) = std::env::var(URL) else { return Ok(()) };
    let (locks, register) = (lockyard::connect(&url).await?, lockyard::connect_register(&url).await?);
    let ttl = lease(&locks);
    let job = Job::builder("sync", locks.clone(), register).schedule(Schedule::every(PERIOD)).ttl(ttl).observer(Teller);
    let clock = locks.clock().clone();
    let work = move |_| {
        let clock = clock.clone();
        async move {
            clock.sleep(Duration::from_millis(20)).await;
            Ok::<_, String>(())
        }
    };
    let end = async { drop(tokio::io::stdin().read(&mut [0]).await) };
    Scheduler::new().add(job.build()?, work)?.run_until(end).await;
    let _ = locks.shutdown().await;
    Ok(())
}

fn lease(locks: &lockyard::Locker) -> Duration {
    locks.capabilities().ttl.min.max(Duration::from_secs(1))
}

/// Tells its parent.
#[derive(Debug)]
struct Teller;

impl JobObserver for Teller {
    fn on_event(&self, _job: &str, event: &JobEvent) {
        match event {
            JobEvent::Started { slot, .. } => println!("\n@ started {slot} 1"),
            JobEvent::Crashed { slot, .. } => println!("\n@ crashed {slot} 1"),
            JobEvent::Missed { first, count } => println!("\n@ missed {first} {count}"),
            _ => {}
        }
    }
}

/// What the replicas have told.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<BTreeMap<WallTime, Vec<&'static str>>>>);

impl Told {
    fn add(&self, ticks: &Ticks, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        let ["@", what, slot, count] = words[..] else { return };
        let kind = ["started", "crashed", "missed"].into_iter().find(|kind| *kind == what).expect(line);
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut slot: WallTime = slot.parse().expect(line);
        for _ in 0..count.parse::<u64>().expect(line) {
            told.entry(slot).or_default().push(kind);
            slot = ticks.next_after(slot).expect("there are more");
        }
    }

    fn slots(&self, kind: &str) -> Vec<WallTime> {
        let told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of_kind = |(slot, kinds): (&WallTime, &Vec<&'static str>)| {
            kinds.iter().filter(|found| **found == kind).map(|_| *slot).collect::<Vec<_>>()
        };
        told.iter().flat_map(of_kind).collect()
    }

    /// Waits for so many more starts.
    async fn more(&self, count: usize) -> Checked {
        let before = self.slots("started").len();
        let more = || async { self.slots("started").len() >= before + count };
        eventually(SOON * 2, more).await.ok_or_else(|| format!("no {count} starts more after {before}").into())
    }
}

struct Replica {
    child: Child,
    /// How many starts it has told of.
    starts: tokio::sync::watch::Receiver<usize>,
}

impl Replica {
    fn start(url: &str, ticks: &Ticks, told: &Told) -> Checked<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["--exact", "replica", "--ignored", "--nocapture"]).env(URL, url).env("RUST_BACKTRACE", "0");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn()?;
        let mut lines = BufReader::new(child.stdout.take().ok_or("no output")?).lines();
        let (count, starts) = tokio::sync::watch::channel(0);
        let (ticks, told) = (ticks.clone(), told.clone());
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                told.add(&ticks, &line);
                if line.starts_with("@ started") {
                    count.send_modify(|count| *count += 1);
                }
            }
        });
        Ok(Self { child, starts })
    }

    /// Signals it when it has just begun a run.
    async fn signal_in_a_run(&mut self, signal: Signal) -> Checked {
        let now = *self.starts.borrow_and_update();
        soon(self.starts.wait_for(|count| *count > now)).await??;
        self.signal(signal)
    }

    fn signal(&self, signal: Signal) -> Checked {
        let pid = self.child.id().ok_or("it has ended")?;
        Ok(kill(Pid::from_raw(i32::try_from(pid)?), signal)?)
    }
}

async fn no_slot_twice_and_none_unheard_of(service: Service, query: &str) -> Checked {
    let Some(server) = server_of(service).await? else { return Ok(()) };
    let url = format!("{}{query}", server.lock_url());
    let ticks = Schedule::every(PERIOD).ticks("sync", WallTime::now(&lockyard::Clock::system()))?;
    let told = Told::default();
    let ttl = lease(&lockyard::connect(&url).await?);
    let mut replicas: Vec<_> = (0..REPLICAS).map(|_| Replica::start(&url, &ticks, &told)).collect::<Checked<_>>()?;
    told.more(5).await?;
    replicas[0].signal_in_a_run(Signal::SIGKILL).await?;
    told.more(3).await?;
    replicas[1].signal_in_a_run(Signal::SIGSTOP).await?;
    // Past its lease the others go on; only then does it wake up.
    lockyard::Clock::system().sleep(ttl + ttl / 2).await;
    told.more(3).await?;
    replicas[1].signal(Signal::SIGCONT)?;
    told.more(3).await?;
    server.restart().await?;
    told.more(5).await?;
    for mut replica in replicas {
        drop(replica.child.stdin.take());
        soon(replica.child.wait()).await??;
    }
    let started = told.slots("started");
    let once: BTreeSet<_> = started.iter().collect();
    assert_eq!(once.len(), started.len(), "{url}: a slot was started twice: {started:?}");
    let heard: BTreeSet<_> = ["started", "crashed", "missed"].iter().flat_map(|kind| told.slots(kind)).collect();
    let (first, last) = (started[0], started[started.len() - 1]);
    let silent: Vec<_> = std::iter::successors(Some(first), |slot| ticks.next_after(*slot))
        .take_while(|slot| *slot <= last)
        .filter(|slot| !heard.contains(slot))
        .collect();
    println!(
        "{url}: {} started, {} missed, {} crashed",
        started.len(),
        told.slots("missed").len(),
        told.slots("crashed").len()
    );
    assert!(silent.is_empty(), "{url}: nothing was told of {silent:?}");
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
async fn etcd() -> Checked {
    no_slot_twice_and_none_unheard_of(Service::Etcd, "").await
}

#[tokio::test]
#[ignore = "takes long: cargo test -p lockyard-jobs --test faults -- --ignored --skip replica"]
async fn zookeeper() -> Checked {
    no_slot_twice_and_none_unheard_of(Service::Zookeeper, "?ttl=4s").await
}
