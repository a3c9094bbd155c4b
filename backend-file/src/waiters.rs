//! Waiting for a file: one thread a name, shared by all waiters of the client.
//!
//! A blocked `flock` cannot be cancelled, so the thread belongs to nobody: it hands the lock to the first who still waits,
//! and gives it back when nobody does.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use lockyard_api::{Claim, Error, ErrorKind, LockName, Owner, Result};
use tokio::sync::Notify;

use crate::store::{Locked, Store};

/// The claims of one client: what it holds and who waits.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    held: HashMap<Owner, Locked>,
    queues: HashMap<LockName, Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<(Arc<Claim>, Arc<Notify>)>,
    /// Whether a thread is blocked on the file for this queue.
    served: bool,
    /// For whom the thread, which has the file, is writing the record.
    taking: Option<Owner>,
    /// Why the thread ended, for the waiters that it left.
    failure: Option<Arc<str>>,
}

/// Where a claim stands.
pub(crate) enum Standing {
    Held(lockyard_api::FencingToken),
    Waiting(Arc<Notify>),
    Absent,
}

/// What became of a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// There was a hold or a place, and there is none now.
    Something,
    Nothing,
    /// The file is being taken for the claim right now: it would look held by it. Ask again in a moment.
    NotYet,
}

impl Claims {
    pub(crate) fn standing(&self, claim: &Claim) -> Standing {
        let inner = self.lock();
        if let Some(locked) = inner.held.get(&claim.owner) {
            return Standing::Held(locked.token);
        }
        let queue = inner.queues.get(&claim.name);
        match queue.and_then(|queue| queue.waiting.iter().find(|(waiter, _)| waiter.owner == claim.owner)) {
            Some((_, wake)) => Standing::Waiting(Arc::clone(wake)),
            None => Standing::Absent,
        }
    }

    /// The kernel's lock of a hold, once more.
    pub(crate) fn descriptor(&self, claim: &Claim) -> io::Result<Option<OwnedFd>> {
        self.lock().held.get(&claim.owner).map(Locked::descriptor).transpose()
    }

    pub(crate) fn hold(&self, claim: &Claim, locked: Locked) {
        self.lock().held.insert(claim.owner, locked);
    }

    /// Puts the claim at the end of its queue and sees to it that a thread serves the queue.
    pub(crate) fn enqueue(self: &Arc<Self>, claim: &Claim, store: &Arc<Store>) -> Result<()> {
        let mut inner = self.lock();
        let queue = inner.queues.entry(claim.name.clone()).or_default();
        queue.waiting.push_back((Arc::new(claim.clone()), Arc::new(Notify::new())));
        if queue.served {
            return Ok(());
        }
        let (claims, store, name) = (Arc::downgrade(self), Arc::downgrade(store), claim.name.clone());
        let spawned =
            std::thread::Builder::new().name("lockyard-file".to_owned()).spawn(move || serve(&claims, &store, &name));
        match spawned {
            Ok(_) => {
                queue.served = true;
                queue.failure = None;
                Ok(())
            }
            Err(e) => {
                queue.waiting.pop_back();
                let text = format!("no thread for waiting: {e}");
                Err(Error::new(ErrorKind::Capacity, text).not_applied().with_source(e))
            }
        }
    }

    /// Why the queue of the name is no longer served, if it is not.
    pub(crate) fn failure(&self, name: &LockName) -> Option<Arc<str>> {
        self.lock().queues.get(name).and_then(|queue| queue.failure.clone())
    }

    /// Ends a hold or a place.
    pub(crate) fn release(&self, claim: &Claim) -> Ended {
        let mut inner = self.lock();
        if inner.queues.get(&claim.name).is_some_and(|queue| queue.taking == Some(claim.owner)) {
            return Ended::NotYet;
        }
        let held = inner.held.remove(&claim.owner);
        let mut found = held.is_some();
        if let Some(queue) = inner.queues.get_mut(&claim.name) {
            let before = queue.waiting.len();
            queue.waiting.retain(|(waiter, _)| waiter.owner != claim.owner);
            found |= queue.waiting.len() != before;
            if queue.waiting.is_empty() && !queue.served {
                inner.queues.remove(&claim.name);
            }
        }
        drop(inner);
        if let Some(locked) = held {
            locked.unlock();
        }
        if found { Ended::Something } else { Ended::Nothing }
    }

    pub(crate) fn waiting(&self, name: &LockName) -> usize {
        self.lock().queues.get(name).map_or(0, |queue| queue.waiting.len())
    }

    /// The first waiter of a queue. A queue without one is forgotten, and its thread with it.
    fn first(&self, name: &LockName) -> Option<Arc<Claim>> {
        let mut inner = self.lock();
        let first = inner.queues.get(name).and_then(|queue| queue.waiting.front()).map(|(claim, _)| Arc::clone(claim));
        if first.is_none() {
            inner.queues.remove(name);
        }
        first
    }

    /// As [`Claims::first`], for a thread that has the file and is going to take it for that waiter.
    fn take_for_first(&self, name: &LockName) -> Option<Arc<Claim>> {
        let mut inner = self.lock();
        let first = inner.queues.get_mut(name).and_then(|queue| {
            let (claim, _) = queue.waiting.front()?;
            queue.taking = Some(claim.owner);
            Some(Arc::clone(claim))
        });
        if first.is_none() {
            inner.queues.remove(name);
        }
        first
    }

    /// Gives a lock that was taken for `claim` to it, if it still waits. Otherwise the lock comes back.
    fn deliver(&self, claim: &Claim, locked: Locked) -> Option<Locked> {
        let mut inner = self.lock();
        let Some(queue) = inner.queues.get_mut(&claim.name) else { return Some(locked) };
        queue.taking = None;
        let Some(place) = queue.waiting.iter().position(|(waiter, _)| waiter.owner == claim.owner) else {
            return Some(locked);
        };
        let wake = queue.waiting.remove(place).map(|(_, wake)| wake);
        inner.held.insert(claim.owner, locked);
        drop(inner);
        if let Some(wake) = wake {
            wake.notify_one();
        }
        None
    }

    fn fail(&self, name: &LockName, error: &Error) {
        let mut inner = self.lock();
        let Some(queue) = inner.queues.get_mut(name) else { return };
        queue.served = false;
        queue.taking = None;
        queue.failure = Some(Arc::from(error.to_string()));
        for (_, wake) in &queue.waiting {
            wake.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Locks the file for one waiter after the other, in their order, as long as anybody waits.
fn serve(claims: &Weak<Claims>, store: &Weak<Store>, name: &LockName) {
    while claims.upgrade().is_some_and(|claims| claims.first(name).is_some()) {
        // Of the client only its directory is kept while the thread is blocked.
        let Some(store) = store.upgrade() else { return };
        let candidate = store.lock(name);
        let Some(claims) = claims.upgrade() else { return };
        // The one who waits first now; without one, the lock is given back by dropping it.
        let Some(claim) = claims.take_for_first(name) else { return };
        match candidate.and_then(|candidate| store.take(candidate, &claim)) {
            Ok(locked) => {
                if let Some(back) = claims.deliver(&claim, locked) {
                    back.unlock();
                }
            }
            Err(error) => return claims.fail(name, &error),
        }
    }
}
