//! How much `lockyard run` says, and how it looks.

use clap::{ArgAction, Args, ValueEnum};

use super::or_configured;
use crate::config::{Config, Key, one_of};
use crate::exit::Failure;

/// How much is said on stderr, and how it looks.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct VoiceArgs {
    /// Say more; twice: log what the library does
    #[arg(short, long, action = ArgAction::Count)]
    pub(crate) verbose: u8,

    /// Say nothing but why lockyard failed
    #[arg(short, long, conflicts_with = "verbose")]
    pub(crate) quiet: bool,

    /// How lines on stderr look [default: text]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) log_format: Option<LogFormat>,

    /// Whether they are coloured; auto: on a terminal, unless NO_COLOR is set [default: auto]
    #[arg(long, value_name = "WHEN")]
    pub(crate) color: Option<Color>,
}

impl VoiceArgs {
    /// As of a command that has `-v` only.
    pub(crate) fn verbose(verbose: u8) -> Self {
        Self { verbose, ..Self::default() }
    }

    /// Takes from the configuration what the command line leaves open.
    pub(super) fn settle(&mut self, config: &Config) -> Result<(), Failure> {
        or_configured(&mut self.log_format, config, Key::LogFormat, one_of)?;
        or_configured(&mut self.color, config, Key::Color, one_of)
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
