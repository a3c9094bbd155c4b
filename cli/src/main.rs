//! The `lockyard` command.

mod args;
mod config;
mod exit;
mod gc;
mod inspect;
#[cfg(feature = "jobs")]
mod job;
#[cfg(feature = "conformance")]
mod lab;
mod manual;
mod output;
mod run;
mod source;

use std::process::ExitCode;
use std::time::Duration;

use args::{Cli, Command, ConfigAction, ConfigArgs};
use exit::{Exit, Failure};
use output::say;

/// How long a call that blocks its thread may hold the exit up.
const FAREWELL: Duration = Duration::from_millis(500);

fn main() -> ExitCode {
    let exit = match args::parse() {
        Ok(cli) => dispatch(cli).unwrap_or_else(|failure| {
            say(&failure.message);
            failure.exit
        }),
        Err(exit) => exit,
    };
    exit.into()
}

/// Runs the command on this thread, the process's first: what it spawns is killed when this thread ends.
fn dispatch(mut cli: Cli) -> Result<Exit, Failure> {
    let settled = cli.settle();
    output::set_up(cli.voice()?);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(cli.threads())
        .enable_all()
        .build()
        .map_err(|error| Failure::internal(format!("no runtime: {error}")))?;
    let result = runtime.block_on(async {
        match cli.command {
            // A run says in its status file what kept it.
            Command::Run(args) => run::run(*args, settled).await,
            _ if let Err(failure) = settled => Err(failure),
            Command::Inspect(args) => inspect::inspect(args).await,
            #[cfg(feature = "jobs")]
            Command::Job(args) => job::job(args).await,
            Command::Gc(args) => gc::gc(args).await,
            Command::Config(ConfigArgs { action: ConfigAction::Show(args) }) => config::show(&args),
            Command::Completions(args) => manual::completions(&args),
            Command::Man(args) => manual::man(&args),
            #[cfg(feature = "conformance")]
            Command::Conformance(args) => lab::conformance::conformance(args).await,
            #[cfg(feature = "lab")]
            Command::Compare(args) => lab::compare::compare(*args).await,
            #[cfg(feature = "lab")]
            Command::Report(args) => lab::report::report(&args),
            #[cfg(feature = "lab")]
            Command::Chaos(args) => lab::chaos::chaos(*args).await,
            #[cfg(feature = "lab")]
            Command::ChaosClient(args) => lab::chaos::client::serve(args).await,
            #[cfg(feature = "lab")]
            Command::BenchWorker(args) => lab::worker::serve(&args).await,
        }
    });
    // What the tasks in the background own (a folder, a process) goes with them, before the exit does; a call that cannot be ended
    // does not hold it up for long.
    runtime.shutdown_timeout(FAREWELL);
    result
}
