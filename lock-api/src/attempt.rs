//! What a backend answers.

use std::sync::Arc;
use std::time::Duration;

use crate::{FencingToken, Moment, Owner, SessionWatch};

/// The answer to `try_acquire`.
#[derive(Debug, Clone)]
#[must_use]
#[non_exhaustive]
pub enum Attempt {
    /// Somebody else holds the name and nothing was left on the server. Only ever answers `IfBusy::Leave`.
    Busy,
    /// The claim holds the name.
    Granted(Grant),
    /// The claim is known as a waiter: call `wait`, or `release` to give up. Only ever answers `IfBusy::Queue`.
    Queued,
}

/// How a `wait` ended.
#[derive(Debug, Clone)]
#[must_use]
#[non_exhaustive]
pub enum Wake {
    /// The server gave the name to this claim.
    Granted(Grant),
    /// Something changed, or the re-check is due: call `try_acquire` again with the same claim.
    Retry,
}

/// The answer to `renew`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub enum Renewal {
    /// The hold stands: its lease runs for `ttl`, started at the server no earlier than `valid_from`.
    Renewed {
        /// The lease granted.
        ttl: Duration,
        /// When the request was sent whose answer this is.
        valid_from: Moment,
    },
    /// The server says that this owner does not hold the name.
    Lost,
}

/// The answer to `release`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Release {
    /// The owner held the name, or had a place in its queue, and no longer does.
    Released,
    /// The owner had nothing on this name: it ended before, or was never there.
    NotHeld,
}

impl Release {
    /// The answer as one word, for labels and logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Released => "released",
            Self::NotHeld => "not_held",
        }
    }
}

/// A hold that the server gave.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Grant {
    /// Rises strictly with every grant of the name, where the backend fences.
    pub token: Option<FencingToken>,
    /// The clock read just before the last request was sent whose answer proves that the lease started at or after it.
    pub valid_from: Moment,
    /// What keeps the hold alive.
    pub liveness: Liveness,
}

impl Grant {
    /// A grant with these parts.
    #[must_use]
    pub const fn new(token: Option<FencingToken>, valid_from: Moment, liveness: Liveness) -> Self {
        Self { token, valid_from, liveness }
    }
}

/// What keeps a hold alive.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Liveness {
    /// A lease of its own, which the watchdog renews.
    Lease {
        /// The lease granted; not less than what was asked for.
        ttl: Duration,
    },
    /// The session of the client, which the backend keeps alive.
    Session(SessionWatch),
    /// The process: the kernel or the memory of this process ends the hold with it.
    Process,
}

/// Who holds a name, as the server tells it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// The holder's owner, where the server keeps it. A hold taken by another program may have none.
    pub owner: Option<Owner>,
    /// Its fencing token, where the server keeps it.
    pub token: Option<FencingToken>,
    /// The label given with the claim.
    pub label: Option<Arc<str>>,
    /// Where it comes from as the server or the holder says it: host and process, an address, a session.
    pub origin: Option<String>,
    /// How long it has been held.
    pub held_for: Option<Duration>,
    /// When the lease ends unless it is renewed.
    pub expires_in: Option<Duration>,
    /// How many wait, where the server knows.
    pub waiters: Option<u64>,
}

impl Holder {
    /// A holder of whom nothing is known yet; fill in what the server tells.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}
