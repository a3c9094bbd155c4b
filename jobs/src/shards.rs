//! A fixed number of items, spread over the members that live.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockyard_api::{FencedRegister, Guard, Locker};
use tokio::sync::watch;

use crate::item::{Item, release};
use crate::members::Members;
use crate::{Invalid, JobError, Result, names, rank};

/// Spreads a fixed number of items (partitions of a queue, tenants, ranges of keys) over the members that live: each item has
/// one owner at a time, each member at most its fair share, ⌈items / members⌉, and an item moves only when it must.
///
/// Each item is a lock. Items of a member that dies are free when its leases have ended, and owned again within twice the
/// ttl. When a member joins, each of the others gives back what it has too much, one item a round, and none that is in use.
/// Which member asks first for a free item is decided by a rendezvous hash of the two.
///
/// ```
/// use std::time::Duration;
/// use lockyard_jobs::Shards;
///
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// # let url = "memory://shards";
/// let (locks, register) = (lockyard::connect(url).await?, lockyard::connect_register(url).await?);
/// let shards = Shards::new("orders", 8, Duration::from_secs(10), locks, register)?;
/// let (end, ended) = tokio::sync::oneshot::channel::<()>();
/// let member = tokio::spawn({
///     let shards = shards.clone();
///     async move { shards.run_until(async { drop(ended.await) }).await }
/// });
/// while shards.items().is_empty() {
///     shards.changed().await;
/// }
/// for item in shards.items() {
///     println!("partition {} under token {:?}", item.index(), item.fencing_token());
/// } // not given back while an `Item` of it exists
/// drop(end);
/// member.await?;
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
/// ```
#[derive(Clone)]
pub struct Shards {
    inner: Arc<Inner>,
}

struct Inner {
    name: String,
    items: u32,
    ttl: Duration,
    locks: Locker,
    members: Members,
    owned: Mutex<BTreeMap<u32, Arc<Guard>>>,
    changed: watch::Sender<u64>,
}

impl Shards {
    /// Rounds a ttl: what a dead member leaves is seen soon after its leases have ended.
    const ROUNDS: u32 = 4;

