//! The command line of `lockyard inspect`.

use clap::{ArgAction, Args, ValueEnum};

use crate::source::SourceArgs;

/// Show who holds a lock, without touching it.
#[derive(Debug, Args)]
pub(crate) struct InspectArgs {
    #[command(flatten)]
    pub(crate) source: SourceArgs,

    /// Exit with 0 when somebody holds the lock, with 1 when nobody does; prints nothing
    #[arg(long)]
    pub(crate) is_held: bool,

    /// How to print: "name" prints the names that are held
    #[arg(short, long, value_name = "FORM", default_value = "table", conflicts_with = "is_held")]
    pub(crate) output: Form,

    /// Log what the library does
    #[arg(short, long, action = ArgAction::Count)]
    pub(crate) verbose: u8,

    /// The names to look at
    #[arg(value_name = "NAME", required = true)]
    pub(crate) names: Vec<String>,
}

/// How `inspect` prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    Table,
    Json,
    Name,
}
