//! Who waits in this client, and the grants that were pushed to it.
//!
//! A pushed grant counts only for the request that put (or refreshed) the entry it was given to, and only when the answer
//! to that request was `Queued`: then the lease began after that request was sent, and a grant that was overtaken by its
//! own expiry is never taken for a hold. A grant may arrive before that answer is looked at, so it is kept for a while.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lockyard_api::{Moment, Owner};
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, timeout_at};

use crate::reply::Handed;

/// How a waiting ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// The server gave the lock, no earlier than `valid_from`.
    Granted { number: u64, valid_from: Moment },
    /// Ask again.
    Again,
}

/// A place in the queue as the answer to a request showed it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    /// The connection that asked and that the grant will come over.
    pub(crate) connection: u64,
    /// The number of the request.
    pub(crate) request: u64,
    /// When it was sent.
    pub(crate) sent: Moment,
    /// When to ask again.
    pub(crate) again_at: Instant,
}

/// A grant for an owner that is not known to wait here: its answer is on the way, or nobody wants it.
#[derive(Debug)]
pub(crate) struct Stray {
    pub(crate) handed: Handed,
    pub(crate) arrived: Instant,
}

/// The waiters of one client.
#[derive(Debug)]
pub(crate) struct Waiters {
    entries: Mutex<HashMap<Owner, Entry>>,
    /// How many entries there are: an uncontended acquire looks at nothing else.
    count: AtomicUsize,
    /// The connection that lives, 0 when none does.
    connection: AtomicU64,
    strays: mpsc::UnboundedSender<Stray>,
}

#[derive(Debug)]
struct Entry {
    /// `None` while no request has been answered `Queued`.
    place: Option<Place>,
    /// The grant that was pushed, and the request it is for.
    grant: Option<(u64, u64)>,
    woken: Arc<Notify>,
    /// Nobody has claimed the grant, and it is on its way back.
    returning: bool,
}

impl Waiters {
    /// No waiters. Grants for owners that are not known here are also sent to `strays`.
    pub(crate) fn new(strays: mpsc::UnboundedSender<Stray>) -> Self {
        Self { entries: Mutex::new(HashMap::new()), count: AtomicUsize::new(0), connection: AtomicU64::new(0), strays }
    }

    /// Whether nobody waits and no grant is kept.
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// A connection lives: only what it brings counts.
    pub(crate) fn connected(&self, connection: u64) {
        self.connection.store(connection, Ordering::SeqCst);
    }

    /// A connection is gone, and with it every message that it would have brought: everybody asks again.
    pub(crate) fn disconnected(&self, connection: u64) {
        if self.connection.compare_exchange(connection, 0, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
            self.lock().values().for_each(|entry| entry.woken.notify_one());
        }
    }

    /// The owner is about to ask: a grant that was kept for it before is settled by the answer. `false` when that grant is
    /// just being given back, which would take away what the answer brings.
    pub(crate) fn asks(&self, owner: Owner) -> bool {
        if self.is_empty() {
            return true;
        }
        let mut entries = self.lock();
        let Some(entry) = entries.get(&owner) else { return true };
        if entry.returning {
            return false;
        }
        if entry.place.is_none() {
            entries.remove(&owner);
            self.count.store(entries.len(), Ordering::Relaxed);
        }
        true
    }

    /// The server queued this owner.
    pub(crate) fn queued(&self, owner: Owner, place: Place) {
        let mut entries = self.lock();
        let entry = match entries.entry(owner) {
            Slot::Occupied(slot) => slot.into_mut(),
            Slot::Vacant(slot) => slot.insert(Entry::default()),
        };
        entry.place = Some(place);
        // A grant for an earlier request has expired meanwhile, or the server would not have queued the owner again.
        entry.grant = entry.grant.filter(|(_, request)| *request >= place.request);
        self.count.store(entries.len(), Ordering::Relaxed);
    }

    /// The owner waits no longer, or its claim was granted by an answer; answers whether a grant to it is just being given
    /// back, and that answer with it.
    pub(crate) fn forget(&self, owner: Owner) -> bool {
        if self.is_empty() {
            return false;
        }
        let mut entries = self.lock();
        let forgotten = entries.remove(&owner);
        self.count.store(entries.len(), Ordering::Relaxed);
        forgotten.is_some_and(|entry| entry.returning)
    }

    /// A grant was pushed over this connection.
    pub(crate) fn handed(&self, connection: u64, handed: Handed) {
        if self.connection.load(Ordering::SeqCst) != connection {
            return;
        }
        let mut entries = self.lock();
        let stray = match entries.entry(handed.owner) {
            Slot::Occupied(slot) => {
                let entry = slot.into_mut();
                entry.grant = Some((handed.number, handed.request));
                entry.woken.notify_one();
                entry.place.is_none()
            }
            Slot::Vacant(slot) => {
                slot.insert(Entry { grant: Some((handed.number, handed.request)), ..Entry::default() });
                true
            }
        };
        self.count.store(entries.len(), Ordering::Relaxed);
        if stray {
            // Nobody listens only while the client is being dropped: the lease then ends by itself.
            let _ = self.strays.send(Stray { handed, arrived: Instant::now() });
        }
    }

