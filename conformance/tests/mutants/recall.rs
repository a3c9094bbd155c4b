//! A memory client that remembers what it should not, or forgets what it should remember.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockyard_api::{
    Attempt, Capabilities, Claim, Clock, DistributedLock, Grant, Holder, IfBusy, Liveness, LockName, Moment, Options,
    Owner, Release, Renewal, Result, Wake, async_trait,
};
use lockyard_conformance::scaled;
use lockyard_memory::MemoryLock;

use crate::fault::Fault;

/// How long a client guesses that its renewals arrived: longer than any check waits for a loss, shorter than one may take.
const GUESSED: Duration = Duration::from_secs(9);
/// How long a race for a new name is open.
const RACE: Duration = Duration::from_millis(5);
/// How far a client's clock is ahead of the server's.
const AHEAD: Duration = Duration::from_millis(700);

/// What all wrong clients of one server remember together.
#[derive(Debug, Default)]
pub(crate) struct Memories(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// Who was told to wait, and who held the name then.
    queued: HashMap<Owner, Option<Owner>>,
    /// Who was told of its grant.
    heard: HashSet<Owner>,
    /// Whose `wait` is under way, on which name.
    waiting: HashMap<Owner, LockName>,
    released: HashSet<Owner>,
    /// Which client was refused a name, and waits outside of every queue.
    refused: HashMap<LockName, Owner>,
    /// When a name was first granted.
    first: HashMap<LockName, Moment>,
    held: HashMap<LockName, Owner>,
    granted_at: HashMap<Owner, Moment>,
    /// Who was sent a message of its grant, and has not heard of it.
    sent: HashSet<Owner>,
}

impl Memories {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
pub(crate) struct Recall {
    inner: MemoryLock,
    fault: Fault,
    /// The client, as it knows itself again.
    client: Owner,
    memories: Arc<Memories>,
    /// The names that this client has freed.
    freed: Mutex<HashSet<LockName>>,
    /// What this client was granted and did not release.
    own: Mutex<HashMap<LockName, Grant>>,
}

/// Forgets a wait when it ends or is dropped.
struct Waiting<'a>(&'a Memories, Owner);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.inner().waiting.remove(&self.1);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn now() -> Moment {
    Clock::system().now()
}

/// A grant that no server gave.
fn made_up(claim: &Claim) -> Attempt {
    Attempt::Granted(Grant::new(None, now(), Liveness::Lease { ttl: claim.ttl }))
}

impl Recall {
    pub(crate) fn new(inner: MemoryLock, fault: Fault, memories: Arc<Memories>) -> Self {
        let client = Owner::random();
        Self { inner, fault, client, memories, freed: Mutex::default(), own: Mutex::default() }
    }

