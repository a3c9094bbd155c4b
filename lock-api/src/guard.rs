//! The guard: what a holder has in its hands.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tracing::Instrument;

use crate::front::hold::{Account, Hold, Standing};
use crate::front::release::Undo;
use crate::front::turn::Turn;
use crate::front::{Course, Relay, WatchId};
use crate::front::{release, spans};
use crate::{Claim, FencingToken, Grant, LockName, LostReason, Operation, Release, Result};

/// A lock that is held. Releases it when dropped.
///
/// The hold is kept alive in the background. It can be lost all the same (the network, a pause, an operator): ask
/// [`Guard::is_held`] before what must not be done twice, watch [`Guard::lost`], or let [`Guard::run`] do both; and give
/// [`Guard::fencing_token`] to the resource, which is the only one that can refuse a late holder.
///
/// Dropped, it releases in the background and repeats that until it is answered. Dropped without a runtime, it leaves the
/// lease to end by itself.
#[must_use = "the lock is released when the guard is dropped"]
pub struct Guard {
    hold: Arc<Hold>,
    watch: Option<WatchId>,
    token: Option<FencingToken>,
    /// What is kept of this holder's time; the hold may have had others.
    account: Option<Arc<Account>>,
    course: Option<Course>,
    /// Gone once the release has begun.
    turn: Option<Turn>,
}

impl Guard {
    /// With an account where anybody wants to know.
    pub(crate) fn new(turn: Turn, grant: &Grant, account: Option<Arc<Account>>) -> Self {
        let core = turn.core();
        let mut hold = Hold::new(Arc::clone(turn.claim()), grant, core, account.clone());
        let due = hold.first_due();
        let hold = Arc::new(hold);
        let watch = core.watchdog.enter(&hold, due);
        let course = Course::begin(core.cohort, &core.clock);
        Self { hold, watch, token: grant.token, account, course, turn: Some(turn) }
    }

    /// The same hold in the hands of the next.
    pub(crate) fn relayed(turn: Turn, relay: Relay, account: Option<Arc<Account>>) -> Self {
        let Relay { hold, watch, token, course } = relay;
        hold.listen(turn.core(), account.clone());
        Self { hold, watch, token, account, course: Some(course), turn: Some(turn) }
    }

    /// The name held.
    #[must_use]
    pub fn name(&self) -> &LockName {
        &self.hold.claim.name
    }

    /// The claim behind the hold: its owner is what the server knows.
    #[must_use]
    pub fn claim(&self) -> &Claim {
        &self.hold.claim
    }

    /// The number that the resource checks; larger than that of every earlier holder of the name. `None` on a backend
    /// that does not fence.
    #[must_use]
    pub const fn fencing_token(&self) -> Option<FencingToken> {
        self.token
    }

    /// The lease granted: at least what was asked for, the session's timeout where the session keeps the hold, nothing
    /// where only the end of the process ends it.
    #[must_use]
    pub fn ttl(&self) -> Option<Duration> {
        self.hold.ttl()
    }

