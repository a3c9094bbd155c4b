//! A memory client that is wrong in one way.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lockyard_api::{
    Attempt, Capabilities, Claim, Clock, DistributedLock, Error, ErrorKind, Fencing, FencingToken, Grant, Holder,
    IfBusy, Kind, Liveness, LockName, Owner, Release, Renewal, Result, Session, Wake, async_trait,
};
use lockyard_memory::MemoryLock;
use tokio::sync::Mutex as AsyncMutex;

use crate::fault::Fault;

/// What the wrong clients of one server share.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    first_token: Mutex<HashMap<LockName, FencingToken>>,
    grants: Mutex<HashMap<Owner, Grant>>,
    waiting: Mutex<HashSet<Owner>>,
    queues: AsyncMutex<HashMap<LockName, Vec<(MemoryLock, Claim)>>>,
}

#[derive(Debug)]
pub(crate) struct Mutant {
    inner: MemoryLock,
    /// A client that nothing disturbs.
    side: MemoryLock,
    fault: Fault,
    owner: Owner,
    namespace: String,
    connection: AsyncMutex<()>,
    /// Whether a request has failed since the last grant.
    failed: AtomicBool,
    releases: AtomicUsize,
    shared: Arc<Shared>,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The server's number as it is.
fn unspaced(token: FencingToken) -> Option<FencingToken> {
    FencingToken::new(token.server_number()).ok()
}

impl Mutant {
    pub(crate) fn new(inner: MemoryLock, side: MemoryLock, fault: Fault, namespace: &str, shared: Arc<Shared>) -> Self {
        let (owner, connection) = (Owner::random(), AsyncMutex::new(()));
        let (failed, releases) = (AtomicBool::new(false), AtomicUsize::new(0));
        Self { inner, side, fault, owner, namespace: namespace.to_owned(), connection, failed, releases, shared }
    }

    /// The claim as the wrong backend sends it.
    fn sent(&self, claim: &Claim) -> Claim {
        let range = self.inner.capabilities().ttl;
        let mut sent = claim.clone();
        sent.name = self.name(&claim.name);
        match self.fault {
            Fault::OwnerIsTheClient => sent.owner = self.owner,
            Fault::NeverExpires if range.check(claim.ttl).is_ok() => sent.ttl = range.max,
            Fault::BadTtlIsClamped => sent.ttl = claim.ttl.clamp(range.min, range.max),
            Fault::KindIsIgnored => sent.kind = Kind::Exclusive,
            _ => {}
        }
        sent
    }

    fn name(&self, name: &LockName) -> LockName {
        let text = name.as_str();
        match self.fault {
            Fault::NameIsCut if text.len() > 100 && text.is_char_boundary(100) => LockName::new(&text[..100]),
            Fault::NamespaceIsGlued => LockName::new(format!("{}{text}", self.namespace)),
            _ => LockName::new(text),
        }
        // Glued to its namespace it may be too long: that one stays as it is.
        .unwrap_or_else(|_| name.clone())
    }

    /// The grant as the wrong backend tells it.
    fn told(&self, claim: &Claim, mut grant: Grant) -> Grant {
        match (self.fault, &mut grant.liveness) {
            (Fault::TokenReused, _) => {
                grant.token =
                    grant.token.map(|new| *lock(&self.shared.first_token).entry(claim.name.clone()).or_insert(new));
            }
            (Fault::TokenIsOldAfterError, _) => {
                let mut first = lock(&self.shared.first_token);
                let old = grant.token.map(|new| *first.entry(claim.name.clone()).or_insert(new));
                if self.failed.swap(false, Ordering::SeqCst) {
                    grant.token = old;
                }
            }
            (Fault::TokensAreNotSpaced, _) => {
                grant.token = grant.token.and_then(unspaced);
            }
            (Fault::NeverExpires, Liveness::Lease { ttl }) => *ttl = claim.ttl,
            (Fault::LeaseToldTooLong, Liveness::Lease { ttl }) => *ttl = ttl.mul_f64(1.25),
            (Fault::LeaseToldTooShort, Liveness::Lease { ttl }) => *ttl /= 2,
            (Fault::SessionLossIsSilent, Liveness::Session(watch)) => {
                let (valid_from, ttl) = watch.lease();
                *watch = Session::new(valid_from, ttl).watch();
            }
            _ => {}
        }
        lock(&self.shared.waiting).remove(&claim.owner);
        lock(&self.shared.grants).insert(claim.owner, grant.clone());
        grant
    }

