//! The command line of `lockyard chaos` and of its clients.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args};

use super::{TargetArgs, duration};
use crate::source::SourceArgs;

const CHAOS_EXIT_CODES: &str = "\
Exit codes: 0 every promise was kept; 100 one was broken: two held a name at
a time, a token fell, the register took a late write, a name stayed closed, a
client hung or left something behind; 130 or 143 stopped by a signal; 64 69 77
78 as of \"lockyard run\" when there is nothing to run.";

/// Break clients, links and servers at random, and check that locks stay locks.
///
/// Clients in processes of their own take a few names again and again, each through a proxy of its own, while they are
/// stopped and killed, their connections are held, cut and delayed, and the server is stopped and restarted. Then all
/// faults end, and every client has to get every name again. What the clients saw is checked: one holder at a time, but
/// for what the backend is honest about, rising tokens, no late write. The seed decides what is broken when.
///
/// Without --backend every backend that can be started on this host is used. Only servers that were started for it are
/// broken; with --allow-faults the clients of a server of yours are stopped and killed.
#[derive(Debug, Args)]
#[command(after_help = CHAOS_EXIT_CODES)]
pub(crate) struct ChaosArgs {
    #[command(flatten)]
    pub(crate) targets: TargetArgs,

    /// How long faults are made on each backend
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = duration)]
    pub(crate) duration: Duration,

    /// The seed of the faults and of the clients' work [default: a random one, which is printed]
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,

    /// How many clients work at a time
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = at_least_one)]
    pub(crate) clients: usize,

    /// How many names they fight for
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = at_least_one)]
    pub(crate) names: usize,

    /// The lease of the locks
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = duration)]
    pub(crate) ttl: Duration,

    /// Write what the clients saw to this file, as lines of JSON; with several backends a file each, named after them
    #[arg(long, value_name = "FILE")]
    pub(crate) history: Option<PathBuf>,

    /// Check a history that was written before, and run nothing
    #[arg(long, value_name = "FILE", conflicts_with_all = ["backend", "history", "seed"])]
    pub(crate) replay: Option<PathBuf>,

    /// Stop and kill clients also where the server is yours
    #[arg(long)]
    pub(crate) allow_faults: bool,

    /// Say more
    #[arg(short, long, action = ArgAction::Count)]
    pub(crate) verbose: u8,
}

/// Take locks as told on stdin, one order a line, and tell on stdout what happens.
#[derive(Debug, Args)]
pub(crate) struct ChaosClientArgs {
    #[command(flatten)]
    pub(crate) source: SourceArgs,

    /// The number of this client in the history
    #[arg(long, value_name = "N")]
    pub(crate) process: u32,

    /// So many clients with connections of their own; order number N is for client N modulo this
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = at_least_one)]
    pub(crate) clients: usize,

    /// The folder of the registers that the locks protect
    #[arg(long, value_name = "DIR")]
    pub(crate) register: Option<PathBuf>,

    /// Log what the library does
    #[arg(short, long, action = ArgAction::Count)]
    pub(crate) verbose: u8,
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("at least one".to_owned()),
        Ok(number) => Ok(number),
        Err(error) => Err(format!("{error}")),
    }
}
