//! What this client has on which key, and on which session.
//!
//! Session-level advisory locks count: taken twice by one session and given back once, a lock is still held. So a key is
//! noted here before its statement is sent, and nobody else may send one for it on a shared session.

use std::collections::hash_map::Entry as Slot;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::fast::RandomState;
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
#[derive(Debug)]
struct Entry {
    owner: Owner,
    session: Arc<LockSession>,
    /// `None` until the server has answered.
    held: Option<Held>,
}

#[derive(Debug, Default)]
pub(crate) struct Book {
    /// Looked up several times a cycle; a key is a hash already, so a quick one will do.
    keys: HashMap<Key, Entry, RandomState>,
    /// Owners whose session ended and whose key somebody else has taken since.
    outlived: HashSet<Owner>,
}

/// What an owner has on a shared session, else whether another of this client has the key there.
#[derive(Debug, Clone)]
pub(crate) enum Place {
    /// Its own: a hold, or a try that is under way.
    Own(Arc<LockSession>),
    /// Only the memory of a session that has ended.
    Outlived,
    /// Nothing, and another of this client has the key on a session that lives.
    Taken,
    /// Nothing, and nobody of this client has the key.
    Free,
}

impl Book {
    pub(crate) fn look(&self, key: Key, owner: Owner) -> Place {
        let entry = self.keys.get(&key);
        match entry {
            Some(entry) if entry.owner == owner => Place::Own(Arc::clone(&entry.session)),
            _ if self.outlived.contains(&owner) => Place::Outlived,
            Some(entry) if !entry.session.is_over() => Place::Taken,
            _ => Place::Free,
        }
    }

    /// The hold that an owner was granted.
    pub(crate) fn held(&self, key: Key, owner: Owner) -> Option<Held> {
        self.keys.get(&key).filter(|entry| entry.owner == owner)?.held.clone()
    }

    /// Notes that `owner` is about to ask for the key; refused when somebody else has it.
    pub(crate) fn begin(&mut self, key: Key, owner: Owner, session: &Arc<LockSession>) -> bool {
        let entry = Entry { owner, session: Arc::clone(session), held: None };
        match self.keys.entry(key) {
            Slot::Vacant(vacant) => {
                vacant.insert(entry);
            }
            Slot::Occupied(living) if !living.get().session.is_over() => return false,
            Slot::Occupied(mut dead) => {
                self.outlived.insert(dead.insert(entry).owner);
            }
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
        if let Slot::Occupied(entry) = self.keys.entry(key)
            && entry.get().owner == owner
        {
            entry.remove();
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
