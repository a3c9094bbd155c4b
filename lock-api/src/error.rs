//! What can go wrong, and whether the server may have acted all the same.

use std::error::Error as StdError;
use std::fmt;

use crate::LockName;

/// The result of everything that can fail here.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong. Decides what a caller can do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The lock name breaks the rule of [`LockName`].
    InvalidName,
    /// The ttl is outside the range that the backend states.
    InvalidTtl,
    /// The value is longer than a register takes.
    InvalidValue,
    /// An option, a URL or a setting is wrong.
    Config,
    /// The backend does not offer what was asked for.
    Unsupported,
    /// The server refused the credentials.
    Auth,
    /// The server did not answer, or not in time.
    Unreachable,
    /// The server answers, but it is not one that can hold locks (a replica, a standby, a pooler, too old).
    WrongServer,
    /// The claim belongs to a session that has ended; a new claim is needed.
    SessionChanged,
    /// The time that the caller wanted to wait is over.
    Timeout,
    /// A limit on connections, sessions or memory is reached.
    Capacity,
    /// The client was shut down.
    Shutdown,
    /// The server said something that was not expected here.
    Protocol,
}

impl ErrorKind {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::InvalidName,
        Self::InvalidTtl,
        Self::InvalidValue,
        Self::Config,
        Self::Unsupported,
        Self::Auth,
        Self::Unreachable,
        Self::WrongServer,
        Self::SessionChanged,
        Self::Timeout,
        Self::Capacity,
        Self::Shutdown,
        Self::Protocol,
    ];

    /// Whether the same call may succeed a little later without anybody changing anything.
    #[must_use]
    pub const fn is_transient(self) -> bool {
        matches!(self, Self::Unreachable | Self::SessionChanged | Self::Capacity)
    }

    /// The kind as one word, for labels and logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InvalidName => "invalid_name",
            Self::InvalidTtl => "invalid_ttl",
            Self::InvalidValue => "invalid_value",
            Self::Config => "config",
            Self::Unsupported => "unsupported",
            Self::Auth => "auth",
            Self::Unreachable => "unreachable",
            Self::WrongServer => "wrong_server",
            Self::SessionChanged => "session_changed",
            Self::Timeout => "timeout",
            Self::Capacity => "capacity",
            Self::Shutdown => "shutdown",
            Self::Protocol => "protocol",
        }
    }
}

/// Whether the server may have done what was asked although an error came back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Outcome {
    /// Certain: the server did not do it and will not do it later.
    NotApplied,
    /// The server may have done it, or may still do it when a delayed request arrives.
    Unknown,
}

/// What was being done when it failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// Opening a client.
    Connect,
    /// Trying to get a lock, or a place in its queue.
    Acquire,
    /// Waiting for a lock.
    Wait,
    /// Extending a lease.
    Renew,
    /// Giving a lock or a place back.
    Release,
    /// Looking at a lock.
    Inspect,
    /// Reading a register.
    Read,
    /// Writing a register.
    Write,
    /// Removing what is kept of unused names.
    Collect,
}

impl Operation {
    /// The operation as one word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Acquire => "acquire",
            Self::Wait => "wait",
            Self::Renew => "renew",
            Self::Release => "release",
            Self::Inspect => "inspect",
            Self::Read => "read",
            Self::Write => "write",
            Self::Collect => "collect",
        }
    }
}

/// An error: its kind, what it means for the server's state, the operation, the name and the cause.
///
/// A backend gives kind, outcome, message and source; the front end adds operation and name.
pub struct Error {
    inner: Box<Inner>,
}

struct Inner {
    kind: ErrorKind,
    outcome: Outcome,
    operation: Option<Operation>,
    name: Option<LockName>,
    message: String,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl Error {
    /// An error whose outcome is unknown unless [`Error::not_applied`] says otherwise.
    #[must_use]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        let inner = Inner {
            kind,
            outcome: Outcome::Unknown,
            operation: None,
            name: None,
            message: message.into(),
            source: None,
        };
        Self { inner: Box::new(inner) }
    }

    /// A wrong option or URL: found before any traffic, so nothing was applied.
    #[must_use]
    pub fn config(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Config, message).not_applied()
    }

    /// Something that this backend does not offer: found before any traffic.
    #[must_use]
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unsupported, message).not_applied()
    }

    /// States that the server certainly did nothing and will do nothing later.
    #[must_use]
    pub fn not_applied(mut self) -> Self {
        self.inner.outcome = Outcome::NotApplied;
        self
    }

    /// States that the server may have done it all the same.
    #[must_use]
    pub fn unknown(mut self) -> Self {
        self.inner.outcome = Outcome::Unknown;
        self
    }

    /// Keeps the cause.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.inner.source = Some(source.into());
        self
    }

    /// Says what was being done. The first one said stays: it is the most exact.
    #[must_use]
    pub fn with_operation(mut self, operation: Operation) -> Self {
        self.inner.operation.get_or_insert(operation);
        self
    }

    /// Says which lock it was about.
    #[must_use]
    pub fn with_name(mut self, name: &LockName) -> Self {
        self.inner.name.get_or_insert_with(|| name.clone());
        self
    }

    /// What went wrong.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.inner.kind
    }

    /// Whether the server may have acted all the same.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        self.inner.outcome
    }

    /// What was being done, if known.
    #[must_use]
    pub fn operation(&self) -> Option<Operation> {
        self.inner.operation
    }

    /// The lock it was about, if it was about one.
    #[must_use]
    pub fn name(&self) -> Option<&LockName> {
        self.inner.name.as_ref()
    }

    /// The message alone, without operation and name.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.inner.message
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.inner.operation, &self.inner.name) {
            (Some(operation), Some(name)) => write!(f, "{} {:?}: ", operation.as_str(), name.as_str())?,
            (Some(operation), None) => write!(f, "{}: ", operation.as_str())?,
            (None, Some(name)) => write!(f, "{:?}: ", name.as_str())?,
            (None, None) => {}
        }
        f.write_str(&self.inner.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.inner.kind)
            .field("outcome", &self.inner.outcome)
            .field("operation", &self.inner.operation)
            .field("name", &self.inner.name)
            .field("message", &self.inner.message)
            .field("source", &self.inner.source)
            .finish()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.inner.source.as_deref().map(|source| source as &(dyn StdError + 'static))
    }
}
