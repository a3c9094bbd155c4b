//! What is asked of a backend: one claim for one acquisition.

use std::sync::Arc;
use std::time::Duration;

use crate::{LockName, Owner};

/// How many may hold a name together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// One holder at a time.
    Exclusive,
    /// Any number of shared holders, or one exclusive one.
    Shared,
    /// At most `of` holders at a time.
    Permit {
        /// The number of permits that the name has; all who use the name say the same.
        of: u32,
    },
}

impl Kind {
    /// The kind as one word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Exclusive => "exclusive",
            Self::Shared => "shared",
            Self::Permit { .. } => "permit",
        }
    }
}

/// What to do when the name is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum IfBusy {
    /// Leave nothing behind on the server.
    Leave,
    /// Stay known to the server, in its queue where it has one, until granted or released.
    Queue,
}

/// Whether the hold is kept alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Renew {
    /// The watchdog (or the session) keeps the hold alive until it is released.
    Auto,
    /// The hold ends one ttl after it was granted, whatever its holder does.
    Never,
}

/// One acquisition: who wants which name, for how long, and how. Fixed before the first byte leaves, never changed.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Claim {
    /// The lock wanted.
    pub name: LockName,
    /// Who wants it: new for each acquisition.
    pub owner: Owner,
    /// The lease asked for. What is granted may be longer, or be the session's; see `Liveness`.
    pub ttl: Duration,
    /// Exclusive, shared or a permit.
    pub kind: Kind,
    /// What to do when the name is held.
    pub if_busy: IfBusy,
    /// Whether the hold is kept alive.
    pub renew: Renew,
    /// A word about the holder for people who inspect the lock. Never used to decide anything.
    pub label: Option<Arc<str>>,
}

impl Claim {
    /// An exclusive claim of a new owner that leaves nothing behind when the name is held.
    #[must_use]
    pub fn new(name: LockName, ttl: Duration) -> Self {
        Self {
            name,
            owner: Owner::random(),
            ttl,
            kind: Kind::Exclusive,
            if_busy: IfBusy::Leave,
            renew: Renew::Auto,
            label: None,
        }
    }

    /// The same claim with this owner.
    #[must_use]
    pub fn with_owner(mut self, owner: Owner) -> Self {
        self.owner = owner;
        self
    }

    /// The same claim of this kind.
    #[must_use]
    pub fn with_kind(mut self, kind: Kind) -> Self {
        self.kind = kind;
        self
    }

    /// The same claim, queueing when the name is held.
    #[must_use]
    pub fn queueing(mut self) -> Self {
        self.if_busy = IfBusy::Queue;
        self
    }

    /// The same claim with a fixed lease: never renewed.
    #[must_use]
    pub fn fixed(mut self) -> Self {
        self.renew = Renew::Never;
        self
    }

    /// The same claim with a label.
    #[must_use]
    pub fn with_label(mut self, label: impl Into<Arc<str>>) -> Self {
        self.label = Some(label.into());
        self
    }
}
