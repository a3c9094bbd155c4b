//! `lockyard completions` and `lockyard man`: what can be told from the command line alone.

use std::io::{self, Write};

use clap::CommandFactory;

use crate::args::{Cli, CompletionsArgs, ManArgs};
use crate::exit::{Exit, Failure};

const NAME: &str = "lockyard";

pub(crate) fn completions(args: &CompletionsArgs) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), NAME, &mut script);
    written(&script)
}

pub(crate) fn man(args: &ManArgs) -> Result<Exit, Failure> {
    let mut cli = Cli::command();
    // Names of subcommands are those of their pages: lockyard-run.
    cli.build();
    let command = match &args.command {
        None => cli,
        Some(name) => {
            let found = cli.find_subcommand(name).filter(|command| !command.is_hide_set());
            let found = found.ok_or_else(|| Failure::usage(format!("there is no command {name:?}")))?;
            found.clone()
        }
    };
    let mut page = Vec::new();
    clap_mangen::Man::new(command)
        .render(&mut page)
        .map_err(|error| Failure::internal(format!("no manual page: {error}")))?;
    written(&page)
}

/// Writes it to stdout. One that is closed is nobody's trouble.
fn written(bytes: &[u8]) -> Result<Exit, Failure> {
    match io::stdout().lock().write_all(bytes) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::internal(format!("cannot write to stdout: {error}")))
        }
        _ => Ok(Exit::Success),
    }
}
