//! When the command of `lockyard run` starts.

use std::time::Duration;

use clap::Args;

use super::duration;

/// Spreading starts, and claiming the time for which a start is meant.
#[derive(Debug, Args)]
pub(crate) struct StartArgs {
    /// Claim the slot of this cron expression that is now, and skip when it ran already on any host, whatever the clocks
    ///
    /// Five fields (minute, hour, day of month, month, day of week), or six with the second first. The slot is the tick
    /// nearest to now within 5 % of the period and at most 30s, else the last one. A run that crashed has used its slot.
    #[cfg(feature = "jobs")]
    #[arg(long, value_name = "CRON")]
    pub(crate) tick: Option<String>,

    /// The zone of --tick, Europe/Berlin for one [default: UTC]
    #[cfg(feature = "jobs")]
    #[arg(long, value_name = "ZONE", requires = "tick")]
    pub(crate) tz: Option<String>,

    /// As --tick, with a slot every so often, counted from 1970 in UTC
    #[cfg(feature = "jobs")]
    #[arg(long, value_name = "DUR", value_parser = duration, conflicts_with = "tick")]
    pub(crate) once_per: Option<Duration>,

    /// Keep the name closed this long from the start [default: 30s when trying once, 0 with --wait, --tick or --once-per]
    ///
    /// A job that is quicker than the clocks of the hosts are apart would run again on a host whose clock is behind.
    /// When the command ends earlier, lockyard keeps the lock and does not exit before this time is over; INT or TERM
    /// ends that. 0 turns it off.
    #[arg(long, value_name = "DUR", value_parser = duration)]
    pub(crate) at_least_for: Option<Duration>,

    /// Wait a random time up to this before asking for the lock
    #[arg(long, value_name = "DUR", value_parser = duration)]
    pub(crate) jitter: Option<Duration>,

    /// Wait a time up to this before asking for the lock that this host always has for this name
    #[arg(long, value_name = "DUR", value_parser = duration, conflicts_with = "jitter")]
    pub(crate) stable_jitter: Option<Duration>,
}

impl StartArgs {
    /// Whether a slot keeps a second start out.
    pub(crate) const fn claims_slot(&self) -> bool {
        #[cfg(feature = "jobs")]
        return self.tick.is_some() || self.once_per.is_some();
        #[cfg(not(feature = "jobs"))]
        false
    }
}
