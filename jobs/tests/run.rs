//! One tick, on a memory server: every outcome, and every fault in between.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lockyard::{Claim, LockName, LostReason, Namespace};
use lockyard_jobs::{
    Backoff, JobError, JobEvent, Misfire, OnConflict, OnCrash, Outcome, RecordError, Schedule, Skipped, Status,
};
use lockyard_testbed::timing::eventually;
use support::{Checked, Heard, MINUTE, Replica, SOON, nothing, overwrite, record, server, soon};
use tokio::sync::oneshot;

fn every_minute() -> Schedule {
    Schedule::every(MINUTE)
}

#[tokio::test]
async fn a_slot_is_started_once_by_whoever_comes_first() -> Checked {
    let server = server();
    let (a, b) = (Replica::of(&server), Replica::of(&server));
    // The clocks of two hosts: B137.
    b.clock.set_back_wall_clock(Duration::from_secs(2));
    let (first, second) =
        (a.job("sync").label("a").schedule(every_minute()).build()?, b.job("sync").schedule(every_minute()).build()?);
    let ran =
        first.run_tick(a.now(), |run| async move { Ok::<_, String>((run.scheduled_at(), run.attempt())) }).await?;
    assert_eq!(ran, Outcome::Ran((a.now(), 1)));
    let skipped = second.run_tick(b.now(), nothing).await?;
    assert!(matches!(&skipped, Outcome::Skipped(Skipped::Claimed { by: Some(by), .. }) if by == "a"), "{skipped:?}");

    for replica in [&a, &b] {
        replica.clock.advance(MINUTE);
    }
    let failed = second.run_tick(b.now(), |run| async move {
        Err::<(), _>(run.previous_success().map(|t| t.to_string())).map_err(|t| t.unwrap_or_default())
    });
    assert_eq!(failed.await?, Outcome::Failed("2026-05-05T12:00:00.000Z".to_owned()));
    let record = record(&first).await?;
    let statuses: Vec<_> = record.history.iter().map(|entry| entry.status).collect();
    assert_eq!((statuses, record.consecutive_failures), (vec![Status::Succeeded, Status::Failed], 1));
    let run = record.last.expect("it ran");
    assert_eq!(run.error.as_deref(), Some("2026-05-05T12:00:00.000Z"));
    // A slot that no clock can be near to.
    let ahead = first.run_tick(a.now().plus(Duration::from_secs(181)), nothing).await?;
    assert_eq!(ahead, Outcome::Skipped(Skipped::ClockSkew { ahead: Duration::from_secs(180) }));
    Ok(())
}

#[tokio::test]
async fn a_lock_that_is_held_is_left_waited_for_or_tried_again() -> Checked {
    let server = server();
    let (a, b) = (Replica::of(&server), Replica::of(&server));
    let holder = a.job("sync").label("web-1").schedule(every_minute()).build()?;
    let by = |policy| b.job("sync").schedule(every_minute()).on_conflict(policy).build();
    let (go_on, wait) = oneshot::channel::<()>();
    let (started, begins) = oneshot::channel();
    let at = a.now();
    let run = tokio::spawn(async move {
        let work = |_| async move {
            let _ = started.send(());
            let _ = wait.await;
            Ok::<_, String>(())
        };
        holder.run_tick(at, work).await
    });
    soon(begins).await??;
    let quick = Duration::from_millis(5);
    for policy in [OnConflict::Skip, OnConflict::Wait(quick), OnConflict::Retry(Backoff::full_jitter(quick, quick * 2))]
    {
        let skipped = by(policy)?.run_tick(b.now(), nothing).await?;
        assert!(
            matches!(&skipped, Outcome::Skipped(Skipped::Held { holder: Some(by), since: Some(_) }) if by == "web-1"),
            "{policy:?}: {skipped:?}"
        );
    }
    let waiter = by(OnConflict::Wait(SOON))?;
    let waits = tokio::spawn(async move { waiter.run_tick(at, nothing).await });
    go_on.send(()).map_err(|()| "the run has ended")?;
    assert_eq!(soon(run).await???, Outcome::Ran(()));
    // Had the lock, and found the slot used.
    let late = soon(waits).await???;
    assert!(matches!(late, Outcome::Skipped(Skipped::Claimed { .. })), "{late:?}");
    Ok(())
}

