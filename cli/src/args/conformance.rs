//! The command line of `lockyard conformance`.

use std::path::PathBuf;

use clap::{ArgAction, Args};

const CONFORMANCE_EXIT_CODES: &str = "\
Exit codes: 0 all checks passed or do not apply; 100 a check failed; 4 no
check was selected; 130 or 143 stopped by a signal; 64 69 77 78 as of
\"lockyard run\" when there is nothing to check.";

/// Check that backends keep what they promise.
///
/// Without --backend every backend that can be started on this host is checked: memory, file, and the servers that are
/// installed; the others are named with the reason. A server of yours (--backend, or LOCKYARD_REDIS_URL,
/// LOCKYARD_POSTGRES_URL, LOCKYARD_ETCD_URL, LOCKYARD_ZOOKEEPER_URL) is used under one random namespace.
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
#[derive(Debug, Args)]
pub(crate) struct TargetArgs {
    /// A backend to work on, by its URL or by its name ("redis": start one); may be given several times
    #[arg(short, long, value_name = "URL")]
    pub(crate) backend: Vec<String>,
}
