//! What this client has on which key, and on which session.
//!
//! Session-level advisory locks count: taken twice by one session and given back once, a lock is still held. So a key is
//! noted here before its statement is sent, and nobody else may send one for it on a shared session.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lockyard_api::{Claim, FencingToken, Grant, Holder, Liveness, Moment, Owner, SessionWatch};

use crate::key::Key;
use crate::session::LockSession;

/// A hold as it was granted.
#[derive(Debug, Clone)]
pub(crate) struct Held {
    pub(crate) token: FencingToken,
    pub(crate) watch: SessionWatch,
    pub(crate) since: Moment,
    pub(crate) label: Option<Arc<str>>,
}

impl Held {
    /// The grant as it stands now.
    pub(crate) fn grant(&self) -> Grant {
        let (valid_from, _) = self.watch.lease();
        Grant::new(Some(self.token), valid_from, Liveness::Session(self.watch.clone()))
    }

    /// Adds what this client knows of its own hold.
    pub(crate) fn describe(&self, owner: Owner, now: Moment, holder: &mut Holder) {
        holder.owner = Some(owner);
        holder.token = Some(self.token);
        holder.label.clone_from(&self.label);
        holder.held_for = Some(now.since(self.since));
    }
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
    /// Owners whose session ended and whose key somebody else has taken since.
    outlived: HashSet<Owner>,
}

/// What an owner has on a shared session.
#[derive(Debug, Clone)]
pub(crate) enum Place {
    /// Something on a shared session.
    Shared(Entry),
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
        self.outlived.remove(&owner);
    }

    /// The hold of this client on a key, when process `pid` is the one that holds it.
    pub(crate) fn held_by(&self, key: Key, pid: i32) -> Option<(Owner, Held)> {
        let entry = self.keys.get(&key).filter(|entry| entry.session.backend.pid == pid)?;
        Some((entry.owner, entry.held.clone()?))
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

/// What tasks keep of a claim.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    pub(crate) owner: Owner,
    pub(crate) label: Option<Arc<str>>,
}

impl Wanted {
    pub(crate) fn new(claim: &Claim) -> Self {
        Self { owner: claim.owner, label: claim.label.clone() }
    }
}
