//! Locks that their owner may take again while it holds them.

use std::collections::HashMap;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, PoisonError, Weak};

use tokio::sync::Mutex;

use crate::{Error, ErrorKind, Guard, LockName, Locker, Operation, Release, Result};

/// Takes locks for one owner: what the owner holds already it takes again without asking the server.
///
/// The owner is this value with its clones, never a thread or a task: hand a clone to whatever may re-enter, and make a
/// new one ([`Locker::reentrant`]) for everybody else. Holds are counted; the last release is the release.
///
/// ```no_run
/// # async fn example(locks: lockyard_api::Locker) -> lockyard_api::Result<()> {
/// let mine = locks.reentrant();
/// let outer = mine.acquire("tree").await?;
/// let inner = mine.acquire("tree").await?;     // the same hold, the same token
/// assert_eq!(inner.release().await?, None);    // still held by `outer`
/// outer.release().await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct ReentrantLocker {
    locker: Locker,
    names: Arc<std::sync::Mutex<Names>>,
}

/// The hold of one name. Locked while it is being acquired, so that an owner never waits for itself at the server.
type Slot = Mutex<Weak<Guard>>;

#[derive(Default)]
struct Names {
    slots: HashMap<LockName, Arc<Slot>>,
    /// The size at which slots without a hold are looked for.
    sweep_at: usize,
}

impl Names {
    fn slot(&mut self, name: &LockName) -> Arc<Slot> {
        if self.slots.len() >= self.sweep_at {
            let is_used = |slot: &Arc<Slot>| {
                Arc::strong_count(slot) > 1 || slot.try_lock().is_ok_and(|hold| hold.strong_count() > 0)
            };
            self.slots.retain(|_, slot| is_used(slot));
            self.sweep_at = (self.slots.len() * 2).max(64);
        }
        Arc::clone(self.slots.entry(name.clone()).or_default())
    }
}

impl ReentrantLocker {
    fn new(locker: Locker) -> Self {
        Self { locker, names: Arc::default() }
    }

    /// Acquires a lock, or takes it again when this owner holds it; waits while another holds it.
    ///
    /// # Errors
    /// As [`Locker::acquire`]. `SessionChanged` when this owner still has guards of a hold that was lost: release or drop
    /// these first.
    ///
    /// # Cancel safety
    /// As [`Locker::acquire`]; what is held already stays held.
    pub async fn acquire(&self, name: impl AsRef<str>) -> Result<ReentrantGuard> {
        let name = LockName::new(name).map_err(|error| error.with_operation(Operation::Acquire))?;
        let slot = self.slot(&name);
        let mut hold = slot.lock().await;
        if let Some(guard) = held(&hold)? {
            return Ok(guard);
        }
        let guard = Arc::new(self.locker.acquire(&name).await?);
        *hold = Arc::downgrade(&guard);
        Ok(ReentrantGuard { guard })
    }

    /// Acquires a lock if it is free, or takes it again when this owner holds it. `None` when another holds it, or when
    /// this owner is just acquiring it.
    ///
    /// # Errors
    /// As [`ReentrantLocker::acquire`].
    ///
    /// # Cancel safety
    /// As [`ReentrantLocker::acquire`].
    pub async fn try_acquire(&self, name: impl AsRef<str>) -> Result<Option<ReentrantGuard>> {
        let name = LockName::new(name).map_err(|error| error.with_operation(Operation::Acquire))?;
        let slot = self.slot(&name);
        let Ok(mut hold) = slot.try_lock() else { return Ok(None) };
        if let Some(guard) = held(&hold)? {
            return Ok(Some(guard));
        }
        let Some(guard) = self.locker.try_acquire(&name).await? else { return Ok(None) };
        let guard = Arc::new(guard);
        *hold = Arc::downgrade(&guard);
        Ok(Some(ReentrantGuard { guard }))
    }

    fn slot(&self, name: &LockName) -> Arc<Slot> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner).slot(name)
    }
}

/// The hold taken once more. A lost one is not quietly replaced: guards of two holds would pass for one, with two tokens.
fn held(hold: &Weak<Guard>) -> Result<Option<ReentrantGuard>> {
    let Some(guard) = hold.upgrade() else { return Ok(None) };
    if let Some(reason) = guard.lost_reason() {
        let message = format!("this owner's hold was lost ({reason}): release the guards that are left of it first");
        let error = Error::new(ErrorKind::SessionChanged, message).not_applied();
        return Err(error.with_operation(Operation::Acquire).with_name(guard.name()));
    }
    Ok(Some(ReentrantGuard { guard }))
}

impl fmt::Debug for ReentrantLocker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReentrantLocker").field("locker", &self.locker).finish_non_exhaustive()
    }
}

/// One of the times that an owner has taken a lock. All that a [`Guard`] tells it tells as well; the hold is released
/// with the last of them.
#[derive(Debug)]
#[must_use = "the lock is released when the last guard of its owner is dropped"]
pub struct ReentrantGuard {
    guard: Arc<Guard>,
}

impl ReentrantGuard {
    /// How many times the owner holds the lock, this one included.
    #[must_use]
    pub fn count(&self) -> usize {
        Arc::strong_count(&self.guard)
    }

    /// Gives one of the times back. The last one releases the lock and says what the server answered; before it, `None`.
    ///
    /// # Errors
    /// As [`Guard::release`].
    ///
    /// # Cancel safety
    /// As [`Guard::release`].
    pub async fn release(self) -> Result<Option<Release>> {
        match Arc::into_inner(self.guard) {
            Some(last) => last.release().await.map(Some),
            None => Ok(None),
        }
    }
}

impl Deref for ReentrantGuard {
    type Target = Guard;

    fn deref(&self) -> &Guard {
        &self.guard
    }
}

impl Locker {
    /// A new owner whose locks may be taken again while it holds them.
    #[must_use]
    pub fn reentrant(&self) -> ReentrantLocker {
        ReentrantLocker::new(self.clone())
    }
}