    /// Marks a grant that nobody has claimed as being given back: whether it was still there. Ends with
    /// [`Waiters::forget`].
    pub(crate) fn give_back(&self, owner: Owner) -> bool {
        match self.lock().get_mut(&owner) {
            Some(entry) if entry.place.is_none() => {
                entry.returning = true;
                true
            }
            _ => false,
        }
    }

    /// Listens until the owner is granted the lock or should ask again.
    ///
    /// # Cancel safety
    /// May be dropped at any await: a grant stays where it is until it is taken or forgotten.
    pub(crate) async fn turn(&self, owner: Owner) -> Turn {
        loop {
            let (woken, again_at) = match self.look(owner) {
                Ok(turn) => return turn,
                Err(waiting) => waiting,
            };
            if timeout_at(again_at, woken.notified()).await.is_err() {
                // The last look: the grant may have come in the same moment.
                return self.look(owner).unwrap_or(Turn::Again);
            }
        }
    }

    /// The turn if it has come, otherwise what to wait for.
    fn look(&self, owner: Owner) -> Result<Turn, (Arc<Notify>, Instant)> {
        let mut entries = self.lock();
        let Some(entry) = entries.get(&owner) else { return Ok(Turn::Again) };
        let Some(place) = entry.place else { return Ok(Turn::Again) };
        match entry.grant {
            Some((number, request)) if request == place.request => {
                entries.remove(&owner);
                self.count.store(entries.len(), Ordering::Relaxed);
                Ok(Turn::Granted { number, valid_from: place.sent })
            }
            _ if place.connection != self.connection.load(Ordering::SeqCst) => Ok(Turn::Again),
            _ => Err((Arc::clone(&entry.woken), place.again_at)),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Owner, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Entry {
    fn default() -> Self {
        Self { place: None, grant: None, woken: Arc::new(Notify::new()), returning: false }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lockyard_api::Clock;

    use super::*;

    const OWNER: Owner = Owner::from_bits(1);

    fn waiters() -> (Waiters, mpsc::UnboundedReceiver<Stray>) {
        let (strays, caught) = mpsc::unbounded_channel();
        let waiters = Waiters::new(strays);
        waiters.connected(1);
        (waiters, caught)
    }

    fn place(request: u64) -> Place {
        let again_at = Instant::now() + Duration::from_secs(10);
        Place { connection: 1, request, sent: Clock::manual().now(), again_at }
    }

    fn handed(request: u64) -> Handed {
        Handed { owner: OWNER, number: 40 + request, request, lock_key: "k".to_owned() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_grant_before_and_after_the_answer_is_taken() {
        let (waiters, mut caught) = waiters();
        waiters.handed(1, handed(1));
        waiters.queued(OWNER, place(1));
        assert!(matches!(waiters.turn(OWNER).await, Turn::Granted { number: 41, .. }));
        assert!(waiters.is_empty());
        waiters.queued(OWNER, place(2));
        let (turn, ()) = tokio::join!(waiters.turn(OWNER), async { waiters.handed(1, handed(2)) });
        assert!(matches!(turn, Turn::Granted { number: 42, .. }));
        assert_eq!(caught.try_recv().map(|stray| stray.handed.request), Ok(1));
        assert!(caught.try_recv().is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_grant_that_expired_before_the_owner_was_queued_again_is_none() {
        let (waiters, _caught) = waiters();
        waiters.queued(OWNER, place(1));
        waiters.handed(1, handed(1));
        waiters.queued(OWNER, place(2));
        assert_eq!(waiters.turn(OWNER).await, Turn::Again);
        // The same grant, delayed further.
        waiters.handed(1, handed(1));
        assert_eq!(waiters.turn(OWNER).await, Turn::Again);
    }

    #[tokio::test(start_paused = true)]
    async fn a_lost_connection_wakes_everybody_at_once() {
        let (waiters, _caught) = waiters();
        waiters.queued(OWNER, place(1));
        let start = Instant::now();
        let (turn, ()) = tokio::join!(waiters.turn(OWNER), async { waiters.disconnected(1) });
        assert_eq!((turn, start.elapsed()), (Turn::Again, Duration::ZERO));
        waiters.connected(2);
        waiters.handed(1, handed(1));
        assert_eq!(waiters.turn(OWNER).await, Turn::Again);
    }

    #[tokio::test(start_paused = true)]
    async fn a_waiter_that_hears_nothing_asks_again_in_time() {
        let (waiters, _caught) = waiters();
        let start = Instant::now();
        waiters.queued(OWNER, place(1));
        assert_eq!(waiters.turn(OWNER).await, Turn::Again);
        assert!(start.elapsed() >= Duration::from_secs(10));
    }

    #[tokio::test]
    async fn a_stray_is_given_back_only_while_nobody_asks() {
        let (waiters, _caught) = waiters();
        waiters.handed(1, handed(1));
        assert!(waiters.asks(OWNER), "the answer will tell");
        assert!(!waiters.give_back(OWNER));
        waiters.handed(1, handed(2));
        assert!(waiters.give_back(OWNER));
        assert!(!waiters.asks(OWNER), "what the answer brings would be given back too");
        assert!(waiters.forget(OWNER), "an answer that came all the same is no hold");
        assert!(waiters.asks(OWNER) && waiters.is_empty());
        waiters.queued(OWNER, place(3));
        assert!(!waiters.give_back(OWNER));
    }
}
