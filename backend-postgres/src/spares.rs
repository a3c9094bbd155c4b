//! Sessions kept for the next claim: opening one costs several round trips.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::session::LockSession;

/// The spare sessions of one client.
pub(crate) struct Spares {
    sessions: Mutex<Vec<Arc<LockSession>>>,
    most: usize,
}

impl Spares {
    pub(crate) const fn new(most: usize) -> Self {
        Self { sessions: Mutex::new(Vec::new()), most }
    }

    fn sessions(&self) -> MutexGuard<'_, Vec<Arc<LockSession>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds one that was opened to be a spare.
    pub(crate) fn add(&self, session: Arc<LockSession>) {
        self.sessions().push(session);
    }

    /// One of this class that lives.
    pub(crate) fn take(&self, class: Duration) -> Option<Arc<LockSession>> {
        let mut spares = self.sessions();
        spares.retain(|session| !session.is_over() && !session.is_retiring());
        let at = spares.iter().rposition(|session| session.class == class)?;
        Some(spares.swap_remove(at))
    }

    /// Keeps one whose claim is over; the oldest is closed when there are too many.
    pub(crate) fn keep(&self, session: &Arc<LockSession>) {
        let mut spares = self.sessions();
        if spares.len() >= self.most
            && let Some(other) = spares.first().map(Arc::clone)
        {
            spares.remove(0);
            other.close();
        }
        spares.push(Arc::clone(session));
    }
}

impl Drop for Spares {
    fn drop(&mut self) {
        for spare in self.sessions().drain(..) {
            spare.close();
        }
    }
}
