//! How much `lockyard run` says, and how it looks.

use clap::{ArgAction, Args, ValueEnum};

/// How much is said on stderr, and how it looks.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct VoiceArgs {
    /// Say more; twice: log what the library does
    #[arg(short, long, action = ArgAction::Count)]
    pub(crate) verbose: u8,

    /// Say nothing but why lockyard failed
    #[arg(short, long, conflicts_with = "verbose")]
    pub(crate) quiet: bool,

    /// How lines on stderr look
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(crate) log_format: LogFormat,

    /// Whether they are coloured; auto: on a terminal, unless NO_COLOR is set
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: Color,
}

impl VoiceArgs {
    /// As of a command that has `-v` only.
    pub(crate) fn verbose(verbose: u8) -> Self {
        Self { verbose, ..Self::default() }
    }
}

/// How a line on stderr looks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people
    #[default]
    Text,
    /// An object of JSON each
    Json,
}

/// When lines are coloured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    #[default]
    Auto,
    Always,
    Never,
}
