//! Claims that have a session for themselves: those that wait, those that won by waiting, those whose lease is fixed, and
//! in row mode all.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use foldhash::fast::RandomState;
use lockyard_api::{
    Attempt, Claim, Clock, Error, ErrorKind, IfBusy, Outcome, Owner, Release, Renew, Renewal, Result, Wake,
};
use tokio::runtime::Handle;
use tokio::time::timeout;

use crate::classes::class_of;
use crate::config::PostgresConfig;
use crate::control::{Control, column};
use crate::crowd::Crowd;
use crate::driven::{driven, line_within};
use crate::error;
use crate::keeper::{Heartbeat, beat, keep};
use crate::key::Target;
use crate::locking::Locking;
use crate::opener::{Opener, Purpose};
use crate::registry::{Held, Wanted};
use crate::session::{Chosen, LockSession};
use crate::statements::IS_WAITING;
use crate::waiter::{Stage, Waiter};
use crate::waiting::{Tools, give_back, try_once, wait_in_queue};

/// By owners, which are random: a quick hash will do.
type Claims = HashMap<Owner, Arc<Waiter>, RandomState>;

/// The own-session claims of one client.
pub(crate) struct Own {
    claims: Mutex<Claims>,
    opener: Arc<Opener>,
    control: Arc<Control>,
    heartbeat: Heartbeat,
    crowd: Crowd,
    clock: Clock,
    wait_slice: Duration,
    op_timeout: Duration,
    runtime: Handle,
}

impl Own {
    pub(crate) fn new(
        config: &PostgresConfig,
        opener: Arc<Opener>,
        control: Arc<Control>,
        heartbeat: Heartbeat,
    ) -> Self {
        Self {
            claims: Mutex::default(),
            opener,
            control,
            heartbeat,
            crowd: Crowd::default(),
            clock: config.options.clock.clone(),
            wait_slice: config.wait_slice,
            op_timeout: config.options.op_timeout,
            runtime: Handle::current(),
        }
    }

    pub(crate) fn runtime(&self) -> &Handle {
        &self.runtime
    }

