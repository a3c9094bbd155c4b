//! The command line.

#[cfg(feature = "lab")]
mod chaos;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};

use crate::exit::Exit;
use crate::source::SourceArgs;
#[cfg(feature = "lab")]
pub(crate) use chaos::{ChaosArgs, ChaosClientArgs};

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
}

impl Cli {
    pub(crate) const fn verbose(&self) -> u8 {
        match &self.command {
            Command::Run(args) => args.verbose,
            Command::Inspect(args) => args.verbose,
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
        }
    }

    /// Threads beside the first one: a command that holds one lock needs no more.
    pub(crate) fn threads(&self) -> usize {
        match &self.command {
            Command::Run(_) | Command::Inspect(_) => 1,
            #[cfg(feature = "lab")]
            Command::ChaosClient(_) => 1,
            #[cfg(feature = "conformance")]
            _ => std::thread::available_parallelism().map_or(2, usize::from),
        }
    }
}

const RUN_EXIT_CODES: &str = "\
Exit codes:
  the command's own code; 128+N when signal N killed it, or lockyard while
  it waited
  64   the command line is wrong
  69   the backend cannot be reached; nothing is locked
  70   an error inside lockyard, or an answer that makes no sense
  75   another holds the lock (-E changes it, --skip-ok makes it 0)
  77   the backend refused the credentials
  78   the configuration is wrong, a bad URL for one
  79   the lock was lost and the command was stopped
  124  the command was stopped at --at-most-for
  126  the command cannot be executed
  127  there is no such command
126 and 127 are found out before the lock is taken. Except on success and
when another holds the lock, a line \"lockyard: ...\" on stderr says what
happened. lockyard writes nothing to stdout.

Environment of the command:
  LOCKYARD_NAME LOCKYARD_KEY LOCKYARD_BACKEND_KIND LOCKYARD_HOLDER
  LOCKYARD_RUN_ID LOCKYARD_ACQUIRED_AT
  LOCKYARD_TTL_MS         where the lock has a lease
  LOCKYARD_FENCING_TOKEN  where the backend gives one: a number that only
                          rises; let the resource you write to refuse one
                          that is smaller than the last

When the lock is lost, the command (its whole process group) is dead before
anybody else can hold it: SIGTERM comes early enough, SIGKILL before the lease
ends. A record that the server loses or gives away is noticed at the next
renewal; until then only the fencing token protects. When lockyard itself is
killed, the kernel (Linux) kills the command too, though not what the command
has started in turn.

Examples:
  On this host, skipped when it runs already:
    lockyard run --name nightly -- ./sync.sh
  On every host, one of them runs it:
    lockyard run -b redis://db/ --name nightly --skip-ok -- ./sync.sh
  One after the other:
    lockyard run -b redis://db/ --name deploy --wait 10m -- make deploy";

/// Run a command while holding a lock.
///
/// Tries once: when another holds the lock, the command is skipped and lockyard exits with 75. With --wait it waits.
/// The lock is renewed every third of --ttl until the command has ended, then released. Signals (INT TERM HUP QUIT USR1
/// USR2) are passed to the command; a second INT or TERM kills it.
#[derive(Debug, Args)]
#[command(after_help = RUN_EXIT_CODES)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) source: SourceArgs,

    /// The lock's name; the same everywhere where only one may run
    #[arg(short, long, value_name = "NAME")]
    pub(crate) name: String,

    /// Wait at most this long for the lock, 30s or 10m for one, instead of trying once
    #[arg(long, value_name = "DUR", value_parser = duration)]
    pub(crate) wait: Option<Duration>,

    /// Wait for the lock as long as it takes
    #[arg(long, conflicts_with = "wait")]
    pub(crate) wait_forever: bool,

    /// How long the lease is: a host that dies blocks the name this long [default: the URL's, else 30s]
    ///
    /// It is renewed every third of it. Shorter: a shorter outage of the backend loses the lock and stops the command.
    #[arg(long, value_name = "DUR", value_parser = duration)]
    pub(crate) ttl: Option<Duration>,

    /// Keep the name closed this long from the start [default: 30s when trying once, 0 with --wait]
    ///
    /// A job that is quicker than the clocks of the hosts are apart would run again on a host whose clock is behind.
    /// When the command ends earlier, lockyard keeps the lock and does not exit before this time is over; INT or TERM
    /// ends that. 0 turns it off.
    #[arg(long, value_name = "DUR", value_parser = duration)]
    pub(crate) at_least_for: Option<Duration>,

    /// Stop the command after this long: TERM, after --kill-after KILL, exit code 124
    #[arg(long, value_name = "DUR", value_parser = duration)]
    pub(crate) at_most_for: Option<Duration>,

    /// The time between TERM and KILL when the command is stopped [default: a sixth of the ttl, at most 5s]
    #[arg(short, long, value_name = "DUR", value_parser = duration)]
    pub(crate) kill_after: Option<Duration>,

    /// What to do with the command when the lock is lost
    #[arg(long, value_name = "WHAT", default_value = "terminate")]
    pub(crate) on_lost: OnLost,

    /// The exit code when another holds the lock
    #[arg(short = 'E', long, value_name = "N", default_value_t = Exit::NOT_ACQUIRED)]
    pub(crate) conflict_exit_code: u8,

    /// Exit with 0 when another holds the lock
    #[arg(long, conflicts_with = "conflict_exit_code")]
    pub(crate) skip_ok: bool,

    /// Run this string by /bin/sh -c instead of COMMAND
    #[arg(short, long, value_name = "STRING", conflicts_with = "program")]
    pub(crate) command: Option<OsString>,

    /// Give the command /dev/null as its standard input
    #[arg(long)]
    pub(crate) no_stdin: bool,

    /// Leave LOCKYARD_URL and LOCKYARD_URL_FILE in the command's environment
    #[arg(long)]
    pub(crate) pass_backend: bool,

    /// Write what became of the run to this file, as JSON
    #[arg(long, value_name = "PATH")]
    pub(crate) status_file: Option<PathBuf>,

    /// Say more; twice: log what the library does
    #[arg(short, long, action = ArgAction::Count)]
    pub(crate) verbose: u8,

    /// Say nothing but why lockyard failed
    #[arg(short, long, conflicts_with = "verbose")]
    pub(crate) quiet: bool,

    /// The command and its arguments, after --
    #[arg(last = true, value_name = "COMMAND", required_unless_present = "command")]
    pub(crate) program: Vec<OsString>,
}

