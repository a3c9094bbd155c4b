//! A client's session, where holds rest on sessions: which claims belong to it, and its heartbeat.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError, Weak};

use lockyard_api::{Owner, Session, SessionWatch};

use crate::lock::Client;
use crate::table::SessionId;

/// A session as its client knows it.
#[derive(Debug, Clone)]
pub(crate) struct Open {
    pub(crate) id: SessionId,
    pub(crate) session: Session,
}

/// All that a client keeps of its sessions.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    current: Option<Open>,
    /// The session by which each claim was first tried, until it is known to have left nothing.
    claims: HashMap<Owner, SessionId>,
    watches: HashMap<Owner, SessionWatch>,
    beating: bool,
}

impl Sessions {
    pub(crate) fn current(&self) -> Option<Open> {
        self.inner().current.clone()
    }

    /// Takes a new session unless there is one by now; gives the one that counts.
    pub(crate) fn adopt(&self, open: Open) -> Open {
        self.inner().current.get_or_insert(open).clone()
    }

    /// True the first time: the heartbeat has to be started.
    pub(crate) fn start_beating(&self) -> bool {
        !std::mem::replace(&mut self.inner().beating, true)
    }

    /// The session is over: all its holds are lost. A later one is opened by the next call.
    pub(crate) fn over(&self, open: &Open) {
        let mut inner = self.inner();
        if inner.current.as_ref().is_some_and(|current| current.id == open.id) {
            inner.current = None;
            inner.watches.clear();
        }
        drop(inner);
        open.session.end();
    }

    /// Notes by which session a claim is tried, unless it was tried before: then answers by which.
    pub(crate) fn note(&self, owner: Owner, id: SessionId) -> Option<SessionId> {
        match self.inner().claims.entry(owner) {
            Entry::Occupied(noted) => Some(*noted.get()),
            Entry::Vacant(new) => {
                new.insert(id);
                None
            }
        }
    }

    pub(crate) fn forget(&self, owner: Owner) {
        let mut inner = self.inner();
        inner.claims.remove(&owner);
        inner.watches.remove(&owner);
    }

    /// The watch of this owner's hold.
    pub(crate) fn watch(&self, owner: Owner, open: &Open) -> SessionWatch {
        self.inner().watches.entry(owner).or_insert_with(|| open.session.watch()).clone()
    }

    /// The owners whose holds the client believes in, before a heartbeat leaves.
    pub(crate) fn believed(&self) -> HashSet<Owner> {
        self.inner().watches.keys().copied().collect()
    }

    /// The heartbeat was answered: what was believed when it left and is not held is revoked.
    pub(crate) fn compare(&self, believed: &HashSet<Owner>, held: &HashSet<Owner>) {
        let gone = believed.difference(held).filter_map(|owner| self.inner().watches.remove(owner)).collect::<Vec<_>>();
        gone.iter().for_each(SessionWatch::revoke);
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps a session alive: ends when the client has gone.
pub(crate) async fn heartbeat(client: Weak<Client>) {
    loop {
        let Some((clock, every)) = client.upgrade().map(|client| client.beat_interval()) else { return };
        clock.sleep(every).await;
        let Some(client) = client.upgrade() else { return };
        client.beat().await;
    }
}
