//! What can go wrong with a server.

use std::io;

use crate::Service;

/// The service cannot be had here: no URL was given, and it is not installed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{service} is absent: {reason} ({hint})")]
#[non_exhaustive]
pub struct Absent {
    /// The service asked for.
    pub service: Service,
    /// What was looked for and not found.
    pub reason: String,
    /// How to install it.
    pub hint: &'static str,
}

impl Absent {
    pub(crate) fn new(service: Service, reason: impl Into<String>) -> Self {
        Self { service, reason: reason.into(), hint: service.install_hint() }
    }
}

/// The service is here but did not start, or the URL given for it does not answer.
#[derive(Debug, thiserror::Error)]
#[error("{service} did not start: {reason}{}", tail_of(log))]
#[non_exhaustive]
pub struct FailedStart {
    /// The service that was started.
    pub service: Service,
    /// What was tried and what came of it.
    pub reason: String,
    /// The end of the server's log, or nothing.
    pub log: String,
}

impl FailedStart {
    pub(crate) fn new(service: Service, reason: impl Into<String>) -> Self {
        Self { service, reason: reason.into(), log: String::new() }
    }

    pub(crate) fn with_log(self, log: String) -> Self {
        Self { log, ..self }
    }
}

fn tail_of(log: &str) -> String {
    if log.is_empty() { String::new() } else { format!("\nthe end of its log:\n{log}") }
}

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// It cannot be had here, which may be a reason to skip.
    #[error(transparent)]
    Absent(#[from] Absent),
    /// It should be here and is not, which is a failure everywhere.
    #[error(transparent)]
    Failed(#[from] FailedStart),
}

/// Why a server was not broken, counted or restarted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FaultError {
    /// The server is somebody else's, and `LOCKYARD_ALLOW_FAULTS=1` is not set.
    #[error("{0} was joined by its URL: no fault without LOCKYARD_ALLOW_FAULTS=1")]
    NotAllowed(Service),
    /// The server is not a process of ours, so that this fault cannot be made at all.
    #[error("{0} was joined by its URL: its process is out of reach")]
    OutOfReach(Service),
    /// The server is stopped, so that there is nothing to break.
    #[error("{0} is not running")]
    NotRunning(Service),
    /// The requests of this server are not counted: start it with [`Options::counting`](crate::Options::counting).
    #[error("{0} was started without counting")]
    NotCounting(Service),
    /// The server runs by the machine's clock: start it with [`Options::own_clock`](crate::Options::own_clock).
    #[error("{0} was started without a clock of its own")]
    NoClock(Service),
    /// The restart failed.
    #[error(transparent)]
    Restart(#[from] FailedStart),
    /// The operating system, or the connection to the server, refused.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// The refusal.
        source: io::Error,
    },
}

impl FaultError {
    pub(crate) fn io(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { what, source }
    }
}
