//! What happens to locks, as an observer is told.

use std::fmt;
use std::time::Duration;

use crate::{ErrorKind, FencingToken, LockName, LostReason, Operation, Release};

/// Something that happened to a lock of a [`Locker`](crate::Locker).
///
/// Each [`Event::Asked`] is followed by exactly one of [`Event::Acquired`], [`Event::Contended`], [`Event::TimedOut`],
/// [`Event::Cancelled`] and [`Event::GaveUp`]; each [`Event::Acquired`] by exactly one of [`Event::Lost`] and
/// [`Event::Ended`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Event {
    /// Somebody asks for a lock, or begins to wait for it.
    Asked {
        /// The lock.
        name: LockName,
    },
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
        /// From the call to the answer.
        waited: Duration,
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
        /// How long it waited.
        waited: Duration,
    },
    /// An acquire ended with an error.
    GaveUp {
        /// The lock.
        name: LockName,
        /// What went wrong.
        kind: ErrorKind,
        /// From the call to the error.
        waited: Duration,
    },
    /// An operation failed, also when it is tried again.
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
    /// The server answered a renewal: the owner does not hold the lock.
    RenewalRefused {
        /// The lock.
        name: LockName,
    },
    /// A hold was lost.
    Lost {
        /// The lock.
        name: LockName,
        /// Why.
        reason: LostReason,
        /// From the grant to the loss.
        held: Duration,
    },
    /// A hold has ended because its holder gave it back: its release is sent now.
    Ended {
        /// The lock.
        name: LockName,
        /// From the grant to the release.
        held: Duration,
    },
    /// The release of a hold was answered: it was released, or gone.
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
    /// Too many acquires in a row could not reach the service: for a while none is sent. Told once, until it is closed again.
    CircuitOpened {
        /// How many failed in a row.
        failures: u32,
        /// For how long at first.
        pause: Duration,
    },
    /// Acquires are sent again.
    CircuitClosed,
    /// A register refused a write whose token was too old; told by an [`ObservedRegister`](crate::ObservedRegister).
    Rejected {
        /// The register.
        name: LockName,
        /// The token of the writer.
        token: FencingToken,
        /// The token that stands there.
        stored: FencingToken,
    },
}

/// Is told of every [`Event`]. Called in place: be quick, and never block.
pub trait Observer: fmt::Debug + Send + Sync + 'static {
    /// Something happened.
    fn on_event(&self, event: &Event);
}