#[tokio::test]
async fn people_pause_resume_and_trigger_also_while_it_runs() -> Checked {
    let server = server();
    let replica = Replica::of(&server);
    let job = replica.job("sync").schedule(every_minute()).build()?;
    let control = job.control().clone();
    let ran =
        job.run_tick(replica.now(), |_| async move { control.pause("eve").await.map_err(|error| error.to_string()) });
    assert_eq!(ran.await?, Outcome::Ran(()));
    let paused = record(&job).await?;
    assert_eq!(paused.last.as_ref().map(|run| run.status), Some(Status::Succeeded), "the line of the run is not lost");
    assert_eq!(paused.paused.map(|pause| pause.by), Some("eve".to_owned()), "nor is the pause");
    replica.clock.advance(MINUTE);
    assert_eq!(job.run_tick(replica.now(), nothing).await?, Outcome::Skipped(Skipped::Paused));
    job.control().trigger("eve").await?;
    assert_eq!(job.run_triggered(0, nothing).await?, Outcome::Skipped(Skipped::Paused));

    job.control().resume().await?;
    let by_hand = |run: lockyard_jobs::RunContext| async move { Ok::<_, String>(run.is_triggered()) };
    assert_eq!(job.run_triggered(0, by_hand).await?, Outcome::Ran(true));
    let again = job.run_triggered(0, by_hand).await?;
    assert!(matches!(again, Outcome::Skipped(Skipped::Claimed { .. })), "one run a trigger: {again:?}");
    replica.clock.advance(MINUTE);
    assert_eq!(job.run_tick(replica.now(), nothing).await?, Outcome::Ran(()));
    Ok(())
}

#[tokio::test]
async fn a_run_that_takes_too_long_is_told_and_then_dropped_under_its_lock() -> Checked {
    // B139
    let server = server();
    let replica = Replica::of(&server);
    let other = Replica::of(&server);
    let limit = Duration::from_millis(50);
    let build = |name: &str, abort| replica.job(name).at_most_for(limit).abort_after(abort).build();
    // Ends by itself when it is told.
    let polite = build("polite", SOON)?;
    let ran = polite.run_tick(replica.now(), |run| async move {
        run.cancelled().await;
        assert!(run.is_cancelled());
        Ok::<_, String>(())
    });
    assert_eq!(ran.await?, Outcome::TimedOut);
    // Does not: and nobody else gets the lock before it is dropped.
    struct Alive(Arc<AtomicBool>);
    impl Drop for Alive {
        fn drop(&mut self) {
            self.0.store(false, Ordering::SeqCst);
        }
    }
    let deaf = build("deaf", limit)?;
    let alive = Arc::new(AtomicBool::new(true));
    let work = Alive(Arc::clone(&alive));
    let at = replica.now();
    let run = tokio::spawn(async move {
        deaf.run_tick(at, |_| async move {
            let _work = work;
            std::future::pending::<()>().await;
            Ok::<_, String>(())
        })
        .await
    });
    while alive.load(Ordering::SeqCst) {
        if let Some(guard) = other.locks.try_acquire("@job/deaf").await? {
            assert!(!run.is_finished() || !alive.load(Ordering::SeqCst), "the lock was free while the work went on");
            guard.release().await?;
        }
        tokio::task::yield_now().await;
    }
    assert_eq!(soon(run).await???, Outcome::TimedOut);
    Ok(())
}

#[tokio::test]
async fn a_loss_ends_the_run_and_is_no_success() -> Checked {
    let server = server();
    let replica = Replica::of(&server);
    let heard = Heard::default();
    let job = replica.job("sync").ttl(Duration::from_millis(600)).observer(heard.clone()).build()?;
    let (backend, locks) = (server.clone(), replica.locks.clone());
    let lost = job.run_tick(replica.now(), |_| async move {
        let owner = locks.inspect("@job/sync").await.expect("answers").expect("it is held").owner.expect("known");
        let claim = Claim::new(LockName::new("@job/sync").expect("a name"), Duration::from_secs(1)).with_owner(owner);
        let _ = backend.revoke(&Namespace::default(), &claim);
        std::future::pending::<()>().await;
        Ok::<_, String>(())
    });
    assert_eq!(lost.await?, Outcome::Lost { reason: LostReason::Revoked });
    assert_eq!(record(&job).await?.last.map(|run| run.status), Some(Status::Lost));
    let ended = heard.events().iter().any(|event| matches!(event, JobEvent::Ended { outcome: "lost", .. }));
    assert!(ended, "{:?}", heard.events());

    // The service is gone: the run is told to end while the lock is still held.
    replica.clock.advance(MINUTE);
    let (link, locks) = (Arc::clone(replica.lock.link()), replica.locks.clone());
    let told = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&told);
    let lost = job.run_tick(replica.now(), |run| async move {
        link.silence();
        run.cancelled().await;
        seen.store(true, Ordering::SeqCst);
        drop(locks);
        Ok::<_, String>(())
    });
    assert_eq!(lost.await?, Outcome::Lost { reason: LostReason::Expired });
    replica.lock.link().heal();
    assert!(told.load(Ordering::SeqCst), "it was dropped without a word");
    Ok(())
}

