//! The slots of a plain lock: each is started once, by whoever holds the lock at the time.

use std::sync::Arc;

use lockyard_api::{Clock, FencedRegister, FencingToken, Guard, LockName, Version};

use crate::ledger::{Found, Ledger, Put};
use crate::record::{Run, Status};
use crate::{JobError, Record, RecordError, Result, Schedule, Ticks, WallTime, names};

/// Claims slots under a lock that its caller takes and keeps, for who has timers and processes of his own: what is behind
/// `lockyard run --tick`. A slot that was claimed before, by any host and whatever its clock said, is refused.
///
/// The record stands in the register under a name of its own. As with [`Job`](crate::Job), a crash between the claim and the
/// end of the work leaves the slot used, and at most one start holds where fencing is durable.
///
/// ```
/// # async fn example(locks: lockyard_api::Locker, register: std::sync::Arc<dyn lockyard_api::FencedRegister>)
/// # -> Result<(), Box<dyn std::error::Error>> {
/// use lockyard_jobs::{Schedule, SlotClaim, Slots, Status, WallTime};
/// let slots = Slots::new("nightly", &Schedule::cron("0 2 * * *"), register, locks.clock().clone())?;
/// let slot = slots.slot_at(WallTime::now(locks.clock())).expect("it has ticks before now");
/// if let Some(guard) = locks.try_acquire("nightly").await? {
///     if let SlotClaim::Claimed(claimed) = slots.claim(&guard, slot, "web-2").await? {
///         // … the work, as long as guard.is_held() …
///         slots.close(claimed, Status::Succeeded, None).await?;
///     }
///     guard.release().await?;
/// }
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Slots {
    ticks: Ticks,
    clock: Clock,
    ledger: Ledger<Record>,
}

/// What came of the attempt to claim a slot.
#[derive(Debug)]
#[non_exhaustive]
pub enum SlotClaim {
    /// It is the caller's: it may start, if it still holds the lock.
    Claimed(ClaimedSlot),
    /// It, or a later one, was claimed before.
    Used {
        /// By whom.
        by: Option<String>,
        /// When, by the clock of that host.
        at: Option<WallTime>,
    },
    /// The record shows that the lock is somebody else's by now.
    Lost,
}

/// A slot that is claimed, to be closed when the work has ended.
#[derive(Debug)]
#[must_use = "a slot that is never closed counts as crashed"]
pub struct ClaimedSlot {
    record: Box<Record>,
    version: Version,
    token: FencingToken,
    run_id: String,
}

impl Slots {
    /// The slots of this schedule for the lock of this name.
    ///
    /// # Errors
    /// [`JobError::Invalid`] for a schedule that is none, [`JobError::Lock`] for a name that is none or too long.
    pub fn new(name: &str, schedule: &Schedule, register: Arc<dyn FencedRegister>, clock: Clock) -> Result<Self> {
        let ticks = schedule.ticks(name, WallTime::now(&clock))?;
        let record = LockName::new(name).and_then(|_| names::run(name)).map_err(|error| JobError::lock(name, error))?;
        Ok(Self { ticks, ledger: Ledger::new(register, clock.clone(), name, record), clock })
    }

    /// The slot that a start at this time is meant for: [`Ticks::slot_at`].
    #[must_use]
    pub fn slot_at(&self, time: WallTime) -> Option<WallTime> {
        self.ticks.slot_at(time)
    }

    /// Claims the slot for the holder of the lock.
    ///
    /// # Errors
    /// [`JobError::Record`] for a record that cannot be used, which is left as it is; [`JobError::Lock`] when the service did
    /// not answer: the slot may be used then.
    ///
    /// # Cancel safety
    /// Dropped, the slot may be used or not.
    pub async fn claim(&self, guard: &Guard, slot: WallTime, holder: &str) -> Result<SlotClaim> {
        let token = guard.fencing_token().ok_or_else(|| {
            self.ledger.lock_error(lockyard_api::Error::unsupported("the lock came without a fencing token"))
        })?;
        // The owner is random, the token tells hand-offs apart.
        let run_id = format!("{}-{token}", guard.claim().owner);
        for _ in 0..Ledger::<Record>::ATTEMPTS {
            let Found { mut record, version, .. } = self.ledger.read().await?;
            if record.slot.is_some_and(|used| slot <= used) {
                let last = record.last.as_ref();
                return Ok(SlotClaim::Used {
                    by: last.map(|run| run.holder.clone()),
                    at: last.map(|run| run.started_at),
                });
            }
            let now = WallTime::now(&self.clock);
            // The lock is ours, so it does not run any more.
            if record.is_running() {
                record.end(Status::Crashed, now, None);
            }
            record.begin(Run::begun(slot, &run_id, holder, token, now), None);
            let put =
                self.ledger.put(&record, token, version, Ledger::<Record>::PATIENCE, |found| found.is_run(&run_id));
            match put.await? {
                Put::Done(version) => {
                    return Ok(SlotClaim::Claimed(ClaimedSlot { record: Box::new(record), version, token, run_id }));
                }
                Put::Stale => return Ok(SlotClaim::Lost),
                Put::Conflict => {}
            }
        }
        Err(self.ledger.record_error(RecordError::Contended { attempts: Ledger::<Record>::ATTEMPTS }))
    }

    /// Writes down how the work ended, unless a later holder stands there. `error` is for people, and cut short.
    ///
    /// # Errors
    /// [`JobError::Lock`] when the service did not answer: the next run may find the slot crashed.
    ///
    /// # Cancel safety
    /// Dropped, it may be written or not.
    pub async fn close(&self, claimed: ClaimedSlot, status: Status, error: Option<String>) -> Result<()> {
        let ClaimedSlot { mut record, version, token, run_id } = claimed;
        record.end(status, WallTime::now(&self.clock), error);
        let mine = |found: &Record| found.is_run(&run_id) && !found.is_running();
        self.ledger.put(&record, token, version, Ledger::<Record>::PATIENCE, mine).await.map(drop)
    }
}
