//! What a check found.

use std::fmt;
use std::time::Duration;

use super::{Event, FaultKind};

/// What a history shows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Verdict {
    /// How many holds there were.
    pub holds: usize,
    /// Overlaps that a fault explains, within what the backend is allowed.
    pub explained: Vec<Overlap>,
    /// Tokens that fell where the backend is allowed that.
    pub tokens_excused: usize,
    /// The longest time between the end of a hold and the next grant of the same name.
    pub longest_gap: Duration,
    /// What breaks a promise.
    pub violations: Vec<Violation>,
}

impl Verdict {
    /// The longest overlap that a fault explains.
    #[must_use]
    pub fn longest_overlap(&self) -> Duration {
        self.explained.iter().map(|overlap| overlap.time).max().unwrap_or_default()
    }
}

/// Two holders at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Overlap {
    /// The grant of the one who was first.
    pub first: Event,
    /// The grant that came while the first still held.
    pub second: Event,
    /// How long both held.
    pub time: Duration,
    /// The fault that explains it.
    pub fault: Option<FaultKind>,
}

/// A broken promise, with the two events that show it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Violation {
    /// Two held the name at a time, and no fault allows that.
    Overlap(Overlap),
    /// A later grant has a token that is not larger.
    TokenFell {
        /// The earlier grant.
        earlier: Event,
        /// The later one.
        later: Event,
    },
    /// The register had taken a larger token, and took a smaller one.
    StaleWrite {
        /// The write that was answered.
        earlier: Event,
        /// The write that was sent after that, with the older token.
        later: Event,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Overlap(Overlap { first, second, time, .. }) => {
                write!(f, "two holders for {time:?}: [{first}] and [{second}]")
            }
            Self::TokenFell { earlier, later } => write!(f, "a token fell: [{earlier}], then [{later}]"),
            Self::StaleWrite { earlier, later } => {
                write!(f, "the register took an older token: [{earlier}], then [{later}]")
            }
        }
    }
}
