//! The command line of `lockyard gc`.

use std::time::Duration;

use clap::{ArgAction, Args};

use super::duration;
use crate::source::SourceArgs;

/// Remove what is kept of names that nobody has used for a time: counters, rows, files. Never of a held one.
#[derive(Debug, Args)]
pub(crate) struct GcArgs {
    #[command(flatten)]
    pub(crate) source: SourceArgs,

    /// How long a name must have been unused, by the clock of the server
    #[arg(long, value_name = "DUR", default_value = "30d", value_parser = duration)]
    pub(crate) older_than: Duration,

    /// Only print the names that would be removed
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Log what the library does
    #[arg(short, long, action = ArgAction::Count)]
    pub(crate) verbose: u8,

    /// Only names that begin so
    #[arg(value_name = "NAME-PREFIX", default_value = "", hide_default_value = true)]
    pub(crate) prefix: String,
}
