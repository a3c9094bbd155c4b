//! What happens to locks, told to an observer and to `tracing`.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::{Claim, Error, ErrorKind, FencingToken, LockName, LostReason, Operation, Release};

/// Something that happened to a lock of a [`Locker`](crate::Locker).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Event {
    /// A lock was acquired.
    Acquired {
        /// The lock.
        name: LockName,
        /// Its fencing token, where the backend fences.
        token: Option<FencingToken>,
        /// From the call to the guard.
        waited: Duration,
        /// How many requests were made for it.
        attempts: u32,
    },
    /// A try found the name held by another. Not an error.
    Contended {
        /// The lock.
        name: LockName,
    },
    /// The time that the caller wanted to wait was over.
    TimedOut {
        /// The lock.
        name: LockName,
        /// How long it waited.
        waited: Duration,
    },
    /// The caller dropped its acquire.
    Cancelled {
        /// The lock.
        name: LockName,
    },
    /// An operation failed.
    Failed {
        /// The lock, where it was about one.
        name: Option<LockName>,
        /// What was being done.
        operation: Operation,
        /// What went wrong.
        kind: ErrorKind,
    },
    /// A renewal was confirmed.
    Renewed {
        /// The lock.
        name: LockName,
        /// The share of the lease that was left: the early warning.
        remaining_ratio: f64,
    },
    /// A hold was lost.
    Lost {
        /// The lock.
        name: LockName,
        /// Why.
        reason: LostReason,
    },
    /// A hold was released, or a release found that it was gone.
    Released {
        /// The lock.
        name: LockName,
        /// What the server said.
        release: Release,
    },
    /// A background release was given up; the lease or the end of the session frees the name.
    ReleaseAbandoned {
        /// The lock.
        name: LockName,
    },
}

/// Is told of every [`Event`]. Called in place: be quick, and never block.
pub trait Observer: fmt::Debug + Send + Sync + 'static {
    /// Something happened.
    fn on_event(&self, event: &Event);
}

/// Where the front end says what happens.
#[derive(Clone, Debug)]
pub(crate) struct Events {
    backend: &'static str,
    observer: Option<Arc<dyn Observer>>,
}

impl Events {
    pub(crate) const fn new(backend: &'static str, observer: Option<Arc<dyn Observer>>) -> Self {
        Self { backend, observer }
    }

    /// Whether anybody would hear how long something took; reading the clock for nobody is not free.
    pub(crate) fn wants_times(&self) -> bool {
        self.observer.is_some() || tracing::enabled!(tracing::Level::DEBUG)
    }

    fn tell(&self, event: impl FnOnce() -> Event) {
        if let Some(observer) = &self.observer {
            observer.on_event(&event());
        }
    }

    pub(crate) fn acquired(&self, claim: &Claim, token: Option<FencingToken>, waited: Duration, attempts: u32) {
        let backend = self.backend;
        tracing::debug!(lock.name = %claim.name, lock.backend = backend, lock.token = token.map(FencingToken::get),
            lock.wait_seconds = waited.as_secs_f64(), lock.attempts = attempts, "acquired");
        self.tell(|| Event::Acquired { name: claim.name.clone(), token, waited, attempts });
    }

    pub(crate) fn contended(&self, name: &LockName) {
        tracing::debug!(lock.name = %name, lock.backend = self.backend, "held by another");
        self.tell(|| Event::Contended { name: name.clone() });
    }

    pub(crate) fn timed_out(&self, name: &LockName, waited: Duration) {
        tracing::debug!(lock.name = %name, lock.backend = self.backend, lock.wait_seconds = waited.as_secs_f64(), "timed out");
        self.tell(|| Event::TimedOut { name: name.clone(), waited });
    }

    pub(crate) fn cancelled(&self, name: &LockName) {
        tracing::debug!(lock.name = %name, lock.backend = self.backend, "acquire dropped by its caller");
        self.tell(|| Event::Cancelled { name: name.clone() });
    }

    pub(crate) fn error(&self, operation: Operation, name: Option<&LockName>, error: &Error) {
        let backend = self.backend;
        tracing::warn!(lock.name = name.map(LockName::as_str), lock.backend = backend, %error, "{} failed", operation.as_str());
        self.tell(|| Event::Failed { name: name.cloned(), operation, kind: error.kind() });
    }

    pub(crate) fn renewed(&self, claim: &Claim, remaining_ratio: f64) {
        tracing::trace!(lock.name = %claim.name, lock.backend = self.backend, remaining_ratio, "renewed");
        self.tell(|| Event::Renewed { name: claim.name.clone(), remaining_ratio });
    }

    pub(crate) fn lost(&self, claim: &Claim, reason: LostReason) {
        tracing::error!(lock.name = %claim.name, lock.backend = self.backend, lock.outcome = reason.as_str(), "lock lost: {reason}");
        self.tell(|| Event::Lost { name: claim.name.clone(), reason });
    }

    pub(crate) fn released(&self, claim: &Claim, release: Release) {
        tracing::debug!(lock.name = %claim.name, lock.backend = self.backend, ?release, "released");
        self.tell(|| Event::Released { name: claim.name.clone(), release });
    }

    pub(crate) fn release_abandoned(&self, claim: &Claim) {
        tracing::warn!(lock.name = %claim.name, lock.backend = self.backend, "release given up: the lease ends it");
        self.tell(|| Event::ReleaseAbandoned { name: claim.name.clone() });
    }
}