    /// A member of the group of this name. Every member must say the same number of items. The ttl is that of the leases:
    /// after it a member that has died is missed. Nothing happens until [`Shards::run_until`].
    ///
    /// # Errors
    /// `Invalid` for no items or too many, a name that makes no lock, a ttl that the backend does not take, and a backend
    /// that cannot tell who holds a lock.
    pub fn new(
        name: impl AsRef<str>,
        items: u32,
        ttl: Duration,
        locks: Locker,
        register: Arc<dyn FencedRegister>,
    ) -> Result<Self> {
        let name = name.as_ref();
        let invalid = |option, problem: &str, cure: &str| Invalid::new(name, option, problem, cure);
        if items == 0 || items > names::MOST_SHARDS {
            let problem = format!("{items} items are none, or more than {}", names::MOST_SHARDS);
            return Err(invalid("items", &problem, "give at least 1, and many keys an item").into());
        }
        let capabilities = locks.capabilities();
        let ttl_fits = capabilities.ttl.check(ttl);
        ttl_fits.map_err(|error| invalid("ttl", error.message(), "give a ttl that the backend takes"))?;
        if !capabilities.inspect {
            let problem = format!("{} does not tell who holds a lock", capabilities.backend);
            return Err(invalid("locks", &problem, "use another backend: members see by it who lives").into());
        }
        if name.is_empty() || name.contains('#') {
            return Err(invalid("name", "a name is not empty and holds no '#'", "choose another").into());
        }
        let named = names::item(name, items - 1).and_then(|_| Members::new(name, ttl, &locks, register));
        let members = named.map_err(|error| invalid("name", error.message(), "choose a shorter name"))?;
        let inner = Inner {
            name: name.to_owned(),
            items,
            ttl,
            members,
            locks,
            owned: Mutex::default(),
            changed: watch::Sender::new(0),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// What this member is called: another at each start.
    #[must_use]
    pub fn member(&self) -> &str {
        self.inner.members.own()
    }

    /// The items that this member owns now. Ask again before each piece of work, and keep none for longer than that: what is
    /// in use cannot be given to a member that joins.
    pub fn items(&self) -> Vec<Item> {
        let owned = self.owned();
        let held = owned.iter().filter(|(_, guard)| guard.is_held());
        held.map(|(index, guard)| Item::new(*index, Arc::clone(guard))).collect()
    }

    /// Ends when the member has taken, given back, or missed an item since the call.
    ///
    /// # Cancel safety
    /// May be dropped and called again.
    pub async fn changed(&self) {
        // The sender lives as long as this does.
        let _ = self.inner.changed.subscribe().changed().await;
    }

    /// Takes part until `shutdown` ends; then gives back all items that are not in use, and leaves. What is in use then is
    /// given back when its last [`Item`] is dropped.
    ///
    /// What the service does is told to `tracing` and tried again each round.
    ///
    /// # Cancel safety
    /// Dropped, it stops taking part: the items stay until the last clone of this is dropped.
    pub async fn run_until(&self, shutdown: impl Future<Output = ()> + Send) {
        let rounds = async {
            loop {
                if let Err(error) = self.round().await {
                    tracing::warn!(shards.name = self.inner.name, %error, "a round of the shards failed");
                }
                let pause = self.inner.ttl / Self::ROUNDS;
                self.inner.locks.clock().sleep(pause.mul_f64(0.8 + fastrand::f64() / 5.0)).await;
            }
        };
        tokio::select! {
            biased;
            // A round that is dropped has undone what it was asking for.
            () = shutdown => {}
            () = rounds => {}
        }
        self.leave().await;
    }

    /// One round: who lives, what is owned, what is too much, what is free.
    async fn round(&self) -> Result<()> {
        let living = self.inner.members.look().await?;
        self.forget_lost();
        // The first round only says that this member is there: members that start together share at once.
        let Some(living) = living else { return Ok(()) };
        let share = usize::try_from(self.inner.items).unwrap_or(usize::MAX).div_ceil(living.len().max(1));
        let count = self.owned().len();
        if count > share {
            self.give_one_back(&living).await;
        } else if count < share {
            self.take(&living, share).await?;
        }
        Ok(())
    }

    /// Takes free items up to the share, those first for which this member stands highest.
    async fn take(&self, living: &[String], share: usize) -> Result<()> {
        let mut wanted: Vec<u32> = (0..self.inner.items).filter(|item| !self.owned().contains_key(item)).collect();
        wanted.sort_by_key(|item| rank::of(self.member(), *item, living));
        for item in wanted {
            if self.owned().len() >= share {
                break;
            }
            let name = names::item(&self.inner.name, item).map_err(|error| self.error(error))?;
            let request = self.inner.locks.lock(&name).ttl(self.inner.ttl).label(self.member());
            if let Some(guard) = request.try_acquire().await.map_err(|error| self.error(error))? {
                self.owned().insert(item, Arc::new(guard));
                self.tell_change();
            }
        }
        Ok(())
    }

    /// Gives back one item that is not in use: that for which others stand highest.
    async fn give_one_back(&self, living: &[String]) {
        let guard = {
            let mut owned = self.owned();
            let idle = owned.iter().filter(|(_, guard)| Arc::strong_count(guard) == 1).map(|(item, _)| *item);
            let surplus = idle.max_by_key(|item| rank::of(self.member(), *item, living));
            surplus.and_then(|item| owned.remove(&item))
        };
        if let Some(guard) = guard {
            self.tell_change();
            release(guard).await;
        }
    }

    fn forget_lost(&self) {
        let mut owned = self.owned();
        let before = owned.len();
        owned.retain(|_, guard| guard.lost_reason().is_none());
        if owned.len() < before {
            self.tell_change();
        }
    }

    async fn leave(&self) {
        let owned = std::mem::take(&mut *self.owned());
        for guard in owned.into_values() {
            release(guard).await;
        }
        self.tell_change();
        if let Err(error) = self.inner.members.leave().await {
            tracing::warn!(shards.name = self.inner.name, %error, "not taken off the list: others will see it");
        }
    }

    fn tell_change(&self) {
        self.inner.changed.send_modify(|count| *count += 1);
    }

    fn owned(&self) -> MutexGuard<'_, BTreeMap<u32, Arc<Guard>>> {
        self.inner.owned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn error(&self, error: lockyard_api::Error) -> JobError {
        JobError::lock(&self.inner.name, error)
    }
}

impl fmt::Debug for Shards {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let owned: Vec<u32> = self.owned().keys().copied().collect();
        f.debug_struct("Shards").field("name", &self.inner.name).field("owned", &owned).finish_non_exhaustive()
    }
}
