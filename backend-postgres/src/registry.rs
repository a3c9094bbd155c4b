//! What this client has on which key, and on which session.
//!
//! Session-level advisory locks count: taken twice by one session and given back once, a lock is still held. So a key is
//! noted here before its statement is sent, and nobody else may send one for it on a shared session.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lockyard_api::{Claim, FencingToken, Holder, Moment, Owner, SessionWatch};

use crate::key::Key;
use crate::session::LockSession;
use crate::waiter::Waiter;

/// A hold as it was granted.
#[derive(Debug, Clone)]
pub(crate) struct Held {
    pub(crate) token: FencingToken,
    pub(crate) watch: SessionWatch,
    pub(crate) since: Moment,
    pub(crate) label: Option<Arc<str>>,
}

/// A key that an owner takes, has, or may have, on a shared session.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) owner: Owner,
    pub(crate) session: Arc<LockSession>,
    /// `None` until the server has answered.
    pub(crate) held: Option<Held>,
}

#[derive(Debug, Default)]
pub(crate) struct Book {
    keys: HashMap<Key, Entry>,
    own: HashMap<Owner, Arc<Waiter>>,
    /// Owners whose session ended and whose key somebody else has taken since.
    outlived: HashSet<Owner>,
}

/// What an owner has.
#[derive(Debug, Clone)]
pub(crate) enum Place {
    /// Something on a shared session.
    Shared(Entry),
    /// A session of its own, waiting or won.
    Own(Arc<Waiter>),
    /// Only the memory of a session that has ended.
    Outlived,
}

impl Book {
    pub(crate) fn find(&self, key: Key, owner: Owner) -> Option<Place> {
        if let Some(entry) = self.keys.get(&key)
            && entry.owner == owner
        {
            return Some(Place::Shared(entry.clone()));
        }
        if let Some(waiter) = self.own.get(&owner) {
            return Some(Place::Own(Arc::clone(waiter)));
        }
        self.outlived.contains(&owner).then_some(Place::Outlived)
    }

    /// Whether somebody of this client has the key on a shared session that lives.
    pub(crate) fn is_taken(&self, key: Key) -> bool {
        self.keys.get(&key).is_some_and(|entry| !entry.session.is_over())
    }

    /// Notes that `owner` is about to ask for the key; refused when somebody else has it.
    pub(crate) fn begin(&mut self, key: Key, owner: Owner, session: &Arc<LockSession>) -> bool {
        if self.is_taken(key) {
            return false;
        }
        let entry = Entry { owner, session: Arc::clone(session), held: None };
        if let Some(dead) = self.keys.insert(key, entry) {
            self.outlived.insert(dead.owner);
        }
        true
    }

    pub(crate) fn granted(&mut self, key: Key, owner: Owner, held: Held) {
        if let Some(entry) = self.keys.get_mut(&key)
            && entry.owner == owner
        {
            entry.held = Some(held);
        }
    }

    /// The owner has nothing here any more.
    pub(crate) fn forget(&mut self, key: Key, owner: Owner) {
        if self.keys.get(&key).is_some_and(|entry| entry.owner == owner) {
            self.keys.remove(&key);
        }
        self.own.remove(&owner);
        self.outlived.remove(&owner);
    }

    pub(crate) fn wait(&mut self, owner: Owner, waiter: Arc<Waiter>) {
        self.own.insert(owner, waiter);
    }

    pub(crate) fn waiters(&self) -> impl Iterator<Item = &Arc<Waiter>> {
        self.own.values()
    }

    /// What this client knows of a hold that the server says is process `pid`'s.
    pub(crate) fn describe(&self, key: Key, pid: i32, now: Moment, holder: &mut Holder) {
        let shared = self.keys.get(&key).filter(|entry| entry.session.backend.pid == pid);
        let (owner, held) = match shared.and_then(|entry| Some((entry.owner, entry.held.clone()?))) {
            Some(found) => found,
            None => match self.own.values().find_map(|waiter| waiter.won_by(key, pid)) {
                Some(found) => found,
                None => return,
            },
        };
        holder.owner = Some(owner);
        holder.token = Some(held.token);
        holder.label = held.label;
        holder.held_for = Some(now.since(held.since));
    }
}

/// The book of one client; never locked across an await.
#[derive(Debug, Default, Clone)]
pub(crate) struct Registry(Arc<Mutex<Book>>);

impl Registry {
    pub(crate) fn book(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A claim with the key of its name, in the form that tasks keep.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    pub(crate) key: Key,
    pub(crate) owner: Owner,
    pub(crate) label: Option<Arc<str>>,
}

impl Wanted {
    pub(crate) fn new(key: Key, claim: &Claim) -> Self {
        Self { key, owner: claim.owner, label: claim.label.clone() }
    }
}
