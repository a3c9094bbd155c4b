//! The locker: what people use.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::front::Core;
use crate::request::Ask;
use crate::{
    Capabilities, Clock, DistributedLock, Error, ErrorKind, Guard, Holder, LockName, LockRequest, LockerBuilder,
    Operation, Result,
};

/// Takes locks on one backend. Cheap to clone; the clones share everything.
///
/// ```no_run
/// # async fn example(locks: lockyard_api::Locker) -> lockyard_api::Result<()> {
/// let guard = locks.acquire("report:daily").await?;          // waits
/// if let Some(guard) = locks.try_acquire("job:sync").await? { // busy is not an error
///     println!("token {:?}", guard.fencing_token());
///     guard.release().await?;
/// }
/// # drop(guard); Ok(()) }
/// ```
#[derive(Clone)]
pub struct Locker {
    core: Arc<Core>,
}

impl Locker {
    pub(crate) const fn of(core: Arc<Core>) -> Self {
        Self { core }
    }

    /// A locker with the default options over a backend.
    ///
    /// # Errors
    /// `Config` outside a tokio runtime: the watchdog needs one.
    pub fn new(backend: impl DistributedLock) -> Result<Self> {
        Self::builder(backend).build()
    }

    /// A locker over a backend, with options.
    pub fn builder(backend: impl DistributedLock) -> LockerBuilder {
        LockerBuilder::new(Arc::new(backend))
    }

    /// As [`Locker::builder`], over a backend that is shared already: no second pointer in between.
    pub fn over(backend: Arc<dyn DistributedLock>) -> LockerBuilder {
        LockerBuilder::new(backend)
    }

    /// A lock about to be asked for, with options.
    pub fn lock(&self, name: impl AsRef<str>) -> LockRequest {
        LockRequest::new(Arc::clone(&self.core), name.as_ref())
    }

    /// Acquires a lock with the default options; waits while another holds it.
    ///
    /// # Errors
    /// As [`LockRequest::acquire`].
    ///
    /// # Cancel safety
    /// As [`LockRequest::acquire`].
    pub async fn acquire(&self, name: impl AsRef<str>) -> Result<Guard> {
        Ask::new(&self.core, name.as_ref()).acquire(&self.core).await
    }

    /// Acquires a lock with the default options if it is free. `None` when another holds it.
    ///
    /// # Errors
    /// As [`LockRequest::try_acquire`].
    ///
    /// # Cancel safety
    /// As [`LockRequest::try_acquire`].
    pub async fn try_acquire(&self, name: impl AsRef<str>) -> Result<Option<Guard>> {
        Ask::new(&self.core, name.as_ref()).try_acquire(&self.core).await
    }

    /// Who holds a name; `None` when nobody does. Never acquires.
    ///
    /// # Errors
    /// `InvalidName`, `Unsupported`, or what the server or the network did.
    ///
    /// # Cancel safety
    /// May be dropped at any await.
    pub async fn inspect(&self, name: impl AsRef<str>) -> Result<Option<Holder>> {
        let name = LockName::new(name)?;
        let result = self.core.backend.inspect(&name).await;
        result.map_err(|error| error.with_operation(Operation::Inspect).with_name(&name))
    }

    /// What the backend promises.
    #[must_use]
    pub fn capabilities(&self) -> &Capabilities {
        &self.core.capabilities
    }

    /// The clock that deadlines are computed from.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.core.clock
    }

    /// The backend itself, for what goes beyond locks.
    #[must_use]
    pub fn backend(&self) -> &Arc<dyn DistributedLock> {
        &self.core.backend
    }

    /// How many releases are under way in the background.
    #[must_use]
    pub fn pending_releases(&self) -> usize {
        self.core.releases.pending()
    }

    /// Takes no more requests and waits until the background releases are answered. Guards that still exist stay held
    /// and can be released; dropped after this, they leave their lease to end by itself.
    ///
    /// # Errors
    /// `Timeout` when releases are still unanswered after ten seconds; their leases end them.
    ///
    /// # Cancel safety
    /// Dropped, the shutdown stands and the releases go on.
    pub async fn shutdown(&self) -> Result<()> {
        self.core.closed.store(true, Ordering::SeqCst);
        let limit = self.core.clock.now().plus(Duration::from_secs(10));
        match self.core.until(Some(limit), self.core.releases.drained()).await {
            Some(()) => Ok(()),
            None => {
                let left = self.core.releases.pending();
                let message = format!("{left} releases are unanswered after 10 s; their leases end them");
                Err(Error::new(ErrorKind::Timeout, message).with_operation(Operation::Release))
            }
        }
    }
}

impl fmt::Debug for Locker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.core.fmt(f)
    }
}
