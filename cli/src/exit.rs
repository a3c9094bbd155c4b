//! How the command ends.

use std::process::ExitCode;

use lockyard::{Error, ErrorKind};
use nix::sys::signal::Signal;

/// Every way in which `lockyard` can end, with its exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// All went well.
    Success,
    /// The command's own code.
    Own(u8),
    /// The command, or lockyard itself while waiting, was ended by this signal: 128 + its number.
    Signal(i32),
    /// `inspect --is-held`: nobody holds the name.
    Free,
    /// No check was selected.
    #[cfg(feature = "conformance")]
    NothingSelected,
    /// A figure of a comparison does not keep its threshold.
    #[cfg(feature = "lab")]
    ThresholdFailed,
    /// A conformance check failed.
    #[cfg(feature = "conformance")]
    CheckFailed,
    /// The command line is wrong.
    Usage,
    /// The backend cannot be reached; nothing is locked.
    Unreachable,
    /// Something that should not happen.
    Internal,
    /// Another holds the lock: 75 unless told otherwise.
    NotAcquired(u8),
    /// The backend, or the operating system, refused.
    Permission,
    /// A URL or an option is wrong.
    Config,
    /// The lock was lost and the command stopped.
    Lost,
    /// The command was stopped at its time limit.
    TimeLimit,
    /// The command cannot be executed.
    NotExecutable,
    /// There is no such command.
    NotFound,
}

impl Exit {
    /// The code when another holds the lock, unless told otherwise: `EX_TEMPFAIL` of sysexits(3).
    pub(crate) const NOT_ACQUIRED: u8 = 75;

    /// The code that the shell sees.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Own(code) | Self::NotAcquired(code) => code,
            Self::Signal(number) => u8::try_from(128 + number).unwrap_or(u8::MAX),
            Self::Free => 1,
            #[cfg(feature = "conformance")]
            Self::NothingSelected => 4,
            #[cfg(feature = "lab")]
            Self::ThresholdFailed => 99,
            #[cfg(feature = "conformance")]
            Self::CheckFailed => 100,
            Self::Usage => 64,
            Self::Unreachable => 69,
            Self::Internal => 70,
            Self::Permission => 77,
            Self::Config => 78,
            Self::Lost => 79,
            Self::TimeLimit => 124,
            Self::NotExecutable => 126,
            Self::NotFound => 127,
        }
    }
}

impl From<Signal> for Exit {
    fn from(signal: Signal) -> Self {
        Self::Signal(signal as i32)
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// An end that needs a word.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into() }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    pub(crate) fn config(message: impl Into<String>) -> Self {
        Self::new(Exit::Config, message)
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(Exit::Internal, message)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let exit = match error.kind() {
            ErrorKind::InvalidName => Exit::Usage,
            ErrorKind::InvalidTtl | ErrorKind::Config | ErrorKind::Unsupported => Exit::Config,
            ErrorKind::Auth => Exit::Permission,
            ErrorKind::Shutdown | ErrorKind::Protocol => Exit::Internal,
            _ => Exit::Unreachable,
        };
        Self::new(exit, error.to_string())
    }
}