    fn claims(&self) -> MutexGuard<'_, Claims> {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn find(&self, owner: Owner) -> Option<Arc<Waiter>> {
        self.claims().get(&owner).map(Arc::clone)
    }

    /// Whether it was still known.
    fn forget(&self, waiter: &Waiter) -> bool {
        self.claims().remove(&waiter.wanted.owner).is_some()
    }

    /// The claim is over; its session is kept for the next one.
    fn retire(&self, waiter: &Waiter) {
        if self.forget(waiter) {
            self.recycle(waiter);
        }
    }

    /// The hold of this client on `target` that process `pid` has.
    pub(crate) fn held_by(&self, target: Target, pid: i32) -> Option<(Owner, Held)> {
        self.claims().values().find_map(|waiter| waiter.won_by(target, pid))
    }

    /// Opens a spare session.
    pub(crate) async fn warm(&self, class: Duration) -> Result<()> {
        let session = self.open(class, &[], false).await?;
        self.opener.spares.keep(&session);
        Ok(())
    }

    /// Takes a session for this claim. `tries`: asks once without waiting before it queues.
    pub(crate) async fn start(&self, claim: &Claim, locking: Locking, tries: bool) -> Result<Attempt> {
        let fixed = claim.renew == Renew::Never;
        let chosen = self.session(class_of(claim.ttl), &locking, fixed).await?;
        let waiter = Waiter::new(Wanted::new(claim), chosen, locking, fixed, &self.runtime);
        self.claims().insert(claim.owner, Arc::clone(&waiter));
        if claim.if_busy == IfBusy::Leave || (tries && !self.is_crowded(claim)) {
            if let Some(granted) = self.attempt(&waiter).await? {
                return Ok(granted);
            }
            self.found_held(claim);
            if claim.if_busy == IfBusy::Leave {
                self.retire(&waiter);
                return Ok(Attempt::Busy);
            }
        }
        Box::pin(self.queue(&waiter)).await
    }

    /// Whether a try would very likely find the name held.
    pub(crate) fn is_crowded(&self, claim: &Claim) -> bool {
        claim.if_busy == IfBusy::Queue && self.crowd.is_at(&claim.name, &self.clock)
    }

    /// A try has found the name held.
    pub(crate) fn found_held(&self, claim: &Claim) {
        self.crowd.found_held(&claim.name, self.clock.now());
    }

    async fn attempt(&self, waiter: &Arc<Waiter>) -> Result<Option<Attempt>> {
        let line = line_within(self.op_timeout, &waiter.session).await.map_err(Error::not_applied)?;
        let Some(line) = line else {
            self.forget(waiter);
            return Err(error::lost_before_use());
        };
        let tried =
            driven(&self.runtime, self.op_timeout, &waiter.session, "trying", try_once(Arc::clone(waiter), line));
        let granted = tried.await?.inspect_err(|error| {
            if error.outcome() == Outcome::NotApplied {
                self.forget(waiter);
                waiter.session.close();
            }
        })?;
        Ok(granted.map(Attempt::Granted))
    }

    async fn queue(&self, waiter: &Arc<Waiter>) -> Result<Attempt> {
        waiter.queue(wait_in_queue(Arc::clone(waiter), self.tools()));
        let started = waiter.until(|stage| !matches!(stage, Stage::Starting));
        let stage = timeout(self.op_timeout, started).await.map_err(|_| error::no_answer("queueing"))?;
        match stage {
            Stage::Queued => {
                self.in_the_queue(waiter).await?;
                Ok(Attempt::Queued)
            }
            Stage::Won(grant) => Ok(Attempt::Granted(grant)),
            Stage::Failed(kind, message) => {
                self.forget(waiter);
                Err(Error::new(kind, &*message))
            }
            _ => Err(error::session_changed()),
        }
    }

    fn tools(&self) -> Tools {
        let slice = self.wait_slice;
        let slice_limit = (!slice.is_zero()).then(|| slice.mul_f64(1.2) + self.op_timeout);
        Tools { control: Arc::clone(&self.control), op_timeout: self.op_timeout, slice_limit }
    }

    /// Where the order of arrival is promised, `Queued` is answered only when the server has the wait in its queue.
    async fn in_the_queue(&self, waiter: &Waiter) -> Result<()> {
        while self.wait_slice.is_zero() && matches!(waiter.stage(), Stage::Queued) {
            let row = self.control.row(sqlx::query(IS_WAITING).bind(waiter.session.backend.pid), "queueing").await?;
            if row.map(|row| column::<bool>(&row, 0)).transpose()?.unwrap_or(false) {
                break;
            }
        }
        Ok(())
    }

    async fn session(&self, class: Duration, locking: &Locking, fixed: bool) -> Result<Chosen> {
        if !fixed && let Some(chosen) = self.opener.spares.take(class) {
            return Ok(chosen);
        }
        // Boxed: what seldom runs should not be carried about by every acquire.
        let session = Box::pin(self.open(class, &locking.prepared(), fixed)).await?;
        Chosen::choose(&session).ok_or_else(error::lost_before_use)
    }

    async fn open(&self, class: Duration, prepared: &[&str], fixed: bool) -> Result<Arc<LockSession>> {
        let session = self.opener.open(class, Purpose::Wait, prepared).await?;
        let heartbeat = if fixed { Heartbeat::Off } else { self.heartbeat.clone() };
        self.runtime.spawn(keep(Arc::clone(&session), heartbeat, true));
        Ok(session)
    }

    /// Keeps a session whose claim is over, and on which nothing was ever cancelled.
    fn recycle(&self, waiter: &Waiter) {
        let session = &waiter.session;
        if waiter.fixed() || session.is_over() {
            session.close();
            return;
        }
        self.opener.spares.keep(session);
    }

    /// The answer to a repeated attempt. `None`: the claim has nothing any more and may try anew.
    pub(crate) async fn repeat(&self, waiter: &Arc<Waiter>) -> Result<Option<Attempt>> {
        match waiter.stage() {
            // A try of this claim is under way, or its session has ended before it was answered.
            Stage::Trying => match line_within(self.op_timeout, &waiter.session).await? {
                None => Err(error::session_changed()),
                Some(_) if matches!(waiter.stage(), Stage::Trying) => {
                    self.forget(waiter);
                    waiter.session.close();
                    Ok(None)
                }
                Some(_) => Ok(waiter.held().map(|held| Attempt::Granted(held.grant()))),
            },
            // Who asks again instead of waiting does not drive the wait.
            Stage::Starting | Stage::Queued => {
                waiter.detach();
                Ok(Some(Attempt::Queued))
            }
            Stage::Won(_) => {
                let (Renewal::Renewed { .. }, Some(held)) = (self.renew(waiter).await?, waiter.held()) else {
                    return Err(error::session_changed());
                };
                Ok(Some(Attempt::Granted(held.grant())))
            }
            // A limit of the server may have passed; what was lost with its connection is lost.
            Stage::Failed(ErrorKind::Capacity, _) => {
                self.forget(waiter);
                Ok(None)
            }
            Stage::Failed(..) | Stage::GivenUp | Stage::Vanished => Err(error::session_changed()),
        }
    }

    pub(crate) async fn wait(&self, owner: Owner) -> Result<Wake> {
        let Some(waiter) = self.find(owner) else { return Ok(Wake::Retry) };
        match waiter.until(Stage::has_ended).await {
            Stage::Won(grant) => Ok(Wake::Granted(grant)),
            Stage::Failed(kind, message) => Err(Error::new(kind, &*message)),
            _ => Ok(Wake::Retry),
        }
    }

    pub(crate) async fn renew(&self, waiter: &Arc<Waiter>) -> Result<Renewal> {
        let session = &waiter.session;
        if !waiter.fixed() {
            let (kept, heartbeat) = (Arc::clone(session), self.heartbeat.clone());
            let confirmed = async move { beat(&kept, &heartbeat).await.map(drop) };
            driven(&self.runtime, self.op_timeout, session, "confirming", confirmed).await?;
        }
        Ok(session.renewal(waiter.locking.target()))
    }

    pub(crate) async fn release(&self, waiter: &Arc<Waiter>) -> Result<Release> {
        waiter.give_up();
        let mut stage = waiter.stage();
        if !matches!(stage, Stage::Trying) && !stage.has_ended() {
            let ended = Box::pin(timeout(self.op_timeout, waiter.until(Stage::has_ended)));
            stage = ended.await.map_err(|_| error::no_answer("cancelling a wait"))?;
        }
        match stage {
            Stage::Won(_) | Stage::Trying => self.give_back(waiter).await,
            Stage::Vanished | Stage::GivenUp => {
                Box::pin(self.control.surely_over(&waiter.session)).await?;
                self.forget(waiter);
                Ok(Release::Released)
            }
            Stage::Failed(..) | Stage::Starting | Stage::Queued => {
                Box::pin(self.control.surely_over(&waiter.session)).await?;
                self.forget(waiter);
                Ok(Release::NotHeld)
            }
        }
    }

    async fn give_back(&self, waiter: &Arc<Waiter>) -> Result<Release> {
        let session = &waiter.session;
        let line = line_within(self.op_timeout, session).await?;
        let Some(line) = line.filter(|_| session.has(waiter.locking.target())) else {
            Box::pin(self.control.surely_over(session)).await?;
            self.forget(waiter);
            session.close();
            return Ok(Release::NotHeld);
        };
        let op = give_back(Arc::clone(waiter), line);
        let released = driven(&self.runtime, self.op_timeout, session, "giving back", op).await??;
        self.retire(waiter);
        Ok(released)
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        for waiter in self.claims().values() {
            waiter.give_up();
            waiter.session.close();
        }
    }
}
