//! The session of a client: what keeps all holds of a session-bound backend alive.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use slab::Slab;

use crate::Moment;
use crate::lease::Lease;
use crate::loss::{Loss, LostReason};

/// The backend's end of a session: it says when the session was confirmed and when it ended.
///
/// One per server session, never reused for a later one. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Session {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    lease: Mutex<Lease>,
    ended: Loss,
    holds: Mutex<Slab<Weak<Entry>>>,
}

impl Session {
    /// A session that the server started or confirmed no earlier than `valid_from`, with this timeout.
    #[must_use]
    pub fn new(valid_from: Moment, ttl: Duration) -> Self {
        let shared =
            Shared { lease: Mutex::new(Lease::new(valid_from, ttl)), ended: Loss::default(), holds: Mutex::default() };
        Self { shared: Arc::new(shared) }
    }

    /// A heartbeat was answered: the session runs for `ttl` from `valid_from` at least. Never moves the start backwards.
    pub fn confirm(&self, valid_from: Moment, ttl: Duration) {
        let mut lease = self.lease_mut();
        if valid_from >= lease.valid_from {
            *lease = Lease::new(valid_from, ttl);
        }
    }

    /// The session is over at the server, or cannot be known to live: every hold of it is lost.
    pub fn end(&self) {
        self.shared.ended.set(LostReason::SessionEnded);
        let holds: Vec<_> = self.holds_mut().iter().filter_map(|(_, hold)| hold.upgrade()).collect();
        for hold in holds {
            hold.loss.set(LostReason::SessionEnded);
        }
    }

    /// Whether [`Session::end`] was called.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.shared.ended.get().is_some()
    }

    /// Ends when the session has ended.
    ///
    /// # Cancel safety
    /// May be dropped at any time.
    pub async fn ended(&self) {
        self.shared.ended.wait().await;
    }

    /// When the session was last confirmed, and the timeout granted.
    #[must_use]
    pub fn lease(&self) -> (Moment, Duration) {
        let lease = self.lease_mut();
        (lease.valid_from, lease.ttl)
    }

    /// The watch of one new hold of this session. Keep a clone of it to tell the loss of that hold alone.
    #[must_use]
    pub fn watch(&self) -> SessionWatch {
        let entry = {
            let mut holds = self.holds_mut();
            let place = holds.vacant_entry();
            let entry = Arc::new(Entry { session: self.clone(), id: place.key(), loss: Loss::default() });
            place.insert(Arc::downgrade(&entry));
            entry
        };
        // Looked at after the insertion: an end in between has either seen it or is seen here.
        if self.is_ended() {
            entry.loss.set(LostReason::SessionEnded);
        }
        SessionWatch { entry }
    }

    fn lease_mut(&self) -> std::sync::MutexGuard<'_, Lease> {
        self.shared.lease.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn holds_mut(&self) -> std::sync::MutexGuard<'_, Slab<Weak<Entry>>> {
        self.shared.holds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One hold's view of its session, handed out with the grant.
#[derive(Clone, Debug)]
pub struct SessionWatch {
    entry: Arc<Entry>,
}

#[derive(Debug)]
struct Entry {
    session: Session,
    /// Its place among the holds of the session.
    id: usize,
    loss: Loss,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.session.holds_mut().try_remove(self.id);
    }
}

impl SessionWatch {
    /// Tells that this one hold is gone although the session lives: its record was deleted or revoked.
    pub fn revoke(&self) {
        self.entry.loss.set(LostReason::Revoked);
    }

    /// When the session was last confirmed, and its timeout.
    #[must_use]
    pub fn lease(&self) -> (Moment, Duration) {
        self.entry.session.lease()
    }

    /// Why the hold is lost, if it is.
    #[must_use]
    pub fn lost(&self) -> Option<LostReason> {
        self.entry.loss.get()
    }

    /// Whether both watch the same session.
    #[must_use]
    pub fn same_session(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.entry.session.shared, &other.entry.session.shared)
    }

    pub(crate) fn loss(&self) -> &Loss {
        &self.entry.loss
    }

    pub(crate) fn current(&self) -> Lease {
        *self.entry.session.lease_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Clock;

    #[test]
    fn the_end_of_a_session_is_the_loss_of_all_its_holds() {
        let session = Session::new(Clock::manual().now(), Duration::from_secs(1));
        let (first, second) = (session.watch(), session.watch());
        first.revoke();
        assert_eq!((first.lost(), second.lost()), (Some(LostReason::Revoked), None));
        session.end();
        assert_eq!((first.lost(), second.lost()), (Some(LostReason::Revoked), Some(LostReason::SessionEnded)));
        assert_eq!(session.watch().lost(), Some(LostReason::SessionEnded));
    }

    #[test]
    fn a_confirmation_never_moves_backwards() {
        let clock = Clock::manual();
        let start = clock.now();
        let session = Session::new(start, Duration::from_secs(1));
        clock.advance(Duration::from_secs(5));
        session.confirm(clock.now(), Duration::from_secs(1));
        session.confirm(start, Duration::from_secs(1));
        assert_eq!(session.lease().0, clock.now());
    }

    #[test]
    fn a_watch_that_is_gone_leaves_nothing() {
        let session = Session::new(Clock::manual().now(), Duration::from_secs(1));
        drop(session.watch());
        assert!(session.holds_mut().is_empty());
    }
}
