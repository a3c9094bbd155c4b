//! What a run would do, without doing it.

use lockyard::{LivenessKind, Locker};

use super::program::Program;
use super::schedule::Schedule;
use super::times::shown;
use crate::args::RunArgs;
use crate::exit::{Exit, Failure};
use crate::output::print;
use crate::source::Source;

/// Prints what would be done; looks at the name and takes nothing.
pub(super) async fn show(args: &RunArgs, program: &Program, locks: &Locker, source: &Source) -> Result<Exit, Failure> {
    let capabilities = locks.capabilities();
    let options = source.options();
    let holder = locks.inspect(&args.name).await?;
    let leased = capabilities.liveness != LivenessKind::Process;
    let schedule = Schedule::new(leased.then_some(options.ttl), options.drift, args.kill_after, args.renew)?;
    print(format_args!(
        "lock:    {:?} in namespace {:?} on {}",
        args.name,
        options.namespace.as_str(),
        capabilities.backend
    ));
    match capabilities.liveness {
        LivenessKind::Lease => {
            let renew = args.renew.unwrap_or(options.ttl / 3);
            print(format_args!("lease:   {}, renewed every {}", shown(options.ttl), shown(renew)));
        }
        LivenessKind::Session => print(format_args!("lease:   that of the session, {}", shown(options.ttl))),
        _ => print("lease:   none: the lock ends with the process"),
    }
    print(format_args!("closed:  for {} from the start (--at-least-for)", shown(super::times::at_least(args))));
    if let Some(most) = args.at_most_for {
        print(format_args!("limit:   {}, then TERM, KILL after {}", shown(most), shown(schedule.kill_after)));
    }
    print(format_args!("command: {program}"));
    match holder {
        None => {
            print("now:     the name is free, the command would start");
            Ok(Exit::Success)
        }
        Some(holder) => {
            let by = holder.label.map_or_else(String::new, |label| format!(" by {label}"));
            let then = if args.waits() { "lockyard would wait" } else { "the command would be skipped" };
            print(format_args!("now:     the name is held{by}, {then}"));
            Ok(if args.skip_ok || args.waits() { Exit::Success } else { Exit::NotAcquired(args.conflict_exit_code) })
        }
    }
}