/// What to do with the command when the lock is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnLost {
    /// SIGTERM, after --kill-after SIGKILL; both before the lease ends
    Terminate,
    /// SIGKILL before the lease ends
    Kill,
    /// Say so and let the command run on
    Ignore,
}

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

#[cfg(feature = "conformance")]
const CONFORMANCE_EXIT_CODES: &str = "\
Exit codes: 0 all checks passed or do not apply; 100 a check failed; 4 no
check was selected; 130 or 143 stopped by a signal; 64 69 77 78 as of
\"lockyard run\" when there is nothing to check.";

/// Check that backends keep what they promise.
///
/// Without --backend every backend that can be started on this host is checked: memory, file, and the servers that are
/// installed; the others are named with the reason. A server of yours (--backend, or LOCKYARD_REDIS_URL,
/// LOCKYARD_POSTGRES_URL, LOCKYARD_ETCD_URL, LOCKYARD_ZOOKEEPER_URL) is used under one random namespace.
#[cfg(feature = "conformance")]
#[derive(Debug, Args)]
#[command(after_help = CONFORMANCE_EXIT_CODES)]
pub(crate) struct ConformanceArgs {
    #[command(flatten)]
    pub(crate) targets: TargetArgs,

    /// List the checks and run none
    #[arg(long)]
    pub(crate) list: bool,

    /// Write the results to this file, as JUnit XML
    #[arg(long, value_name = "FILE")]
    pub(crate) export_junit: Option<PathBuf>,

    /// Write the results to this file, as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) export_json: Option<PathBuf>,

    /// Say more
    #[arg(short, long, action = ArgAction::Count)]
    pub(crate) verbose: u8,

    /// Run the checks whose name, backend::clause::check, has one of these texts in it
    #[arg(value_name = "FILTER")]
    pub(crate) filters: Vec<String>,
}

/// Which backends a command of the laboratory works on.
#[cfg(feature = "conformance")]
#[derive(Debug, Args)]
pub(crate) struct TargetArgs {
    /// A backend to work on, by its URL or by its name ("redis": start one); may be given several times
    #[arg(short, long, value_name = "URL")]
    pub(crate) backend: Vec<String>,
}

#[cfg(feature = "lab")]
const COMPARE_EXIT_CODES: &str = "\
Exit codes: 0 done; 100 a conformance check failed; 130 or 143 stopped by a
signal, with a report of what was measured until then; 64 69 77 78 as of
\"lockyard run\" when there is nothing to compare.";

/// Check and measure backends side by side, and write a report.
///
/// Without --backend every backend that can be started on this host takes part; the others are named with the reason
/// and how to install them. Servers are started on free ports of the loopback interface and end with the command.
#[cfg(feature = "lab")]
#[derive(Debug, Args)]
#[command(after_help = COMPARE_EXIT_CODES)]
pub(crate) struct CompareArgs {
    #[command(flatten)]
    pub(crate) targets: TargetArgs,

    /// How much to measure: quick takes at most 5 minutes on two cores, standard at most 30
    #[arg(long, value_name = "SUITE", default_value = "quick")]
    pub(crate) suite: SuiteSize,

    /// The seed of the order in which everything is measured [default: a random one, written into the report]
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,

    /// The folder for report.json, report.md and report.html
    #[arg(long, value_name = "DIR", default_value = "lockyard-report")]
    pub(crate) out: PathBuf,

    /// Do not check the backends before they are measured
    #[arg(long)]
    pub(crate) skip_conformance: bool,

    #[command(flatten)]
    pub(crate) exports: ExportArgs,

    /// Say more
    #[arg(short, long, action = ArgAction::Count)]
    pub(crate) verbose: u8,
}

/// How much `compare` measures.
#[cfg(feature = "lab")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SuiteSize {
    Quick,
    Standard,
    Full,
}

/// Further files to write a report to.
#[cfg(feature = "lab")]
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// Write the page to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) export_html: Option<PathBuf>,

    /// Write the data to this file, as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) export_json: Option<PathBuf>,

    /// Write the report to this file, as Markdown
    #[arg(long, value_name = "FILE")]
    pub(crate) export_markdown: Option<PathBuf>,
}

/// Render a report again from its JSON, without running anything.
#[cfg(feature = "lab")]
#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// The report.json of a comparison
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// The folder for report.md and report.html [default: that of FILE]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) exports: ExportArgs,
}

/// Parses the command line. The error is an end that has said all there is to say.
pub(crate) fn parse() -> Result<Cli, Exit> {
    Cli::try_parse().map_err(|error| {
        // Help and version go to stdout and are no errors. A closed stream is nobody's trouble.
        let _ = error.print();
        if error.use_stderr() { Exit::Usage } else { Exit::Success }
    })
}

fn duration(text: &str) -> Result<Duration, String> {
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
