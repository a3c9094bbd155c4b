//! How a check ends before its end.

use std::fmt;
use std::panic::Location;

use crate::Fault;

/// Why a check stopped: it failed, or it does not apply here.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stop {
    /// The check does not apply to this backend or cannot be made with this harness, for this reason.
    Ignored(String),
    /// The contract is broken: what was expected and what happened.
    Failed(String),
}

/// What a check answers: it ends, or it stops with a reason.
pub type Checked<T = ()> = Result<T, Stop>;

impl Stop {
    /// The check does not apply, for this reason.
    pub fn ignored(reason: impl Into<String>) -> Self {
        Self::Ignored(reason.into())
    }

    /// The contract is broken. The place of the caller is added to the text.
    #[track_caller]
    pub fn failed(text: impl fmt::Display) -> Self {
        let place = Location::caller();
        let file = place.file().rsplit('/').next().unwrap_or_default();
        Self::Failed(format!("{text} ({file}:{})", place.line()))
    }
}

impl From<lockyard_api::Error> for Stop {
    #[track_caller]
    fn from(error: lockyard_api::Error) -> Self {
        let (kind, outcome) = (error.kind(), error.outcome());
        Self::failed(format_args!("unexpected error {kind:?}, outcome {outcome:?}: {error}"))
    }
}

impl Fault {
    /// Goes on when the fault was made.
    ///
    /// # Errors
    /// `Ignored` with the harness's reason when it was not.
    pub fn made(self) -> Checked {
        match self {
            Self::Done => Ok(()),
            Self::NotOffered(reason) => Err(Stop::Ignored(reason)),
        }
    }
}

/// Fails the check unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($text:tt)+) => {
        if !$condition {
            return Err($crate::Stop::failed(format_args!($($text)+)));
        }
    };
}
pub(crate) use ensure;
