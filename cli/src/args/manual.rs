//! The command lines of `lockyard completions` and `lockyard man`.

use clap::Args;
use clap_complete::Shell;

/// Print a script that completes lockyard's command lines.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub(crate) shell: Shell,
}

/// Print the manual page of lockyard or of one of its commands, for man(1).
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// The command
    #[arg(value_name = "COMMAND")]
    pub(crate) command: Option<String>,
}
