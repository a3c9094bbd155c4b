//! What is wrong with the times of a command line, found out before any traffic.

use std::time::Duration;

use crate::args::RunArgs;
use crate::exit::Failure;
use crate::output::Voice;

/// How long the name stays closed from the start when the lock was tried once.
const AT_LEAST: Duration = Duration::from_secs(30);

/// How long the name stays closed from the start.
pub(super) fn at_least(args: &RunArgs) -> Duration {
    let closed_otherwise = args.waits() || args.start.claims_slot();
    args.start.at_least_for.unwrap_or(if closed_otherwise { Duration::ZERO } else { AT_LEAST })
}

/// Refuses times that contradict each other.
///
/// # Errors
/// `Config`, naming both.
pub(super) fn check(args: &RunArgs, voice: Voice) -> Result<(), Failure> {
    if let (Some(least), Some(most)) = (args.start.at_least_for, args.at_most_for)
        && least > most
    {
        return Err(Failure::config(format!(
            "--at-least-for {} is longer than --at-most-for {}: the command would have ended long before the name opens; \
             make the first shorter or the second longer",
            shown(least),
            shown(most)
        )));
    }
    if args.at_most_for.is_some_and(|most| most.is_zero()) {
        return Err(Failure::config("--at-most-for 0s would stop every command at once: leave it out for no limit"));
    }
    let spread = args.start.jitter.or(args.start.stable_jitter).unwrap_or_default();
    if !args.waits() && !args.start.claims_slot() && !spread.is_zero() && spread >= at_least(args) {
        voice.warn(format_args!(
            "hosts start up to {} apart (jitter) and the name stays closed for {} (--at-least-for) only: a quick command \
             may run on several of them",
            shown(spread),
            shown(at_least(args))
        ));
    }
    Ok(())
}

pub(super) fn shown(time: Duration) -> humantime::FormattedDuration {
    humantime::format_duration(time)
}
