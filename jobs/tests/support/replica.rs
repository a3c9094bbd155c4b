//! Replicas in processes of their own: this test binary again, with its ignored test `replica`, which calls [`serve`].

use std::collections::BTreeSet;
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockyard::Locker;
use lockyard_jobs::{BreakerCause, Job, JobBuilder, JobEvent, JobObserver, Schedule, Scheduler, Ticks, WallTime};
use lockyard_testbed::WallClock;
use lockyard_testbed::timing::eventually;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::watch;

use super::{Checked, SOON, soon};

const URL: &str = "LOCKYARD_TEST_REPLICA_URL";
/// The job of every replica.
pub(crate) const JOB: &str = "sync";

/// What a replica does until its standard input ends: the job, every `period`, each run as long as `takes`. Without the URL
/// of its parent it does nothing.
pub(crate) async fn serve(
    period: Duration,
    takes: Duration,
    configure: impl FnOnce(JobBuilder, &Locker) -> JobBuilder,
) -> Checked {
    let Ok(url) = std::env::var(URL) else { return Ok(()) };
    let (locks, register) = (lockyard::connect(&url).await?, lockyard::connect_register(&url).await?);
    let job = Job::builder(JOB, locks.clone(), register).schedule(Schedule::every(period)).observer(Teller);
    let job = configure(job, &locks).build()?;
    let clock = locks.clock().clone();
    let work = move |_| {
        let clock = clock.clone();
        async move {
            clock.sleep(takes).await;
            Ok::<_, String>(())
        }
    };
    let end = async { drop(tokio::io::stdin().read(&mut [0]).await) };
    Scheduler::new().add(job, work)?.run_until(end).await;
    let _ = locks.shutdown().await;
    Ok(())
}

/// The ticks by which they run.
pub(crate) fn ticks(period: Duration) -> Checked<Ticks> {
    Ok(Schedule::every(period).ticks(JOB, WallTime::now(&lockyard::Clock::system()))?)
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
            JobEvent::BreakerOpened { cause: BreakerCause::Held, .. } => println!("\n@ stormed 1970-01-01T00:00:00Z 1"),
            _ => {}
        }
    }
}

/// What the replicas have told: what, from which slot on, how many.
#[derive(Debug, Clone, Default)]
pub(crate) struct Told(Arc<Mutex<Vec<(String, WallTime, u64)>>>);

impl Told {
    fn all(&self) -> MutexGuard<'_, Vec<(String, WallTime, u64)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        let ["@", what, slot, count] = words[..] else { return };
        self.all().push((what.to_owned(), slot.parse().expect(line), count.parse().expect(line)));
    }

    /// How often this was told.
    pub(crate) fn count(&self, what: &str) -> usize {
        self.all().iter().filter(|(told, ..)| told == what).count()
    }

    /// The slots of which this was told, in order.
    pub(crate) fn slots(&self, what: &str, ticks: &Ticks) -> Vec<WallTime> {
        let mut slots = Vec::new();
        for (_, first, count) in self.all().iter().filter(|(told, ..)| told == what) {
            let several = std::iter::successors(Some(*first), |slot| ticks.next_after(*slot));
            slots.extend(several.take(usize::try_from(*count).unwrap_or(usize::MAX)));
        }
        slots.sort();
        slots
    }

    /// The slots from the first to the last start of which nothing was told.
    pub(crate) fn silent(&self, ticks: &Ticks) -> Vec<WallTime> {
        let started = self.slots("started", ticks);
        let (Some(first), Some(last)) = (started.first(), started.last()) else { return Vec::new() };
        let heard: BTreeSet<_> =
            ["started", "crashed", "missed"].iter().flat_map(|what| self.slots(what, ticks)).collect();
        std::iter::successors(Some(*first), |slot| ticks.next_after(*slot))
            .take_while(|slot| slot <= last)
            .filter(|slot| !heard.contains(slot))
            .collect()
    }

    /// Waits until this was told so often.
    pub(crate) async fn reaches(&self, what: &str, count: usize) -> Checked {
        let reached = eventually(SOON * 2, || async { self.count(what) >= count }).await;
        reached.ok_or_else(|| format!("{what}: {} of {count}", self.count(what)).into())
    }
}

/// A replica that runs.
pub(crate) struct Replica {
    child: Child,
    /// How many starts it has told of.
    starts: watch::Receiver<usize>,
}

impl Replica {
    /// Starts it, by a wall clock of its own where it is given one.
    pub(crate) fn start(url: &str, told: &Told, clock: Option<&WallClock>) -> Checked<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["--exact", "replica", "--ignored", "--nocapture"]).env(URL, url).env("RUST_BACKTRACE", "0");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        if let Some(clock) = clock {
            clock.give(command.as_std_mut());
        }
        let mut child = command.spawn()?;
        let mut lines = BufReader::new(child.stdout.take().ok_or("no output")?).lines();
        let (count, starts) = watch::channel(0);
        let told = told.clone();
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                told.add(&line);
                if line.starts_with("@ started") {
                    count.send_modify(|count| *count += 1);
                }
            }
        });
        Ok(Self { child, starts })
    }

    /// Signals it when it has just begun a run.
    pub(crate) async fn signal_in_a_run(&mut self, signal: Signal) -> Checked {
        let now = *self.starts.borrow_and_update();
        soon(self.starts.wait_for(|count| *count > now)).await??;
        self.signal(signal)
    }

    pub(crate) fn signal(&self, signal: Signal) -> Checked {
        let pid = self.child.id().ok_or("it has ended")?;
        Ok(kill(Pid::from_raw(i32::try_from(pid)?), signal)?)
    }

    /// Tells it to end.
    pub(crate) fn stop(&mut self) {
        drop(self.child.stdin.take());
    }

    /// Waits for its end.
    pub(crate) async fn ended(mut self) -> Checked {
        self.stop();
        soon(self.child.wait()).await??;
        Ok(())
    }
}
