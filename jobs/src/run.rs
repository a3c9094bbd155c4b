//! One run, from the lock to the line in the record.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::time::Duration;

use futures_util::FutureExt;
use lockyard_api::{Clock, Guard, LostReason, Moment};
use tokio::sync::watch;

use crate::claim::{Claimed, Claiming, Closing};
use crate::decide::Wanted;
use crate::event::JobEvent;
use crate::job::Inner;
use crate::lane::{Lane, Taken};
use crate::ledger::Ledger;
use crate::record::Status;
use crate::supervise::{End, Supervision};
use crate::{Outcome, Record, Result, RunContext, RunWork, WallTime};

type Panic = Box<dyn Any + Send>;

/// How the work came to its end: by itself, or with a panic.
type Ended<T, E> = End<std::result::Result<std::result::Result<T, E>, Panic>>;

/// How soon a hold in doubt is looked at again.
const DOUBT: Duration = Duration::from_millis(10);

impl Inner {
    /// Takes the lock, claims the slot, runs the work, and gives the lock back.
    pub(crate) async fn run<W: RunWork>(
        &self,
        lane: &Lane,
        wanted: Wanted,
        called: WallTime,
        stop: watch::Receiver<bool>,
        work: W,
    ) -> Result<Outcome<W::Value, W::Error>> {
        self.enrol().await;
        let guard = match self.take(lane).await? {
            Taken::Guard(guard) => guard,
            Taken::Held(skipped) => return Ok(Outcome::Skipped(skipped)),
        };
        let outcome = match self.claim(&guard, lane, wanted, called).await {
            Ok(Claiming::Claimed(claimed)) => self.start(&guard, lane, *claimed, stop, work).await,
            Ok(Claiming::Skipped(skipped)) => Ok(Ok(Outcome::Skipped(skipped))),
            Ok(Claiming::Lost) => Ok(Ok(lost(&guard))),
            Err(error) => Err(error),
        };
        if let Err(error) = guard.release().await {
            // Repeated in the background; the lease ends it.
            tracing::warn!(job.name = self.name, %error, "the lock of the job is not given back yet");
        }
        outcome?.map_or_else(|panic| resume_unwind(panic), Ok)
    }

    /// Runs the work of the slot that is claimed.
    async fn start<W: RunWork>(
        &self,
        guard: &Guard,
        lane: &Lane,
        claimed: Claimed,
        stop: watch::Receiver<bool>,
        work: W,
    ) -> Result<std::result::Result<Outcome<W::Value, W::Error>, Panic>> {
        let clock = self.locks.clock();
        if let Err(reason) = confirmed(guard, clock).await {
            // Not started. The slot is used all the same: whoever looks at it next may have seen the claim.
            self.close(lane, claimed, Status::Lost, None).await;
            return Ok(Ok(Outcome::Lost { reason }));
        }
        if let Some(marker) = &lane.marker {
            marker.set(claimed.token()).await.map_err(|error| lane.ledger.lock_error(error))?;
        }
        let (cancel, listen) = watch::channel(false);
        let context = RunContext::new(claimed.facts(lane.shard), listen);
        let (slot, run_id) = (claimed.run.slot, claimed.run.run_id.clone());
        self.tell(&JobEvent::Started { slot, run_id: run_id.clone(), delay: claimed.run.started_at.since(slot) });
        let mut running = Running { inner: self, slot, run_id, started: clock.now(), outcome: "dropped" };
        let supervision = Supervision { guard, clock, limits: self.settings.limits, cancel, stop };
        // A panic is written down before it goes on.
        let end = supervision.run(AssertUnwindSafe(async move { work(context).await }).catch_unwind()).await;
        let outcome = self.settle(guard, lane, claimed, end).await;
        running.outcome = outcome.as_ref().map_or("failed", Outcome::as_str);
        Ok(outcome)
    }

    /// Writes down how the run ended, and says it.
    async fn settle<T: Send, E: fmt::Display + Send>(
        &self,
        guard: &Guard,
        lane: &Lane,
        claimed: Claimed,
        end: Ended<T, E>,
    ) -> std::result::Result<Outcome<T, E>, Panic> {
        let (status, error) = match &end {
            End::Returned(Ok(Ok(_))) => (Status::Succeeded, None),
            End::Returned(Ok(Err(error))) => (Status::Failed, Some(error.to_string())),
            End::Returned(Err(panic)) => (Status::Failed, Some(format!("panicked: {}", words(panic.as_ref())))),
            End::Lost(reason) => (Status::Lost, Some(reason.to_string())),
            End::TimedOut => (Status::TimedOut, None),
            End::Stopped => (Status::Stopped, None),
        };
        let closing = self.close(lane, claimed, status, error).await;
        match end {
            End::Returned(Err(panic)) => Err(panic),
            // Somebody else has written under a later token: the lock was lost before the work was done.
            End::Returned(_) if closing == Closing::Gone => Ok(lost(guard)),
            End::Returned(Ok(Ok(value))) => Ok(Outcome::Ran(value)),
            End::Returned(Ok(Err(error))) => Ok(Outcome::Failed(error)),
            End::Lost(reason) => Ok(Outcome::Lost { reason }),
            End::TimedOut => Ok(Outcome::TimedOut),
            End::Stopped => Ok(Outcome::Stopped),
        }
    }

    /// How long the end of a run is tried to be written down: not long where the lock is lost.
    pub(crate) fn patience(status: Status) -> Duration {
        if status == Status::Lost { Duration::from_secs(1) } else { Ledger::<Record>::PATIENCE }
    }
}

/// A run under way: its end is told however it comes.
struct Running<'a> {
    inner: &'a Inner,
    slot: WallTime,
    run_id: String,
    started: Moment,
    outcome: &'static str,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let took = self.inner.locks.clock().now().since(self.started);
        let (run_id, at) = (std::mem::take(&mut self.run_id), self.inner.now());
        self.inner.tell(&JobEvent::Ended { slot: self.slot, run_id, at, outcome: self.outcome, took });
    }
}

fn lost<T, E>(guard: &Guard) -> Outcome<T, E> {
    Outcome::Lost { reason: guard.lost_reason().unwrap_or(LostReason::Revoked) }
}

/// Waits until the hold is certain; a jump of the clock leaves it in doubt until a renewal.
async fn confirmed(guard: &Guard, clock: &Clock) -> Result<(), LostReason> {
    while !guard.is_held() {
        if let Some(reason) = guard.lost_reason() {
            return Err(reason);
        }
        clock.sleep(DOUBT).await;
    }
    Ok(())
}

/// What a panic says.
fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a word")
}
