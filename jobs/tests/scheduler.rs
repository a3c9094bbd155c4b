//! Jobs by their schedules, on a memory server.

mod support;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockyard_jobs::{Jitter, JobError, Misfire, OnCrash, Schedule, Scheduler, Status, WallTime};
use lockyard_testbed::timing::eventually;
use support::{Checked, MINUTE, Replica, SOON, record, server, soon};
use tokio::sync::{Notify, oneshot};

#[derive(Clone, Default)]
struct Slots(Arc<Mutex<Vec<WallTime>>>);

impl Slots {
    fn add(&self, slot: WallTime) {
        self.0.lock().expect("no panic").push(slot);
    }

    fn all(&self) -> Vec<WallTime> {
        self.0.lock().expect("no panic").clone()
    }

    async fn are(&self, count: usize) -> Checked {
        let found = eventually(SOON, || async { self.all().len() == count }).await;
        found.ok_or_else(|| format!("{count} slots expected: {:?}", self.all()).into())
    }
}

/// A scheduler in the background, and how to end it.
fn run_in_background(scheduler: Scheduler) -> (oneshot::Sender<()>, tokio::task::JoinHandle<()>) {
    let (end, ended) = oneshot::channel();
    (end, tokio::spawn(scheduler.run_until(async { drop(ended.await) })))
}

#[tokio::test]
async fn two_jobs_of_one_name_are_refused() -> Checked {
    // B141
    let replica = Replica::of(&server());
    let job = || replica.job("sync").build();
    let twice = Scheduler::new().add(job()?, support::nothing)?.add(job()?, support::nothing);
    let error = twice.expect_err("two of one name");
    assert!(matches!(&error, JobError::Invalid(_)) && error.to_string().contains("same name"), "{error}");
    Ok(())
}

#[tokio::test]
async fn replicas_share_the_slots_of_each_tick() -> Checked {
    let server = server();
    let slots = Slots::default();
    let mut running = Vec::new();
    let replicas: Vec<_> = (0..3).map(|_| Replica::of(&server)).collect();
    for replica in &replicas {
        let job = replica.job("sync").schedule(Schedule::every(MINUTE)).build()?;
        let seen = slots.clone();
        let work = move |run: lockyard_jobs::RunContext| {
            seen.add(run.scheduled_at());
            async { Ok::<_, String>(()) }
        };
        running.push(run_in_background(Scheduler::new().add(job, work)?));
    }
    for count in 1..=5 {
        for replica in &replicas {
            replica.clock.advance(MINUTE);
        }
        slots.are(count).await?;
    }
    for (end, scheduler) in running {
        drop(end);
        soon(scheduler).await??;
    }
    let mut rising = slots.all();
    rising.dedup();
    assert_eq!(rising.len(), 5);
    assert!(rising.is_sorted());
    Ok(())
}