    async fn after_attempt(&self, claim: &Claim, sent: &Claim, attempt: Attempt) -> Result<Attempt> {
        match (self.fault, attempt) {
            (Fault::LeaveStays, Attempt::Busy) => {
                let _ = self.inner.try_acquire(&sent.clone().queueing()).await?;
                Ok(Attempt::Busy)
            }
            (Fault::WaiterDrawsToken, Attempt::Queued) => {
                let other = Claim::new(LockName::new(format!("draw-{}", claim.owner))?, claim.ttl);
                let _ = self.inner.try_acquire(&other).await?;
                self.inner.release(&other).await?;
                Ok(Attempt::Queued)
            }
            (Fault::RepeatDrawsToken, Attempt::Granted(_)) if lock(&self.shared.grants).contains_key(&claim.owner) => {
                self.inner.release(sent).await?;
                self.inner.try_acquire(sent).await
            }
            (Fault::FullQueueAdmits, Attempt::Queued) => {
                let waiters = self.inner.inspect(&sent.name).await?.and_then(|holder| holder.waiters);
                if waiters.is_none_or(|waiters| waiters < 6) {
                    return Ok(Attempt::Queued);
                }
                let lease = Liveness::Lease { ttl: claim.ttl };
                Ok(Attempt::Granted(Grant::new(None, Clock::system().now(), lease)))
            }
            (Fault::HeldIsOwnAfterError, Attempt::Busy | Attempt::Queued)
                if self.failed.swap(false, Ordering::SeqCst) =>
            {
                let lease = Liveness::Lease { ttl: claim.ttl };
                Ok(Attempt::Granted(Grant::new(None, Clock::system().now(), lease)))
            }
            (Fault::LastComesFirst, Attempt::Queued) => {
                self.go_ahead_of_all(sent).await?;
                Ok(Attempt::Queued)
            }
            (Fault::DeadPlaceStays, Attempt::Queued) => {
                if lock(&self.shared.waiting).insert(claim.owner) {
                    self.keep_the_place(claim);
                }
                Ok(Attempt::Queued)
            }
            (_, Attempt::Granted(grant)) => Ok(Attempt::Granted(self.told(claim, grant))),
            (_, attempt) => Ok(attempt),
        }
    }

    /// Keeps the place of a waiter that hangs until its turn comes, which is given up.
    fn keep_the_place(&self, claim: &Claim) {
        let (shared, link) = (Arc::clone(&self.shared), Arc::clone(self.inner.link()));
        let (side, claim) = (self.side.clone(), claim.clone());
        tokio::spawn(async move {
            while lock(&shared.waiting).contains(&claim.owner) {
                if link.is_silent() && matches!(side.try_acquire(&claim).await, Ok(Attempt::Granted(_))) {
                    return side.release(&claim).await.map(drop);
                }
                Clock::system().sleep(Duration::from_millis(20)).await;
            }
            Ok(())
        });
    }

    /// Puts all who wait already behind a new waiter.
    async fn go_ahead_of_all(&self, claim: &Claim) -> Result<()> {
        let mut queues = self.shared.queues.lock().await;
        let queue = queues.entry(claim.name.clone()).or_default();
        if queue.iter().any(|(_, waiting)| waiting.owner == claim.owner) {
            return Ok(());
        }
        for (client, waiting) in queue.iter().rev() {
            // Whoever hangs keeps its place; whoever holds the name by now does not wait any more.
            if !client.link().is_silent() && client.renew(waiting).await? == Renewal::Lost {
                client.release(waiting).await?;
                let _ = client.try_acquire(waiting).await?;
            }
        }
        queue.push((self.inner.clone(), claim.clone()));
        Ok(())
    }

