//! The command line of `lockyard run`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

#[cfg(feature = "metrics")]
use super::MetricsArgs;
use super::{StartArgs, VoiceArgs, duration, or_configured};
use crate::config::{Config, Key, one_of};
use crate::exit::{Exit, Failure};
use crate::source::SourceArgs;

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
  LOCKYARD_SCHEDULED_AT   with --tick or --once-per: the slot's time
  LOCKYARD_TTL_MS         where the lock has a lease
  LOCKYARD_FENCING_TOKEN  where the backend gives one: a number that only
                          rises; let the resource you write to refuse one
                          that is smaller than the last

When the lock is lost, the command (its whole process group) is dead before
anybody else can hold it: SIGTERM comes early enough, SIGKILL before the lease
ends. A record that the server loses or gives away is noticed at the next
renewal; until then only the fencing token protects. When lockyard itself is
killed, the kernel (Linux) kills the command too, though not what the command
has started in turn. On file: these inherit the lock, as with flock(1): the
name stays held until they have ended, unless --no-inherit-lock.

Examples:
  On this host, skipped when it runs already:
    lockyard run --name nightly -- ./sync.sh
  On every host, one of them runs it:
    lockyard run -b redis://db/ --name nightly --skip-ok -- ./sync.sh
  The same, never twice a night, however far the hosts' clocks are apart:
    lockyard run -b redis://db/ --name nightly --tick '0 2 * * *' -- ./sync.sh
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

    /// Renew the lease after this long [default: a third of the ttl]
    ///
    /// Sooner survives a longer outage of the backend and costs more requests. Refused where a session keeps the lock.
    #[arg(long, value_name = "DUR", value_parser = duration)]
    pub(crate) renew: Option<Duration>,

    /// How many may run at a time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) slots: u32,

    /// Share the lock with others who say --shared, against those who do not
    #[arg(long, conflicts_with = "slots")]
    pub(crate) shared: bool,

    #[command(flatten)]
    pub(crate) start: StartArgs,

    /// Stop the command after this long: TERM, after --kill-after KILL, exit code 124
    #[arg(long, value_name = "DUR", value_parser = duration)]
    pub(crate) at_most_for: Option<Duration>,

    /// The time between TERM and KILL when the command is stopped [default: a sixth of the ttl, at most 5s]
    #[arg(short, long, value_name = "DUR", value_parser = duration)]
    pub(crate) kill_after: Option<Duration>,

    /// What to do with the command when the lock is lost [default: terminate]
    #[arg(long, value_name = "WHAT")]
    pub(crate) on_lost: Option<OnLost>,

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

    /// Leave LOCKYARD_URL, LOCKYARD_URL_FILE and LOCKYARD_CONFIG in the command's environment
    #[arg(long)]
    pub(crate) pass_backend: bool,

    /// On file: close the lock's descriptor for the command
    ///
    /// Otherwise it inherits it, as with flock(1): when lockyard is killed, the name stays held until everything that the
    /// command has started has ended.
    #[arg(long)]
    pub(crate) no_inherit_lock: bool,

    /// Write what became of the run to this file, as JSON
    #[arg(long, value_name = "PATH")]
    pub(crate) status_file: Option<PathBuf>,

    #[cfg(feature = "metrics")]
    #[command(flatten)]
    pub(crate) metrics: MetricsArgs,

    /// Say what would be done and whether the name is free; take no lock and start nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    #[command(flatten)]
    pub(crate) voice: VoiceArgs,

    /// The command and its arguments, after --
    #[arg(last = true, value_name = "COMMAND", required_unless_present = "command")]
    pub(crate) program: Vec<OsString>,
}

impl RunArgs {
    /// Takes from the configuration what the command line leaves open.
    pub(super) fn settle(&mut self, config: &Config) -> Result<(), Failure> {
        // Files say the ttl to the backend, below its URL; the environment says it here, above it.
        if let Some(text) = config.of_environment(Key::Ttl)?.filter(|_| self.ttl.is_none()) {
            self.ttl = duration(&text).ok();
        }
        or_configured(&mut self.renew, config, Key::Renew, duration)?;
        or_configured(&mut self.kill_after, config, Key::KillAfter, duration)?;
        or_configured(&mut self.on_lost, config, Key::OnLost, one_of)?;
        if !self.wait_forever {
            or_configured(&mut self.wait, config, Key::Wait, duration)?;
        }
        if self.start.stable_jitter.is_none() {
            or_configured(&mut self.start.jitter, config, Key::Jitter, duration)?;
        }
        Ok(())
    }
}

/// What to do with the command when the lock is lost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnLost {
    #[default]
    /// SIGTERM, after --kill-after SIGKILL; both before the lease ends
    Terminate,
    /// SIGKILL before the lease ends
    Kill,
    /// Say so and let the command run on
    Ignore,
}
