//! The shared sessions of a client: a few for each ttl class, the least busy one first.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex as SyncMutex, PoisonError};
use std::time::Duration;

use lockyard_api::{Error, ErrorKind, Result};
use tokio::runtime::Handle;
use tokio::sync::Mutex;

use crate::keeper::{Heartbeat, keep};
use crate::opener::{Opener, Purpose};
use crate::session::{Chosen, LockSession};
use crate::statements::Advisory;

/// So many classes are open at a time.
const MOST_CLASSES: usize = 4;

/// Sessions that many holds share.
pub(crate) struct Fleet {
    opener: Arc<Opener>,
    sql: Arc<Advisory>,
    per_class: usize,
    ships: SyncMutex<Vec<Arc<LockSession>>>,
    /// One at a time opens the first session of a class.
    opening: Mutex<()>,
    growing: AtomicBool,
    closed: AtomicBool,
    runtime: Handle,
}

impl Fleet {
    pub(crate) fn new(opener: Arc<Opener>, sql: Arc<Advisory>, per_class: usize) -> Arc<Self> {
        let runtime = Handle::current();
        Arc::new(Self {
            opener,
            sql,
            per_class,
            ships: SyncMutex::default(),
            opening: Mutex::new(()),
            growing: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            runtime,
        })
    }

    /// The least busy session of the class; opens the first one. When all are busy one more is opened for those who come
    /// later: opening takes longer than waiting for a turn.
    pub(crate) async fn choose(self: &Arc<Self>, class: Duration) -> Result<Chosen> {
        match self.among_open(class) {
            Some(chosen) => Ok(chosen),
            // Boxed: what seldom runs should not be carried about by every acquire.
            None => Box::pin(self.open_first(class)).await,
        }
    }

    async fn open_first(self: &Arc<Self>, class: Duration) -> Result<Chosen> {
        let _turn = self.opening.lock().await;
        if let Some(chosen) = self.among_open(class) {
            return Ok(chosen);
        }
        self.make_room(class)?;
        let session = self.open(class).await?;
        Chosen::choose(&session)
            .ok_or_else(|| Error::new(ErrorKind::Unreachable, "a session ended as soon as it was opened").not_applied())
    }

    fn among_open(self: &Arc<Self>, class: Duration) -> Option<Chosen> {
        let mut ships = self.ships();
        ships.retain(|session| !session.is_over() && !session.is_retiring());
        let of_class = || ships.iter().filter(|session| session.class == class);
        let best = of_class().min_by_key(|session| session.load())?;
        if best.load() > 0 && of_class().count() < self.per_class {
            self.grow(class);
        }
        Chosen::choose(best)
    }

    fn grow(self: &Arc<Self>, class: Duration) {
        if self.growing.swap(true, Ordering::SeqCst) {
            return;
        }
        let fleet = Arc::clone(self);
        self.runtime.spawn(async move {
            if let Err(error) = fleet.open(class).await {
                tracing::debug!(%error, "no further session");
            }
            fleet.growing.store(false, Ordering::SeqCst);
        });
    }

    /// Closes an idle class when there are too many.
    fn make_room(&self, class: Duration) -> Result<()> {
        let ships = self.ships();
        let mut classes: Vec<Duration> = ships.iter().map(|session| session.class).collect();
        classes.sort_unstable();
        classes.dedup();
        if classes.len() < MOST_CLASSES || classes.contains(&class) {
            return Ok(());
        }
        let idle = classes.iter().find(|class| {
            ships.iter().filter(|s| s.class == **class).all(|session| session.load() == 0 && session.holds().is_empty())
        });
        let Some(idle) = idle else {
            let message = format!(
                "holds with {MOST_CLASSES} different ttls are open, and each needs sessions of its own: use fewer ttls"
            );
            return Err(Error::new(ErrorKind::Capacity, message).not_applied());
        };
        for session in ships.iter().filter(|session| session.class == *idle) {
            if session.retire() {
                session.close();
            }
        }
        Ok(())
    }

    async fn open(&self, class: Duration) -> Result<Arc<LockSession>> {
        let session = self.opener.open(class, Purpose::Try, &self.sql.for_tries()).await?;
        let heartbeat = Heartbeat::Advisory(Arc::clone(&self.sql));
        let first = {
            let mut ships = self.ships();
            let first = !ships.iter().any(|other| other.class == class && !other.is_over());
            ships.push(Arc::clone(&session));
            first
        };
        self.runtime.spawn(keep(Arc::clone(&session), heartbeat, !first));
        if self.closed.load(Ordering::SeqCst) {
            session.close();
        }
        Ok(session)
    }

    /// Closes all sessions, also one that is being opened.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        for session in self.ships().drain(..) {
            session.close();
        }
    }

    fn ships(&self) -> std::sync::MutexGuard<'_, Vec<Arc<LockSession>>> {
        self.ships.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