#[tokio::test]
async fn the_end_waits_for_the_run_and_its_lock_is_renewed() -> Checked {
    // B143
    let server = server();
    let replica = Replica::of(&server);
    let other = Replica::of(&server);
    let ttl = Duration::from_millis(300);
    let job = replica.job("sync").ttl(ttl).schedule(Schedule::every(MINUTE)).build()?;
    let (begun, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (started, wait) = (Arc::clone(&begun), Arc::clone(&go_on));
    let work = move |_| {
        let (started, wait) = (Arc::clone(&started), Arc::clone(&wait));
        async move {
            started.notify_one();
            wait.notified().await;
            Ok::<_, String>(())
        }
    };
    let (end, scheduler) = run_in_background(Scheduler::new().add(job.clone(), work)?);
    replica.clock.advance(MINUTE);
    soon(begun.notified()).await?;
    drop(end);
    // Twice the lease and more: only renewals keep it.
    let clock = other.locks.clock().clone();
    let until = clock.now().plus(ttl * 3);
    while clock.now() < until {
        assert!(other.locks.try_acquire("@job/sync").await?.is_none(), "the lock was free during the run");
        clock.sleep(Duration::from_millis(10)).await;
    }
    assert!(!scheduler.is_finished());
    go_on.notify_one();
    soon(scheduler).await??;
    assert_eq!(record(&job).await?.last.map(|run| run.status), Some(Status::Succeeded));
    Ok(())
}

#[tokio::test]
async fn an_end_with_patience_stops_the_run() -> Checked {
    let replica = Replica::of(&server());
    let job = replica.job("sync").schedule(Schedule::every(MINUTE)).build()?;
    let begun = Arc::new(Notify::new());
    let started = Arc::clone(&begun);
    let work = move |run: lockyard_jobs::RunContext| {
        started.notify_one();
        async move {
            run.cancelled().await;
            Ok::<_, String>(())
        }
    };
    let (end, scheduler) =
        run_in_background(Scheduler::new().patience(Duration::from_millis(10)).add(job.clone(), work)?);
    replica.clock.advance(MINUTE);
    soon(begun.notified()).await?;
    drop(end);
    soon(scheduler).await??;
    assert_eq!(record(&job).await?.last.map(|run| run.status), Some(Status::Stopped));
    Ok(())
}

#[tokio::test]
async fn what_was_due_while_nobody_ran_is_caught_up() -> Checked {
    let server = server();
    let replica = Replica::of(&server);
    let slots = Slots::default();
    let start = || -> Checked<Scheduler> {
        let job = replica.job("sync").schedule(Schedule::every(MINUTE)).misfire(Misfire::CatchUp { max: 2 }).build()?;
        let seen = slots.clone();
        let work = move |run: lockyard_jobs::RunContext| {
            seen.add(run.scheduled_at());
            async { Ok::<_, String>(()) }
        };
        Ok(Scheduler::new().add(job, work)?)
    };
    let (end, scheduler) = run_in_background(start()?);
    replica.clock.advance(MINUTE);
    slots.are(1).await?;
    drop(end);
    soon(scheduler).await??;
    // Five slots go by, the last three are run, the oldest first.
    replica.clock.advance(MINUTE * 5);
    let (end, scheduler) = run_in_background(start()?);
    slots.are(4).await?;
    drop(end);
    soon(scheduler).await??;
    let after: Vec<_> = slots.all().iter().map(|slot| slot.since(slots.all()[0]).as_secs() / 60).collect();
    assert_eq!(after, [0, 3, 4, 5]);
    Ok(())
}

#[tokio::test]
async fn a_scheduler_that_starts_runs_again_what_has_crashed_where_that_is_wanted() -> Checked {
    let server = server();
    let dead = Replica::of(&server);
    let replica = Replica::of(&server);
    let job = dead.job("sync").schedule(Schedule::every(MINUTE)).ttl(Duration::from_millis(300)).build()?;
    let begun = Arc::new(Notify::new());
    let started = Arc::clone(&begun);
    let at = dead.now();
    let run = tokio::spawn(async move {
        let work = |_| async move {
            started.notify_one();
            std::future::pending::<Result<(), String>>().await
        };
        job.run_tick(at, work).await
    });
    soon(begun.notified()).await?;
    run.abort();
    let free = || async { matches!(replica.locks.inspect("@job/sync").await, Ok(None)) };
    eventually(SOON, free).await.ok_or("the lock is never free")?;

    let job = replica.job("sync").schedule(Schedule::every(MINUTE)).on_crash(OnCrash::Rerun).build()?;
    let attempts = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&attempts);
    let work = move |run: lockyard_jobs::RunContext| {
        seen.lock().expect("no panic").push((run.scheduled_at(), run.attempt()));
        async { Ok::<_, String>(()) }
    };
    let (end, scheduler) = run_in_background(Scheduler::new().add(job, work)?);
    let again = || async { !attempts.lock().expect("no panic").is_empty() };
    eventually(SOON, again).await.ok_or("it is not run again")?;
    drop(end);
    soon(scheduler).await??;
    assert_eq!(*attempts.lock().expect("no panic"), [(at, 2)]);
    Ok(())
}

#[tokio::test]
async fn a_trigger_is_seen_and_a_start_may_be_delayed() -> Checked {
    let replica = Replica::of(&server());
    let jitter = Jitter::Stable(MINUTE / 2);
    let job = replica.job("sync").schedule(Schedule::every(MINUTE)).start_jitter(jitter).build()?;
    let by_hand = Arc::new(AtomicU32::new(0));
    let slots = Slots::default();
    let (counted, seen) = (Arc::clone(&by_hand), slots.clone());
    let work = move |run: lockyard_jobs::RunContext| {
        if run.is_triggered() {
            counted.fetch_add(1, Ordering::SeqCst);
        } else {
            seen.add(run.scheduled_at());
        }
        async { Ok::<_, String>(()) }
    };
    let (end, scheduler) = run_in_background(Scheduler::new().poll(Duration::from_millis(20)).add(job.clone(), work)?);
    job.control().trigger("eve").await?;
    eventually(SOON, || async { by_hand.load(Ordering::SeqCst) == 1 }).await.ok_or("nobody saw the trigger")?;
    assert!(!job.start_delay().is_zero());
    let tick = replica.now().plus(MINUTE);
    replica.clock.advance(MINUTE + job.start_delay());
    slots.are(1).await?;
    assert_eq!(slots.all(), [tick]);
    assert_eq!(record(&job).await?.slot, Some(tick));
    drop(end);
    soon(scheduler).await??;
    assert_eq!(by_hand.load(Ordering::SeqCst), 1);
    Ok(())
}
