//! Several locks at once: all of them, or none.

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::{
    Error, ErrorKind, Guard, LockName, LockRequest, Locker, Lost, LostReason, Moment, Operation, Outcome, Release,
    Result,
};

/// Several locks about to be asked for; from [`Locker::lock_all`].
#[derive(Debug, Clone)]
#[must_use = "nothing is asked for until acquire or try_acquire"]
pub struct LockAllRequest {
    locker: Locker,
    names: Result<BTreeSet<LockName>, String>,
    ttl: Option<Duration>,
    wait: Option<Duration>,
    label: Option<Arc<str>>,
}

impl LockAllRequest {
    pub(crate) fn new<N: AsRef<str>>(locker: Locker, names: impl IntoIterator<Item = N>) -> Self {
        let names: Result<BTreeSet<LockName>> = names.into_iter().map(LockName::new).collect();
        let names = names.map_err(|error| error.message().to_owned());
        Self { locker, names, ttl: None, wait: None, label: None }
    }

    /// The lease of each of them; as [`LockRequest::ttl`].
    pub const fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// How long [`LockAllRequest::acquire`] waits for all of them together; without it, for ever.
    pub const fn wait(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    /// A word about the holder for people who inspect the locks.
    pub fn label(mut self, label: impl Into<Arc<str>>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// Acquires all of them, one after the other in the order of their names: whoever takes several locks in this way never
    /// waits in a circle with others who do. What was acquired is kept alive meanwhile.
    ///
    /// # Errors
    /// As [`LockRequest::acquire`], of the first lock that could not be had; those acquired before it are released first.
    /// The outcome is `NotApplied` when nothing is left of any of them. `InvalidName` when no name was given.
    ///
    /// # Cancel safety
    /// Dropped at any await, all claims are undone in the background.
    pub async fn acquire(self) -> Result<Guards> {
        let limit = self.wait.map(|wait| self.locker.clock().now().plus(wait));
        let mut guards = Vec::new();
        for name in self.names()? {
            match self.request(name, limit).acquire().await {
                Ok(guard) => guards.push(guard),
                Err(error) => return Err(undo(guards, error).await),
            }
        }
        Ok(Guards { guards })
    }

    /// Acquires all of them if all are free. `None` when another holds one; nothing is kept then.
    ///
    /// # Errors
    /// As [`LockAllRequest::acquire`]; never `Timeout`.
    ///
    /// # Cancel safety
    /// As [`LockAllRequest::acquire`].
    pub async fn try_acquire(self) -> Result<Option<Guards>> {
        let mut guards = Vec::new();
        for name in self.names()? {
            match self.request(name, None).try_acquire().await {
                Ok(Some(guard)) => guards.push(guard),
                Ok(None) => {
                    release_all(guards).await?;
                    return Ok(None);
                }
                Err(error) => return Err(undo(guards, error).await),
            }
        }
        Ok(Some(Guards { guards }))
    }

    fn names(&self) -> Result<&BTreeSet<LockName>> {
        let invalid = |message: &str| {
            Error::new(ErrorKind::InvalidName, message).not_applied().with_operation(Operation::Acquire)
        };
        match &self.names {
            Ok(names) if names.is_empty() => Err(invalid("no lock is named: give at least one name")),
            Ok(names) => Ok(names),
            Err(message) => Err(invalid(message)),
        }
    }

    fn request(&self, name: &LockName, limit: Option<Moment>) -> LockRequest {
        let mut request = self.locker.lock(name);
        if let Some(ttl) = self.ttl {
            request = request.ttl(ttl);
        }
        if let Some(limit) = limit {
            request = request.wait(limit.since(self.locker.clock().now()));
        }
        match &self.label {
            Some(label) => request.label(Arc::clone(label)),
            None => request,
        }
    }
}

/// Gives back what was acquired before another could not be; says of the error what that left behind.
async fn undo(guards: Vec<Guard>, error: Error) -> Error {
    if release_all(guards).await.is_err() && error.outcome() == Outcome::NotApplied { error.unknown() } else { error }
}

/// Releases all, the last acquired first; the first error, when every release was sent.
async fn release_all(guards: Vec<Guard>) -> Result<Release> {
    let mut result = Ok(Release::Released);
    for guard in guards.into_iter().rev() {
        match (guard.release().await, &result) {
            (Ok(Release::NotHeld), Ok(_)) => result = Ok(Release::NotHeld),
            (Err(error), Ok(_)) => result = Err(error),
            _ => {}
        }
    }
    result
}

/// Several locks that are held together. Releases them when dropped.
///
/// ```no_run
/// # async fn example(locks: lockyard_api::Locker) -> lockyard_api::Result<()> {
/// let both = locks.acquire_all(["account:7", "account:3"]).await?;
/// both.run(async { /* move the money */ }).await.ok();
/// both.release().await?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "the locks are released when the guards are dropped"]
pub struct Guards {
    guards: Vec<Guard>,
}

impl Guards {
    /// The guards, in the order of their names.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Guard> {
        self.guards.iter()
    }

    /// The guard of one name, for its fencing token.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Guard> {
        self.guards.iter().find(|guard| guard.name().as_str() == name)
    }

