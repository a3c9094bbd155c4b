//! What a `Locker` and all its clones share.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::runtime::Handle;

use super::cohort::Cohort;
use super::events::Events;
use super::hold::Held;
use super::keeper::Keeper;
use super::queue::LocalQueue;
use super::release::Releases;
use super::turn::Turn;
use super::watchdog::Watchdog;
use super::write::Write;
use crate::loss::LossListener;
use crate::{
    Capabilities, CircuitBreaker, Clock, DistributedLock, Drift, Error, ErrorKind, LostReason, Moment, Result,
};

/// The parts of the front end, each of one purpose.
pub(crate) struct Core {
    pub(crate) backend: Arc<dyn DistributedLock>,
    pub(crate) capabilities: Capabilities,
    pub(crate) clock: Clock,
    pub(crate) drift: Drift,
    pub(crate) ttl: Duration,
    pub(crate) renew_after: Option<Duration>,
    pub(crate) patience: Duration,
    pub(crate) label: Option<Arc<str>>,
    pub(crate) local_queue: bool,
    pub(crate) cohort: Cohort,
    pub(crate) handle: Handle,
    pub(crate) keeper: Keeper,
    pub(crate) queue: LocalQueue,
    pub(crate) watchdog: Watchdog,
    pub(crate) releases: Releases,
    pub(crate) events: Events,
    /// Where the user wants one.
    pub(crate) breaker: Option<CircuitBreaker>,
    pub(crate) closed: AtomicBool,
}

impl Core {
    /// A request that runs to its end although its caller may go away.
    pub(crate) fn write<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> Write<'_, T> {
        Write::new(future, &self.keeper, &self.handle)
    }

    pub(crate) fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::SeqCst) {
            return Err(Error::new(ErrorKind::Shutdown, "the client was shut down").not_applied());
        }
        Ok(())
    }

    /// Runs a future up to a moment. `None` when the moment came first; the future is dropped then.
    pub(crate) async fn until<T>(&self, limit: Option<Moment>, future: impl Future<Output = T>) -> Option<T> {
        match limit {
            None => Some(future.await),
            // Boxed: a timer should not be carried about by those who need none.
            Some(limit) => Box::pin(self.race(limit, future)).await,
        }
    }

    async fn race<T>(&self, limit: Moment, future: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            // Whatever the future owns undoes itself when it is dropped.
            output = future => Some(output),
            () = self.clock.sleep_until(limit) => None,
        }
    }
}

impl LossListener for Core {
    fn lost(self: Arc<Self>, held: &Held, reason: LostReason) {
        self.events.lost(held, reason, held.time(&self.clock));
        // Who has lost the name keeps nobody of this process from it, however long the guard stays.
        if self.local_queue {
            drop(Turn::of_queue(self, Arc::clone(&held.claim)));
        }
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        self.watchdog.stop();
    }
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Locker").field("backend", &self.backend).finish_non_exhaustive()
    }
}
