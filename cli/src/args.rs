//! The command line.

#[cfg(feature = "lab")]
mod chaos;
#[cfg(feature = "lab")]
mod compare;
mod config;
#[cfg(feature = "conformance")]
mod conformance;
mod gc;
mod inspect;
mod manual;
#[cfg(feature = "metrics")]
mod metrics;
#[cfg(feature = "lab")]
mod report;
mod run;
mod start;
mod voice;

use std::sync::Arc;
use std::time::Duration;

use clap::{Parser, Subcommand};

use crate::config::{Config, Key};
use crate::exit::{Exit, Failure};
use crate::source::SourceArgs;
#[cfg(feature = "lab")]
pub(crate) use chaos::{ChaosArgs, ChaosClientArgs};
#[cfg(feature = "lab")]
pub(crate) use compare::{BenchWorkerArgs, CompareArgs, ExportArgs, JudgeArgs, SuiteSize};
pub(crate) use config::{ConfigAction, ConfigArgs, ConfigForm, ConfigShowArgs};
#[cfg(feature = "conformance")]
pub(crate) use conformance::{ConformanceArgs, TargetArgs};
pub(crate) use gc::GcArgs;
pub(crate) use inspect::{Form, InspectArgs};
pub(crate) use manual::{CompletionsArgs, ManArgs};
#[cfg(feature = "metrics")]
pub(crate) use metrics::MetricsArgs;
#[cfg(feature = "lab")]
pub(crate) use report::ReportArgs;
pub(crate) use run::{OnLost, RunArgs};
pub(crate) use start::StartArgs;
pub(crate) use voice::{Color, LogFormat, VoiceArgs};

/// Distributed locks: run commands under one, look at them, and compare the services that offer them.
#[derive(Debug, Parser)]
#[command(name = "lockyard", version, max_term_width = 100, disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a command while holding a lock
    Run(Box<RunArgs>),
    /// Show who holds a lock, without touching it
    Inspect(InspectArgs),
    /// Look at scheduled jobs, pause them, and run them by hand
    #[cfg(feature = "jobs")]
    Job(crate::job::JobArgs),
    /// Remove what is kept of names that nobody has used for a time
    Gc(GcArgs),
    /// Look at the configuration
    Config(ConfigArgs),
    /// Print a script that completes command lines
    Completions(CompletionsArgs),
    /// Print a manual page
    Man(ManArgs),
    /// Check that backends keep what they promise
    #[cfg(feature = "conformance")]
    Conformance(ConformanceArgs),
    /// Check and measure backends side by side, and write a report
    #[cfg(feature = "lab")]
    Compare(Box<CompareArgs>),
    /// Render a report again from its JSON, without running anything
    #[cfg(feature = "lab")]
    Report(ReportArgs),
    /// Break clients, links and servers at random, and check that locks stay locks
    #[cfg(feature = "lab")]
    Chaos(Box<ChaosArgs>),
    /// Take locks as told on stdin: a client of "lockyard chaos"
    #[cfg(feature = "lab")]
    #[command(hide = true)]
    ChaosClient(ChaosClientArgs),
    /// Measure as told on stdin: a client of "lockyard compare"
    #[cfg(feature = "lab")]
    #[command(hide = true)]
    BenchWorker(BenchWorkerArgs),
}

impl Cli {
    /// Reads the configuration, and takes from it what the command line leaves open.
    ///
    /// # Errors
    /// `Config` for a file or a variable that is wrong.
    pub(crate) fn settle(&mut self) -> Result<(), Failure> {
        let Some(config) = self.source_mut().map(SourceArgs::load).transpose()? else { return Ok(()) };
        match &mut self.command {
            Command::Run(args) => args.settle(&config),
            _ => Ok(()),
        }
    }

    /// The options of the backend, where the command has one.
    const fn source_mut(&mut self) -> Option<&mut SourceArgs> {
        match &mut self.command {
            Command::Run(args) => Some(&mut args.source),
            Command::Inspect(args) => Some(&mut args.source),
            Command::Gc(args) => Some(&mut args.source),
            Command::Config(ConfigArgs { action: ConfigAction::Show(args) }) => Some(&mut args.source),
            #[cfg(feature = "jobs")]
            Command::Job(args) => Some(args.source_mut()),
            _ => None,
        }
    }

    /// How much is said, and how it looks.
    ///
    /// # Errors
    /// `Config` for a setting that is wrong.
    pub(crate) fn voice(&mut self) -> Result<VoiceArgs, Failure> {
        let mut voice = self.own_voice();
        if let Some(config) = self.source_mut().and_then(|source| source.loaded().map(Arc::clone)) {
            voice.settle(&config)?;
        }
        Ok(voice)
    }

    fn own_voice(&self) -> VoiceArgs {
        let verbose = match &self.command {
            Command::Run(args) => return args.voice,
            Command::Inspect(args) => args.verbose,
            #[cfg(feature = "jobs")]
            Command::Job(args) => args.verbose(),
            Command::Gc(args) => args.verbose,
            Command::Config(ConfigArgs { action: ConfigAction::Show(args) }) => args.verbose,
            Command::Completions(_) | Command::Man(_) => 0,
            #[cfg(feature = "conformance")]
            Command::Conformance(args) => args.verbose,
            #[cfg(feature = "lab")]
            Command::Compare(args) => args.verbose,
            #[cfg(feature = "lab")]
            Command::Report(_) => 0,
            #[cfg(feature = "lab")]
            Command::Chaos(args) => args.verbose,
            #[cfg(feature = "lab")]
            Command::ChaosClient(args) => args.verbose,
            #[cfg(feature = "lab")]
            Command::BenchWorker(_) => 0,
        };
        VoiceArgs::verbose(verbose)
    }

    /// Threads beside the first one: a command that holds one lock needs no more.
    pub(crate) fn threads(&self) -> usize {
        match &self.command {
            Command::Run(_) | Command::Inspect(_) | Command::Gc(_) => 1,
            Command::Config(_) | Command::Completions(_) | Command::Man(_) => 1,
            #[cfg(feature = "jobs")]
            Command::Job(_) => 1,
            #[cfg(feature = "lab")]
            Command::ChaosClient(_) => 1,
            #[cfg(feature = "conformance")]
            _ => std::thread::available_parallelism().map_or(2, usize::from),
        }
    }
}

/// Parses the command line. The error is an end that has said all there is to say.
pub(crate) fn parse() -> Result<Cli, Exit> {
    Cli::try_parse().map_err(|error| {
        // Help and version go to stdout and are no errors. A closed stream is nobody's trouble.
        let _ = error.print();
        if error.use_stderr() { Exit::Usage } else { Exit::Success }
    })
}

/// Sets what is open by the configuration.
fn or_configured<T>(
    value: &mut Option<T>,
    config: &Config,
    key: Key,
    parse: fn(&str) -> Result<T, String>,
) -> Result<(), Failure> {
    if value.is_none() {
        *value = config.parsed(key, parse)?;
    }
    Ok(())
}

pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|error| format!("write a time with its unit, such as 30s or 10m ({error})"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }
}