    /// Whether all of them are held, by the clock and at this call.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.guards.iter().all(Guard::is_held)
    }

    /// How long all of them are still held if nothing more is heard from the server.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.guards.iter().map(Guard::remaining).min().unwrap_or_default()
    }

    /// Ends when the first of them is lost, and says which and why.
    ///
    /// # Cancel safety
    /// May be dropped and called again; a loss is never missed.
    pub async fn lost(&self) -> Lost {
        type Watch<'a> = Pin<Box<dyn Future<Output = LostReason> + Send + 'a>>;
        let mut watches: Vec<(&Guard, Watch<'_>)> =
            self.guards.iter().map(|guard| (guard, Box::pin(guard.lost()) as Watch<'_>)).collect();
        std::future::poll_fn(|context| {
            for (guard, watch) in &mut watches {
                if let Poll::Ready(reason) = watch.as_mut().poll(context) {
                    return Poll::Ready(Lost { name: guard.name().clone(), reason });
                }
            }
            Poll::Pending
        })
        .await
    }

    /// Runs `work` while all locks are held; drops it when one is lost.
    ///
    /// # Errors
    /// [`Lost`] when a lock was lost before the work ended. What the work did until then stays done.
    ///
    /// # Cancel safety
    /// Dropped, it drops the work; the locks stay held.
    pub async fn run<T>(&self, work: impl Future<Output = T>) -> Result<T, Lost> {
        tokio::select! {
            biased;
            lost = self.lost() => Err(lost),
            output = work => Ok(output),
        }
    }

    /// Releases all of them, the last acquired first, and waits for the answers. `NotHeld` says that at least one was gone.
    ///
    /// # Errors
    /// The first error; the others were released all the same, and that one is repeated in the background.
    ///
    /// # Cancel safety
    /// Dropped, the releases go on in the background.
    pub async fn release(self) -> Result<Release> {
        release_all(self.guards).await
    }
}

impl Locker {
    /// Several locks about to be asked for, with options. A name given twice is one lock.
    pub fn lock_all<N: AsRef<str>>(&self, names: impl IntoIterator<Item = N>) -> LockAllRequest {
        LockAllRequest::new(self.clone(), names)
    }

    /// Acquires several locks with the default options, all or none; waits while others hold some.
    ///
    /// # Errors
    /// As [`LockAllRequest::acquire`].
    ///
    /// # Cancel safety
    /// As [`LockAllRequest::acquire`].
    pub async fn acquire_all<N: AsRef<str>>(&self, names: impl IntoIterator<Item = N>) -> Result<Guards> {
        self.lock_all(names).acquire().await
    }
}