#[tokio::test]
async fn a_crash_is_told_by_the_next_run() -> Checked {
    let server = server();
    let (a, b) = (Replica::of(&server), Replica::of(&server));
    let heard = Heard::default();
    let (dies, next) = (
        a.job("sync").label("a").schedule(every_minute()).build()?,
        b.job("sync").schedule(every_minute()).observer(heard.clone()).build()?,
    );
    let at = a.now();
    let (started, begins) = oneshot::channel();
    let run = tokio::spawn(async move {
        let work = |_| async move {
            let _ = started.send(());
            std::future::pending::<Result<(), String>>().await
        };
        dies.run_tick(at, work).await
    });
    soon(begins).await??;
    run.abort();
    assert!(run.await.is_err());
    // Given back in the background.
    let free = || async { matches!(b.locks.inspect("@job/sync").await, Ok(None)) };
    eventually(SOON, free).await.ok_or("the lock is never free")?;
    let same = next.run_tick(at, nothing).await?;
    assert_eq!(same, Outcome::Skipped(Skipped::Misfired { missed: 0, crashed: true }));
    let rerun = b.job("sync").schedule(every_minute()).on_crash(OnCrash::Rerun).build()?;

    b.clock.advance(MINUTE * 3);
    let facts = next.run_tick(b.now(), |run| async move { Ok::<_, String>((run.after_crash(), run.missed())) }).await?;
    assert_eq!(facts, Outcome::Ran((true, 2)));
    let crash = heard.events().into_iter().find(|event| matches!(event, JobEvent::Crashed { .. }));
    assert!(matches!(crash, Some(JobEvent::Crashed { holder, .. }) if holder == "a"));
    let history: Vec<_> = record(&next).await?.history.iter().map(|entry| (entry.status, entry.count)).collect();
    assert_eq!(history, [(Status::Crashed, 1), (Status::Missed, 2), (Status::Succeeded, 1)]);
    drop(rerun);
    Ok(())
}

#[tokio::test]
async fn a_crashed_slot_is_run_again_only_when_asked_for() -> Checked {
    let server = server();
    let replica = Replica::of(&server);
    let job = replica.job("sync").schedule(every_minute()).on_crash(OnCrash::Rerun).build()?;
    let panicking = tokio::spawn({
        let (job, at) = (job.clone(), replica.now());
        async move { job.run_tick(at, |_| async { if true { panic!("by design") } else { Ok::<(), String>(()) } }).await }
    });
    assert!(panicking.await.is_err_and(|error| error.is_panic()), "the panic goes on");
    let after = record(&job).await?.last.ok_or("it ran")?;
    assert_eq!((after.status, after.error.as_deref()), (Status::Failed, Some("panicked: by design")));
    let again = job.run_tick(replica.now(), nothing).await?;
    assert!(matches!(again, Outcome::Skipped(Skipped::Claimed { .. })), "a panic is no crash: {again:?}");

    replica.clock.advance(MINUTE);
    let at = replica.now();
    tokio::select! {
        biased;
        _ = job.run_tick(at, |_| std::future::pending::<Result<(), String>>()) => return Err("it never ends".into()),
        () = started(&job, at) => {}
    }
    let free = || async { matches!(replica.locks.inspect("@job/sync").await, Ok(None)) };
    eventually(SOON, free).await.ok_or("the lock is never free")?;
    let attempt = job.run_tick(at, |run| async move { Ok::<_, String>(run.attempt()) }).await?;
    assert_eq!(attempt, Outcome::Ran(2));
    Ok(())
}

/// Ends when the record shows a run of this slot.
async fn started(job: &lockyard_jobs::Job, at: lockyard_jobs::WallTime) {
    let running = || async { record(job).await.is_ok_and(|record| record.is_running() && record.slot == Some(at)) };
    eventually(SOON, running).await.expect("it starts");
}