    fn memories(&self) -> MutexGuard<'_, Inner> {
        self.memories.inner()
    }

    /// The grant as the wrong backend tells it.
    fn told(&self, claim: &Claim, mut grant: Grant) -> Grant {
        if self.fault == Fault::LeaseCountsFromLongAgo {
            grant.valid_from = grant.valid_from.minus(claim.ttl * 2);
        }
        let mut own = lock(&self.own);
        if self.fault == Fault::HoldOfThePastIsTold
            && let Some(past) = own.get(&claim.name)
        {
            grant.token = past.token;
        }
        own.insert(claim.name.clone(), grant.clone());
        drop(own);
        let mut memories = self.memories();
        memories.heard.insert(claim.owner);
        memories.sent.remove(&claim.owner);
        memories.refused.remove(&claim.name);
        memories.held.insert(claim.name.clone(), claim.owner);
        memories.first.entry(claim.name.clone()).or_insert_with(now);
        memories.granted_at.entry(claim.owner).or_insert_with(now);
        grant
    }

    async fn holder(&self, name: &LockName) -> Result<Option<Holder>> {
        self.inner.inspect(name).await
    }

    /// A claim that leaves was refused.
    async fn after_busy(&self, claim: &Claim, began: Moment) -> Result<Attempt> {
        match self.fault {
            Fault::FreedIsTakenForFree if lock(&self.freed).contains(&claim.name) => return Ok(made_up(claim)),
            Fault::FirstUseRaces if self.memories().first.get(&claim.name).is_some_and(|first| began < *first) => {
                return Ok(made_up(claim));
            }
            Fault::BusyIsReserved => {
                self.memories().refused.entry(claim.name.clone()).or_insert(self.client);
            }
            Fault::NewcomerBarges | Fault::ClockOfTheClient => return self.steal(claim).await,
            _ => {}
        }
        Ok(Attempt::Busy)
    }

    /// Takes the name from who may not have it any more, as this client sees it.
    async fn steal(&self, claim: &Claim) -> Result<Attempt> {
        let Some(holder) = self.holder(&claim.name).await? else { return Ok(Attempt::Busy) };
        let Some(owner) = holder.owner else { return Ok(Attempt::Busy) };
        let unheard = self.is_unheard(owner);
        let over = holder.expires_in.is_some_and(|rest| rest < AHEAD);
        if (self.fault == Fault::NewcomerBarges && unheard) || (self.fault == Fault::ClockOfTheClient && over) {
            self.inner.release(&claim.clone().with_owner(owner)).await?;
            return self.inner.try_acquire(claim).await;
        }
        Ok(Attempt::Busy)
    }

    /// Whether this owner was told to wait and of nothing since.
    fn is_unheard(&self, owner: Owner) -> bool {
        let memories = self.memories();
        memories.queued.contains_key(&owner) && !memories.heard.contains(&owner)
    }

    /// A claim that queues was told to wait.
    async fn after_queued(&self, claim: &Claim) -> Result<Attempt> {
        let holder = self.holder(&claim.name).await?.and_then(|holder| holder.owner);
        let mut memories = self.memories();
        memories.queued.entry(claim.owner).or_insert(holder);
        Ok(Attempt::Queued)
    }

    /// A name was granted that this backend takes for another's.
    async fn taken_for_held(&self, claim: &Claim) -> Result<bool> {
        let name = claim.name.as_str();
        let wrong = match self.fault {
            Fault::BusyIsReserved if claim.if_busy == IfBusy::Leave => {
                self.memories().refused.get(&claim.name).is_some_and(|client| *client != self.client)
            }
            Fault::NameIsAPrefix => {
                let memories = self.memories();
                memories.held.keys().any(|held| held.as_str() != name && held.as_str().starts_with(name))
            }
            _ => false,
        };
        if wrong {
            self.inner.release(claim).await?;
        }
        Ok(wrong)
    }

    /// Waits while another client waits for a name that this one holds.
    async fn be_held_up(&self) {
        while self.fault == Fault::WaiterHoldsUpHolder && {
            let own = lock(&self.own);
            self.memories().waiting.values().any(|name| own.contains_key(name))
        } {
            Clock::system().sleep(Duration::from_millis(20)).await;
        }
    }

    /// A wait that takes something else for its turn.
    async fn wait_for_another(&self, claim: &Claim) -> Result<Wake> {
        let another = async {
            while match self.fault {
                Fault::TwoWoken => !self.has_changed(claim).await,
                _ => !self.memories().released.contains(&claim.owner),
            } {
                Clock::system().sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::select! {
            wake = self.inner.wait(claim) => wake,
            () = another => Ok(Wake::Granted(Grant::new(None, now(), Liveness::Lease { ttl: claim.ttl }))),
        }
    }

    /// Whether the name has gone from its holder to another since the claim was told to wait: woken with the one who got it.
    async fn has_changed(&self, claim: &Claim) -> bool {
        let Ok(Some(holder)) = self.holder(&claim.name).await else { return false };
        let mut memories = self.memories();
        let Some(before) = memories.queued.get_mut(&claim.owner) else { return false };
        let changed = holder.owner.is_some() && holder.owner != Some(claim.owner) && *before != holder.owner;
        *before = holder.owner;
        changed
    }

    /// Whether the release does nothing and says that it did.
    fn skips(&self, claim: &Claim) -> bool {
        self.fault == Fault::LongLeaseStays && claim.ttl == Options::default().ttl
    }
}

#[async_trait]
impl DistributedLock for Recall {
    fn capabilities(&self) -> Capabilities {
        let mut claimed = self.inner.capabilities();
        claimed.inspect &= self.fault != Fault::InspectIsDeniedAndAnswers;
        claimed
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        self.be_held_up().await;
        let began = now();
        let is_new = !self.memories().first.contains_key(&claim.name);
        if self.fault == Fault::FirstUseRaces && is_new && claim.if_busy == IfBusy::Leave {
            Clock::system().sleep(RACE).await;
        }
        let attempt = match self.inner.try_acquire(claim).await? {
            Attempt::Busy => self.after_busy(claim, began).await?,
            Attempt::Queued => self.after_queued(claim).await?,
            attempt => attempt,
        };
        let Attempt::Granted(grant) = attempt else { return Ok(attempt) };
        if self.fault == Fault::GrantOnlyByMessage && self.is_unheard(claim.owner) {
            return Ok(Attempt::Queued);
        }
        if self.taken_for_held(claim).await? {
            return Ok(Attempt::Busy);
        }
        Ok(Attempt::Granted(self.told(claim, grant)))
    }

    async fn wait(&self, claim: &Claim) -> Result<Wake> {
        self.memories().waiting.insert(claim.owner, claim.name.clone());
        let _waiting = Waiting(&self.memories, claim.owner);
        let mut wake = match self.fault {
            Fault::LatePushIsBelieved if self.memories().sent.contains(&claim.owner) => {
                Wake::Granted(Grant::new(None, now(), Liveness::Lease { ttl: claim.ttl }))
            }
            Fault::ReleasedWaitIsGranted | Fault::TwoWoken => self.wait_for_another(claim).await?,
            _ => self.inner.wait(claim).await?,
        };
        if self.fault == Fault::GrantOnlyByMessage
            && let Wake::Retry = wake
            && let Attempt::Granted(grant) = self.inner.try_acquire(claim).await?
        {
            wake = Wake::Granted(grant);
        }
        Ok(match wake {
            Wake::Granted(grant) => Wake::Granted(self.told(claim, grant)),
            wake => wake,
        })
    }

    async fn renew(&self, claim: &Claim) -> Result<Renewal> {
        let ttl = claim.ttl;
        match self.fault {
            Fault::RenewKeepsOldLease => {
                let held = self.holder(&claim.name).await?.is_some_and(|holder| holder.owner == Some(claim.owner));
                Ok(if held { Renewal::Renewed { ttl, valid_from: now() } } else { Renewal::Lost })
            }
            Fault::RenewalIsGuessed if self.inner.link().is_silent() => {
                let granted = self.memories().granted_at.get(&claim.owner).copied();
                if granted.is_some_and(|granted| now() < granted.plus(scaled(GUESSED))) {
                    return Ok(Renewal::Renewed { ttl, valid_from: now() });
                }
                self.inner.renew(claim).await
            }
            _ => self.inner.renew(claim).await,
        }
    }

    async fn release(&self, claim: &Claim) -> Result<Release> {
        if self.skips(claim) {
            return Ok(Release::Released);
        }
        let is_absent = self.fault == Fault::AbsentIsReleased && self.holder(&claim.name).await?.is_none();
        let release = self.inner.release(claim).await?;
        lock(&self.own).remove(&claim.name);
        if release == Release::Released {
            lock(&self.freed).insert(claim.name.clone());
        }
        let next = match self.fault {
            Fault::LatePushIsBelieved => self.holder(&claim.name).await?.and_then(|holder| holder.owner),
            _ => None,
        };
        let mut memories = self.memories();
        memories.sent.extend(next);
        memories.held.retain(|_, owner| *owner != claim.owner);
        memories.released.insert(claim.owner);
        Ok(if is_absent { Release::Released } else { release })
    }

    async fn inspect(&self, name: &LockName) -> Result<Option<Holder>> {
        self.holder(name).await
    }
}
