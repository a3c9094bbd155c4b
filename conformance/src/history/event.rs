//! What happened, and what was broken.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Something that a client did or was told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Event {
    /// When, in nanoseconds of `CLOCK_BOOTTIME`: of what a client does before it does it, of what it is told afterwards.
    pub at: u64,
    /// The client.
    pub process: u32,
    /// The number of an acquisition within its client, which all that comes of it carries.
    pub op: u64,
    /// The lock name.
    pub name: String,
    /// What it was.
    #[serde(flatten)]
    pub what: What,
}

impl Event {
    /// An event.
    pub fn new(at: u64, process: u32, op: u64, name: impl Into<String>, what: What) -> Self {
        Self { at, process, op, name: name.into(), what }
    }

    /// The end of a whole client, which holds nothing from then on.
    #[must_use]
    pub const fn ended(at: u64, process: u32) -> Self {
        Self { at, process, op: 0, name: String::new(), what: What::Ended }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = std::time::Duration::from_nanos(self.at).as_secs_f64();
        write!(f, "{seconds:.6} client {} op {} {:?} {}", self.process, self.op, self.name, self.what)
    }
}

/// What a client did or was told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
#[non_exhaustive]
pub enum What {
    /// It asks for the lock.
    Acquire,
    /// It was granted.
    Granted {
        /// The owner, as 32 hexadecimal digits.
        owner: String,
        /// The fencing token, where the backend fences.
        #[serde(default, skip_serializing_if = "Option::is_none", with = "decimal")]
        token: Option<u64>,
        /// D, as `at`: up to here the client may believe in its hold.
        until: u64,
    },
    /// Another holds it, or the wait is over.
    Busy,
    /// The hold was confirmed; D is now this.
    Held {
        /// D, as `at`.
        until: u64,
    },
    /// The hold was lost.
    Lost {
        /// Why, in a word.
        reason: String,
    },
    /// It gives the lock back, or drops its guard.
    Release,
    /// The release was answered.
    Released {
        /// Whether the server still had the hold.
        held: bool,
    },
    /// It writes to the fenced register of the name.
    Write {
        /// Under this token.
        #[serde(with = "decimal")]
        token: Option<u64>,
    },
    /// The register took the write.
    Written,
    /// The register refused it: it has seen a larger token.
    Stale,
    /// What it asked for failed.
    Failed {
        /// What was being done, in a word.
        operation: String,
        /// What went wrong, in a word.
        kind: String,
        /// Whether the server may have done it all the same.
        unknown: bool,
    },
    /// The client is gone.
    Ended,
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Granted { token: Some(token), .. } => write!(f, "granted, token {token}"),
            Self::Lost { reason } => write!(f, "lost ({reason})"),
            Self::Write { token: Some(token) } => write!(f, "write, token {token}"),
            Self::Failed { operation, kind, unknown } => {
                write!(f, "{operation} failed ({kind}, {})", if *unknown { "unknown" } else { "not applied" })
            }
            Self::Released { held } => f.write_str(if *held { "released" } else { "not held" }),
            other => f.write_str(match other {
                Self::Acquire => "acquire",
                Self::Granted { .. } => "granted",
                Self::Busy => "busy",
                Self::Held { .. } => "held",
                Self::Release => "release",
                Self::Write { .. } => "write",
                Self::Written => "written",
                Self::Stale => "refused",
                _ => "ended",
            }),
        }
    }
}

/// A kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FaultKind {
    /// A client was stopped from running.
    ClientFrozen,
    /// A client was killed.
    ClientKilled,
    /// Nothing passed between a client and the server, and came later.
    LinkHeld,
    /// What a client sent never arrived.
    RequestsDropped,
    /// What the server answered never arrived.
    RepliesDropped,
    /// A client's connections were cut.
    LinkCut,
    /// Some of the server's answers to a client were swallowed, then its connection was cut.
    RepliesSwallowed,
    /// What passed was delayed.
    LinkDelayed,
    /// The server was stopped from running.
    ServerFrozen,
    /// The server was killed and started again.
    ServerRestarted,
    /// The session of a client was ended at the server.
    SessionEnded,
    /// A hold was removed at the server by hand.
    Revoked,
}

impl FaultKind {
    /// The kind in words, as in a history.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ClientFrozen => "client_frozen",
            Self::ClientKilled => "client_killed",
            Self::LinkHeld => "link_held",
            Self::RequestsDropped => "requests_dropped",
            Self::RepliesDropped => "replies_dropped",
            Self::LinkCut => "link_cut",
            Self::RepliesSwallowed => "replies_swallowed",
            Self::LinkDelayed => "link_delayed",
            Self::ServerFrozen => "server_frozen",
            Self::ServerRestarted => "server_restarted",
            Self::SessionEnded => "session_ended",
            Self::Revoked => "revoked",
        }
    }

    /// Whether a client under it learns later than else what became of its holds.
    pub(super) const fn keeps_news_away(self) -> bool {
        matches!(
            self,
            Self::ClientFrozen
                | Self::LinkHeld
                | Self::RequestsDropped
                | Self::RepliesDropped
                | Self::LinkDelayed
                | Self::ServerFrozen
                | Self::ServerRestarted
        )
    }
}

/// The time during which something was broken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FaultWindow {
    /// What.
    pub fault: FaultKind,
    /// From when, as [`Event::at`].
    pub from: u64,
    /// Until when.
    pub to: u64,
    /// The client that it concerned; all when there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<u32>,
}

impl FaultWindow {
    /// A fault that concerned one client, or all.
    #[must_use]
    pub const fn new(fault: FaultKind, from: u64, to: u64, process: Option<u32>) -> Self {
        Self { fault, from, to, process }
    }

    pub(super) fn concerns(&self, process: u32) -> bool {
        self.process.is_none_or(|it| it == process)
    }
}

/// Tokens as decimal strings: not every reader of JSON has 64 bits.
mod decimal {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    #[expect(clippy::ref_option, reason = "the form that serde asks for")]
    pub(super) fn serialize<S: Serializer>(token: &Option<u64>, to: S) -> Result<S::Ok, S::Error> {
        match token {
            Some(token) => to.collect_str(token),
            None => to.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
        let text = Option::<String>::deserialize(from)?;
        text.map(|text| text.parse().map_err(D::Error::custom)).transpose()
    }
}