    /// Whether the lock is held, by the clock and at this call. Never true after the deadline.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.turn.as_ref().is_some_and(|turn| self.hold.look(turn.core().clock.now()) == Standing::Held)
    }

    /// How long it is still held if nothing more is heard from the server; zero when it is not.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        let Some(turn) = &self.turn else { return Duration::ZERO };
        let now = turn.core().clock.now();
        match self.hold.look(now) {
            Standing::Held => self.hold.deadline().since(now),
            Standing::Doubtful | Standing::Lost(_) => Duration::ZERO,
        }
    }

    /// Why the lock is lost, if it is.
    #[must_use]
    pub fn lost_reason(&self) -> Option<LostReason> {
        let turn = self.turn.as_ref()?;
        match self.hold.look(turn.core().clock.now()) {
            Standing::Lost(reason) => Some(reason),
            Standing::Held | Standing::Doubtful => None,
        }
    }

    /// Ends when the lock is lost, at the deadline at the latest, and says why.
    ///
    /// # Cancel safety
    /// May be dropped and called again; a loss is never missed.
    pub async fn lost(&self) -> LostReason {
        let Some(turn) = &self.turn else { return self.hold.loss().wait().await };
        let clock = &turn.core().clock;
        loop {
            if let Standing::Lost(reason) = self.hold.look(clock.now()) {
                return reason;
            }
            tokio::select! {
                biased;
                // Nothing is left behind by either branch.
                reason = self.hold.loss().wait() => return reason,
                () = clock.sleep_until(self.hold.deadline()) => {}
            }
        }
    }

    /// Runs `work` while the lock is held; drops it when the lock is lost.
    ///
    /// # Errors
    /// [`Lost`] when the lock was lost before the work ended. What the work did until then stays done.
    ///
    /// # Cancel safety
    /// Dropped, it drops the work; the lock stays held by the guard.
    pub async fn run<T>(&self, work: impl Future<Output = T>) -> Result<T, Lost> {
        tokio::select! {
            biased;
            reason = self.lost() => Err(Lost { name: self.name().clone(), reason }),
            output = work => Ok(output),
        }
    }

    /// Releases the lock and waits for the answer.
    ///
    /// `Ok(NotHeld)` says that it was gone already: somebody else may have held it in the meantime.
    ///
    /// # Errors
    /// When the server did not answer: the lock may still be held. The release is repeated in the background, and the
    /// lease ends it at the latest.
    ///
    /// # Cancel safety
    /// Dropped, the release runs to its end in the background.
    pub async fn release(mut self) -> Result<Release> {
        let turn = match self.end() {
            End::Release(turn) => turn,
            End::HandedOn => return Ok(Release::Released),
            End::Over => return Ok(Release::NotHeld),
        };
        let core = Arc::clone(turn.core());
        let backend = core.events.backend();
        let write = core.write(async move {
            let (core, claim) = (turn.core(), turn.claim());
            let result = core.backend.release(claim).await;
            match &result {
                Ok(release) => core.events.released(claim, *release),
                Err(error) => {
                    core.events.error(Operation::Release, Some(&claim.name), error);
                    release::retry(Arc::clone(claim), core, Undo::Hold);
                }
            }
            // The next local waiter goes on when the server has answered.
            drop(turn);
            result
        });
        let result = match spans::release(&self.hold.claim, backend) {
            None => write.await,
            Some(span) => {
                let result = Box::pin(write.instrument(span.clone())).await;
                span.record("lock.outcome", result.as_ref().map_or("error", |release| release.as_str()));
                result
            }
        };
        result.map_err(|error| error.with_operation(Operation::Release).with_name(self.name()))
    }

    /// Hands the hold on where that may be; else ends the watch, before the release is sent.
    fn end(&mut self) -> End {
        let Some(mut turn) = self.turn.take() else { return End::Over };
        if self.hold.loss().forget_hook() {
            let core = turn.core();
            core.events.ended(&self.hold, self.account.as_ref(), &core.clock);
            match self.hand_on(turn) {
                Ok(()) => return End::HandedOn,
                Err(back) => turn = back,
            }
        } else {
            turn.forget_place();
        }
        if let Some(watch) = self.watch.take() {
            turn.core().watchdog.leave(watch);
        }
        End::Release(turn)
    }

    /// To the next of this process, as far as its cohort goes. The turn comes back where the hold has to be released.
    fn hand_on(&self, turn: Turn) -> Result<(), Turn> {
        if self.course.is_none() || !self.hold.can_be_handed_on() || !turn.has_next() {
            return Err(turn);
        }
        let core = Arc::clone(turn.core());
        let Some(relay) = Relay::of(&self.hold, self.watch, self.token, self.course, &core) else { return Err(turn) };
        if core.check_open().is_err() {
            return Err(turn);
        }
        turn.hand_on(relay)?;
        core.events.released(&self.hold.claim, Release::Released);
        Ok(())
    }
}

/// What becomes of a hold when its guard goes.
enum End {
    /// It goes back to the server.
    Release(Turn),
    /// Another of this process has it.
    HandedOn,
    /// It has gone before.
    Over,
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let End::Release(turn) = self.end() {
            // After a shutdown nobody answers for background work: the lease ends it.
            if turn.core().check_open().is_ok() {
                turn.undo(Undo::Hold);
            }
        }
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").field("name", self.name()).field("token", &self.token).finish_non_exhaustive()
    }
}

/// The lock was lost while work ran under it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lost {
    /// The lock.
    pub name: LockName,
    /// Why.
    pub reason: LostReason,
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lock {:?} was lost: {}", self.name.as_str(), self.reason)
    }
}

impl std::error::Error for Lost {}