    async fn leave_queue(&self, claim: &Claim) {
        if self.fault == Fault::LastComesFirst
            && let Some(queue) = self.shared.queues.lock().await.get_mut(&claim.name)
        {
            queue.retain(|(_, waiting)| waiting.owner != claim.owner);
        }
    }

    fn error(&self, error: Error) -> Error {
        self.failed.store(true, Ordering::SeqCst);
        if self.fault == Fault::NotAppliedIsGuessed && error.kind() == ErrorKind::Unreachable {
            return error.not_applied();
        }
        error
    }
}

/// Gives the place up when the wait is dropped half-way.
struct GiveUp<'a> {
    mutant: &'a Mutant,
    claim: Option<Claim>,
}

impl Drop for GiveUp<'_> {
    fn drop(&mut self) {
        let Some(claim) = self.claim.take().filter(|_| self.mutant.fault == Fault::DropGivesUpPlace) else { return };
        let inner = self.mutant.inner.clone();
        tokio::spawn(async move { inner.release(&claim).await });
    }
}

#[async_trait]
impl DistributedLock for Mutant {
    fn capabilities(&self) -> Capabilities {
        let mut claimed = self.inner.capabilities();
        match self.fault {
            Fault::DurableIsClaimed => claimed.fencing = Fencing::Durable,
            Fault::RestartSafeIsClaimed => claimed.restart_safe = true,
            _ => {}
        }
        claimed
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        let _connection = self.connection.lock().await;
        let sent = self.sent(claim);
        if self.fault == Fault::RepeatKeepsOldLease
            && let Some(grant) = lock(&self.shared.grants).get(&claim.owner)
        {
            return Ok(Attempt::Granted(Grant::new(grant.token, Clock::system().now(), grant.liveness.clone())));
        }
        let mut attempt = self.inner.try_acquire(&sent).await;
        if self.fault == Fault::StaleSessionIsTaken
            && attempt.as_ref().is_err_and(|error| error.kind() == ErrorKind::SessionChanged)
        {
            self.inner.release(&sent).await?;
            attempt = self.inner.try_acquire(&sent).await;
        }
        if self.fault == Fault::RefusedRepeatIsCertain
            && attempt.as_ref().is_err_and(|error| error.kind() == ErrorKind::Unreachable)
            && !self.inner.link().is_silent()
        {
            // The repeat's error is told as if it were that of both.
            attempt = self.inner.try_acquire(&sent).await;
        }
        if self.fault == Fault::LostRequestIsRepeated && attempt.is_err() && self.inner.link().is_silent() {
            let (inner, lost) = (self.inner.clone(), sent.clone().with_owner(Owner::random()));
            tokio::spawn(async move {
                while inner.try_acquire(&lost).await.is_err() || inner.renew(&lost).await.is_ok() {
                    Clock::system().sleep(Duration::from_millis(50)).await;
                }
            });
        }
        if matches!(attempt, Ok(Attempt::Granted(_))) {
            self.leave_queue(&sent).await;
        }
        self.after_attempt(claim, &sent, attempt.map_err(|error| self.error(error))?).await
    }

    async fn wait(&self, claim: &Claim) -> Result<Wake> {
        let _connection = match self.fault {
            Fault::WaitHoldsTheConnection => Some(self.connection.lock().await),
            _ => None,
        };
        let sent = self.sent(claim);
        let mut give_up = GiveUp { mutant: self, claim: Some(sent.clone()) };
        let wake = match self.fault {
            Fault::WakeIsLost => {
                Clock::system().sleep(claim.ttl.mul_f64(0.4)).await;
                Ok(Wake::Retry)
            }
            _ => self.inner.wait(&sent).await,
        };
        let wake = match (self.fault, wake) {
            (Fault::NeverAsksAgain, Ok(Wake::Retry)) => std::future::pending().await,
            (Fault::WakeIsTakenForGrant, Ok(Wake::Retry)) => {
                let lease = Liveness::Lease { ttl: claim.ttl };
                Ok(Wake::Granted(Grant::new(None, Clock::system().now(), lease)))
            }
            (_, Ok(Wake::Granted(grant))) => {
                self.leave_queue(&sent).await;
                Ok(Wake::Granted(self.told(claim, grant)))
            }
            (_, wake) => wake,
        };
        give_up.claim = None;
        wake
    }

