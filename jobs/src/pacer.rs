//! The pace of one job, or of one of its shards: from tick to tick.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use lockyard_api::{Clock, Moment};
use tokio::sync::watch;

use crate::job::Asked;
use crate::scheduler::Work;
use crate::{Job, JobError, Misfire, OnCrash, Outcome, Record, WallTime};

/// Drives one lane of a job until the end is asked for.
pub(crate) struct Pacer {
    job: Job,
    shard: u32,
    work: Work,
    poll: Duration,
    /// Up to here nothing is due any more.
    settled: WallTime,
    /// When the record is looked at next for a run that was asked for by hand.
    look: Moment,
    /// How long to wait after a tick that came to no outcome.
    wait: Duration,
}

/// What became of a tick.
enum Tick {
    /// Nothing is left to do for it.
    Settled,
    /// Slots before it were caught up: there may be more.
    More,
    /// It came to no outcome: again later.
    Failed,
}

impl Pacer {
    const FIRST_WAIT: Duration = Duration::from_millis(100);
    const LONGEST_WAIT: Duration = Duration::from_secs(10);
    /// The wall clock may be set at any time: what it said is not relied on for longer.
    const TRUST: Duration = Duration::from_secs(1);

    pub(crate) fn new(job: Job, shard: u32, work: Work, poll: Duration, settled: WallTime) -> Self {
        let look = job.inner.locks.clock().now();
        Self { job, shard, work, poll, settled, look, wait: Self::FIRST_WAIT }
    }

    /// Runs tick after tick until `ended` turns true; `stopped` ends the run under way.
    pub(crate) async fn run(mut self, mut ended: watch::Receiver<bool>, stopped: watch::Receiver<bool>) {
        self.begin(&mut ended).await;
        while let Some(asked) = self.due(&mut ended).await {
            let tick = self.tick(asked, stopped.clone()).await;
            match (asked, tick) {
                (Asked::Slot(slot), Tick::Settled) => self.settled = slot,
                (_, Tick::Failed) => self.rest(&mut ended).await,
                (Asked::Trigger, _) | (_, Tick::More) => {}
            }
        }
    }

    /// Finds out from when on slots are due: from the record's on, so that one that was due while nobody ran is seen; from
    /// the start on for a job that has never run.
    async fn begin(&mut self, ended: &mut watch::Receiver<bool>) {
        while !*ended.borrow() {
            match self.job.control().record(self.shard).await {
                Ok(record @ Record { slot: Some(slot), .. }) => {
                    // What may have crashed is asked for again; when it goes on, its lock is held.
                    let rerun = record.is_running() && self.job.inner.settings.on_crash == OnCrash::Rerun;
                    let from = if rerun { slot.minus(Duration::from_millis(1)) } else { slot };
                    self.settled = self.settled.min(from);
                }
                // A record that cannot be used is told by each tick.
                Ok(_) | Err(JobError::Record { .. }) => {}
                Err(_) => {
                    self.rest(ended).await;
                    continue;
                }
            }
            break;
        }
        self.wait = Self::FIRST_WAIT;
    }

    /// Waits for what is due next; `None` when the end was asked for.
    async fn due(&mut self, ended: &mut watch::Receiver<bool>) -> Option<Asked> {
        let clock = self.job.inner.settings.clock.clone();
        let own = self.job.inner.locks.clock().clone();
        while !*ended.borrow() {
            let now = self.job.inner.now().minus(self.job.start_delay());
            let next = self.job.ticks().next_after(self.settled);
            if next.is_some_and(|next| next <= now) {
                // Of several that are due the latest: the policy says what becomes of the others.
                return self.job.ticks().latest_at(now).map(Asked::Slot);
            }
            if own.now() >= self.look {
                self.look = own.now().plus(self.poll);
                if self.is_triggered().await {
                    return Some(Asked::Trigger);
                }
                continue;
            }
            let ahead = next.map_or(Self::TRUST, |next| next.since(now).min(Self::TRUST));
            tokio::select! {
                biased;
                // Nothing is left behind by any of these.
                gone = ended.changed() => gone.ok()?,
                () = clock.sleep(ahead) => {}
                () = own.sleep_until(self.look) => {}
            }
        }
        None
    }

    async fn is_triggered(&self) -> bool {
        let record = self.job.control().record(self.shard).await;
        record.is_ok_and(|record| record.trigger.is_some() && record.paused.is_none())
    }

    async fn tick(&mut self, asked: Asked, stopped: watch::Receiver<bool>) -> Tick {
        let work = Arc::clone(&self.work);
        let tick = self.job.tick(self.shard, asked, stopped, move |run| work(run));
        match AssertUnwindSafe(tick).catch_unwind().await {
            // It is written down as a failure.
            Err(_) => Tick::Settled,
            Ok(Ok(outcome)) => {
                self.wait = Self::FIRST_WAIT;
                let catches_up = matches!(self.job.inner.settings.misfire, Misfire::CatchUp { .. });
                if catches_up && !matches!(outcome, Outcome::Skipped(_)) { Tick::More } else { Tick::Settled }
            }
            Ok(Err(JobError::BreakerOpen { retry_in, .. })) => {
                self.wait = retry_in;
                Tick::Failed
            }
            Ok(Err(_)) => Tick::Failed,
        }
    }

    /// Waits a random time before the next attempt, or for the end.
    async fn rest(&mut self, ended: &mut watch::Receiver<bool>) {
        let time = self.wait.mul_f64(0.5 + fastrand::f64() / 2.0);
        self.wait = self.wait.saturating_mul(2).min(Self::LONGEST_WAIT);
        let clock: &Clock = self.job.inner.locks.clock();
        tokio::select! {
            biased;
            _ = ended.wait_for(|ended| *ended) => {}
            () = clock.sleep(time) => {}
        }
    }
}
