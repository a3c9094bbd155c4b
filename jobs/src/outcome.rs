//! What came of a tick.

use std::fmt;
use std::time::Duration;

use lockyard_api::LostReason;

use crate::WallTime;

/// What came of a tick. That another replica ran it is a value and no error.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a job that failed or lost its lock is told here"]
#[non_exhaustive]
pub enum Outcome<T, E> {
    /// The job ran, and returned this.
    Ran(T),
    /// The job ran, and returned this error.
    Failed(E),
    /// The job was not started here.
    Skipped(Skipped),
    /// The lock was lost; the job was cancelled and has ended, or was not started.
    Lost {
        /// Why.
        reason: LostReason,
    },
    /// The job took longer than `at_most_for`; it was cancelled and has ended.
    TimedOut,
    /// The scheduler was told to stop and its patience was over; the job was cancelled and has ended.
    Stopped,
}

impl<T, E> Outcome<T, E> {
    /// The outcome as one word, for labels and logs.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Ran(_) => "ran",
            Self::Failed(_) => "failed",
            Self::Skipped(_) => "skipped",
            Self::Lost { .. } => "lost",
            Self::TimedOut => "timed_out",
            Self::Stopped => "stopped",
        }
    }

    /// Whether the job was started here.
    #[must_use]
    pub const fn is_ran(&self) -> bool {
        matches!(self, Self::Ran(_))
    }
}

/// Why a job was not started here.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Skipped {
    /// Another holds the job's lock.
    Held {
        /// Who, as far as the service tells.
        holder: Option<String>,
        /// For how long, as far as the service tells.
        since: Option<Duration>,
    },
    /// The slot is used: another has started it, or a later one.
    Claimed {
        /// Who made the latest start.
        by: Option<String>,
        /// When, by the clock of that host.
        at: Option<WallTime>,
    },
    /// The job is paused, or was when the slot was due.
    Paused,
    /// The slot is over.
    Misfired {
        /// How many slots nobody has run, this one included; 0 when it was begun.
        missed: u64,
        /// Whether it was begun by a replica that has vanished.
        crashed: bool,
    },
    /// The run before it was less than `at_least_for` ago.
    TooSoon {
        /// When it is not any more.
        until: WallTime,
    },
    /// The slot lies further in the future than clocks are ever apart.
    ClockSkew {
        /// By how much.
        ahead: Duration,
    },
}

impl Skipped {
    /// The reason as one word, for labels and logs.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Held { .. } => "held",
            Self::Claimed { .. } => "claimed",
            Self::Paused => "paused",
            Self::Misfired { .. } => "misfired",
            Self::TooSoon { .. } => "too_soon",
            Self::ClockSkew { .. } => "clock_skew",
        }
    }
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held { holder: Some(holder), .. } => write!(f, "{holder} holds the lock"),
            Self::Held { holder: None, .. } => write!(f, "another holds the lock"),
            Self::Claimed { by: Some(by), at: Some(at) } => {
                write!(f, "the slot is used: {by} made the last start at {at}")
            }
            Self::Claimed { .. } => write!(f, "the slot is used"),
            Self::Paused => write!(f, "the job is paused, or was when the slot was due"),
            Self::Misfired { crashed: true, .. } => write!(f, "a replica began the slot and vanished"),
            Self::Misfired { missed, .. } => write!(f, "too late: slots that nobody has run: {missed}"),
            Self::TooSoon { until } => write!(f, "the run before it keeps the job closed until {until}"),
            Self::ClockSkew { ahead } => write!(f, "the slot lies {ahead:?} ahead of the clock"),
        }
    }
}