    async fn renew(&self, claim: &Claim) -> Result<Renewal> {
        let _connection = self.connection.lock().await;
        let sent = self.sent(claim);
        let renewal = self.inner.renew(&sent).await.map_err(|error| self.error(error))?;
        match (self.fault, renewal) {
            (Fault::RenewRevives, Renewal::Lost) => {
                let mut again = sent;
                again.if_busy = IfBusy::Leave;
                match self.inner.try_acquire(&again).await? {
                    Attempt::Granted(grant) => Ok(Renewal::Renewed { ttl: claim.ttl, valid_from: grant.valid_from }),
                    _ => Ok(Renewal::Lost),
                }
            }
            (Fault::LossIsHidden, Renewal::Lost) if lock(&self.shared.grants).contains_key(&claim.owner) => {
                Ok(Renewal::Renewed { ttl: claim.ttl, valid_from: Clock::system().now() })
            }
            // Told as asked for: else a hold would be looked at once and then hardly ever again.
            (Fault::NeverExpires, Renewal::Renewed { valid_from, .. }) => {
                Ok(Renewal::Renewed { ttl: claim.ttl, valid_from })
            }
            (Fault::LeaseToldTooLong, Renewal::Renewed { ttl, valid_from }) => {
                Ok(Renewal::Renewed { ttl: ttl.mul_f64(1.25), valid_from })
            }
            (_, renewal) => Ok(renewal),
        }
    }

    async fn release(&self, claim: &Claim) -> Result<Release> {
        let _connection = self.connection.lock().await;
        let sent = self.sent(claim);
        self.leave_queue(&sent).await;
        // No hand-over while the queue is turned round.
        let _queues = self.shared.queues.lock().await;
        lock(&self.shared.waiting).remove(&claim.owner);
        lock(&self.shared.grants).remove(&claim.owner);
        if self.fault == Fault::PlaceIsNotReleased && self.inner.renew(&sent).await? == Renewal::Lost {
            return Ok(Release::NotHeld);
        }
        if self.fault == Fault::ReleasesRunOut && self.releases.fetch_add(1, Ordering::SeqCst) >= 64 {
            return Ok(Release::Released);
        }
        let release = self.inner.release(&sent).await.map_err(|error| self.error(error))?;
        if self.fault == Fault::ReleaseByName
            && release == Release::NotHeld
            && let Some(holder) = self.inner.inspect(&sent.name).await?
        {
            return self.inner.release(&sent.with_owner(holder.owner.unwrap_or(claim.owner))).await;
        }
        Ok(release)
    }

    async fn inspect(&self, name: &LockName) -> Result<Option<Holder>> {
        let name = self.name(name);
        let mut holder = self.inner.inspect(&name).await.map_err(|error| self.error(error))?;
        match (self.fault, &mut holder) {
            (Fault::InspectAcquires, None) => {
                let claim = Claim::new(name, Duration::from_secs(20));
                let _ = self.inner.try_acquire(&claim).await?;
            }
            // What the server knows of the lease is not what the claim was told.
            (Fault::NeverExpires | Fault::LeaseToldTooShort, Some(holder)) => holder.expires_in = None,
            (Fault::TokenReused, Some(holder)) => {
                let first = lock(&self.shared.first_token).get(&name).copied();
                holder.token = first.or(holder.token);
            }
            (Fault::TokensAreNotSpaced, Some(holder)) => holder.token = holder.token.and_then(unspaced),
            _ => {}
        }
        Ok(holder)
    }
}
