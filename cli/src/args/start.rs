//! When the command of `lockyard run` starts.

use std::time::Duration;

use clap::Args;

use super::duration;

/// Spreading starts, and claiming the time for which a start is meant.
#[derive(Debug, Args)]
pub(crate) struct StartArgs {
    /// Wait a random time up to this before asking for the lock
    #[arg(long, value_name = "DUR", value_parser = duration)]
    pub(crate) jitter: Option<Duration>,

    /// Wait a time up to this before asking for the lock that this host always has for this name
    #[arg(long, value_name = "DUR", value_parser = duration, conflicts_with = "jitter")]
    pub(crate) stable_jitter: Option<Duration>,
}
