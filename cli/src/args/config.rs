//! The command line of `lockyard config`.

use clap::{ArgAction, Args, Subcommand, ValueEnum};

use crate::source::SourceArgs;

/// Look at the configuration.
///
/// A setting comes from the command line, else from the environment (LOCKYARD_TTL for "ttl"), else from the user's file
/// ($XDG_CONFIG_HOME/lockyard/config.toml, by default in ~/.config), else from the host's (/etc/lockyard/config.toml), else it has
/// its default. --config or LOCKYARD_CONFIG names one file instead of the two.
#[derive(Debug, Args)]
#[command(disable_help_subcommand = true)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    pub(crate) action: ConfigAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigAction {
    /// Show what holds, and who says so; passwords are not shown
    Show(ConfigShowArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ConfigShowArgs {
    #[command(flatten)]
    pub(crate) source: SourceArgs,

    /// How to print
    #[arg(short, long, value_name = "FORM", default_value = "table")]
    pub(crate) output: ConfigForm,

    /// Log what the library does
    #[arg(short, long, action = ArgAction::Count)]
    pub(crate) verbose: u8,
}

/// How `config show` prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ConfigForm {
    Table,
    Json,
}