#[tokio::test]
async fn a_claim_without_an_answer_is_looked_up_and_counts_once() -> Checked {
    let server = server();
    let replica = Replica::of(&server);
    let job = replica.job("sync").schedule(every_minute()).build()?;
    assert_eq!(job.run_tick(replica.now(), nothing).await?, Outcome::Ran(()));
    for _ in 0..3 {
        replica.clock.advance(MINUTE);
        // The first request of the register after the lock is had is the read of the record, the second the claim.
        let register = replica.register.clone();
        let at = replica.now();
        let swallowing = Swallowing { register, after: std::sync::atomic::AtomicU32::new(1) };
        let job = lockyard_jobs::Job::builder("sync", replica.locks.clone(), Arc::new(swallowing))
            .clock(replica.clock.clone())
            .schedule(every_minute())
            .build()?;
        assert_eq!(job.run_tick(at, nothing).await?, Outcome::Ran(()));
        let again = job.run_tick(at, nothing).await?;
        assert!(matches!(again, Outcome::Skipped(Skipped::Claimed { .. })), "{again:?}");
    }
    let record = record(&job).await?;
    assert_eq!((record.history.len(), record.consecutive_failures), (4, 0));
    Ok(())
}

/// A register whose first write of a run record arrives and is not answered.
#[derive(Debug)]
struct Swallowing {
    register: lockyard_memory::MemoryRegister,
    after: std::sync::atomic::AtomicU32,
}

#[lockyard::async_trait]
impl lockyard::FencedRegister for Swallowing {
    async fn read(&self, name: &LockName) -> lockyard::Result<lockyard::Fenced> {
        self.register.read(name).await
    }

    async fn write(
        &self,
        name: &LockName,
        value: &[u8],
        token: lockyard::FencingToken,
        expected: lockyard::Version,
    ) -> lockyard::Result<lockyard::Write> {
        if name.as_str().starts_with("@job/") && self.after.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.register.link().swallow_reply();
        }
        self.register.write(name, value, token, expected).await
    }
}

#[tokio::test]
async fn a_record_that_cannot_be_used_is_told_and_left_alone() -> Checked {
    let server = server();
    let replica = Replica::of(&server);
    let job = replica.job("sync").schedule(every_minute()).build()?;
    for (value, is_newer) in
        [(&br#"{"v":9,"slots":{}}"#[..], true), (b"{\"v\":1,\"slot\":7}", false), (b"\x00\xff", false)]
    {
        overwrite(&replica.register, "sync", value).await?;
        let error = job.run_tick(replica.now(), nothing).await.expect_err("no record");
        let JobError::Record { source, .. } = &error else { panic!("{error}") };
        assert_eq!(matches!(source, RecordError::Newer { found: 9, known: 1 }), is_newer, "{error}");
        assert!(job.control().pause("eve").await.is_err());
        let name = LockName::new("@job/sync")?;
        let stands = lockyard::FencedRegister::read(&replica.register, &name).await?;
        assert_eq!(stands.value.as_deref(), Some(value), "it was overwritten");
    }
    Ok(())
}

#[tokio::test]
async fn a_job_stays_closed_for_a_time_whatever_becomes_of_its_replica() -> Checked {
    let server = server();
    let least = Duration::from_secs(2);
    let a = Replica::of(&server);
    let job = a.job("sync").at_least_for(least).build()?;
    assert_eq!(job.run_tick(a.now(), nothing).await?, Outcome::Ran(()));
    drop((job, a));
    // Another host, whose clock is an hour ahead: B137.
    let b = Replica::of(&server);
    b.clock.advance(MINUTE * 60);
    let job = b.job("sync").at_least_for(least).build()?;
    let soon = job.run_tick(b.now(), nothing).await?;
    let Outcome::Skipped(Skipped::TooSoon { until }) = soon else { panic!("{soon:?}") };
    assert!(until > b.now() && until <= b.now().plus(least), "{until}");
    let ran = || async { matches!(job.run_tick(b.now(), nothing).await, Ok(Outcome::Ran(()))) };
    eventually(SOON, ran).await.ok_or("it stays closed for ever")?;
    Ok(())
}

#[tokio::test]
async fn slots_that_are_too_late_are_written_down_once() -> Checked {
    let server = server();
    let replica = Replica::of(&server);
    let grace = Duration::from_secs(10);
    let job = replica.job("sync").schedule(every_minute()).misfire(Misfire::FireOnce { grace }).build()?;
    assert_eq!(job.run_tick(replica.now(), nothing).await?, Outcome::Ran(()));
    replica.clock.advance(MINUTE * 3 + grace * 2);
    let late = job.run_tick(replica.now(), nothing).await?;
    assert_eq!(late, Outcome::Skipped(Skipped::Misfired { missed: 3, crashed: false }));
    let again = job.run_tick(replica.now(), nothing).await?;
    assert!(matches!(again, Outcome::Skipped(Skipped::Claimed { .. })), "{again:?}");
    assert_eq!(record(&job).await?.history.last().map(|entry| (entry.status, entry.count)), Some((Status::Missed, 3)));
    Ok(())
}
