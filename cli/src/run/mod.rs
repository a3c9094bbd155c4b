//! `lockyard run`: a command under a lock.

mod child;
mod deathsig;
mod env;
mod hold;
mod program;
mod renewals;
mod schedule;
mod signals;
mod status;
mod tree;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use lockyard::{Error, ErrorKind, Guard, LivenessKind, Locker};
use nix::sys::signal::Signal;

use crate::args::RunArgs;
use crate::exit::{Exit, Failure};
use crate::output::Voice;
use crate::source::Source;
use hold::Hold;
use program::Program;
use renewals::{Ear, Renewals};
use schedule::Schedule;
use signals::Signals;
use status::{Outcome, Status};

/// How long lockyard stays to undo an acquire that a signal has ended: it is gone within a second.
const UNDO: Duration = Duration::from_millis(700);

pub(crate) async fn run(args: RunArgs) -> Result<Exit, Failure> {
    let (exit, status) = match attempt(&args).await {
        Ok(end) => end,
        Err(failure) => {
            crate::output::say(&failure.message);
            (failure.exit, Status::new(&args.name, Outcome::Error).because(failure.message))
        }
    };
    if let Some(path) = &args.status_file
        && let Err(error) = status.ended_with(exit).write(path)
    {
        // The command has run: its code says more than that of a file that could not be written.
        crate::output::say(format_args!("cannot write {} (--status-file): {error}", path.display()));
    }
    Ok(exit)
}

/// How a run ended, for the shell and for the status file.
type End = (Exit, Status);

async fn attempt(args: &RunArgs) -> Result<End, Failure> {
    let voice = Voice::new(args.quiet, args.verbose);
    // A typo is found out before the lock is taken.
    let program = Program::find(args)?;
    let source = args.source.resolve(args.ttl, voice)?;
    if source.is_memory() {
        voice.warn("memory: locks live in this process alone and keep nobody else out");
    }
    let mut signals = Signals::listen().map_err(|error| Failure::internal(format!("no signals: {error}")))?;
    let renewals = Arc::new(Renewals::default());
    let holder = env::holder();
    let acquired = tokio::select! {
        biased;
        signal = signals.stop() => Acquired::Interrupted(None, signal),
        locks = connect(&source, &holder, &renewals) => {
            let locks = locks?;
            check_ttl(&locks, &source, args)?;
            acquire(locks, args, &mut signals).await?
        }
    };
    match acquired {
        Acquired::Guard(locks, guard) => {
            // The lease granted may be another than the one asked for.
            let schedule = Schedule::new(guard.ttl(), source.options().drift, args.kill_after);
            let hold = Hold::new(args, locks, guard, &source, &holder, renewals, voice);
            match schedule {
                Ok(schedule) => hold.run(&program, schedule, &mut signals).await,
                Err(failure) => {
                    hold.give_back().await;
                    Err(failure)
                }
            }
        }
        Acquired::Busy(reason) => {
            voice.note(format_args!("lock {:?} is held by another: the command is skipped", args.name));
            let exit = if args.skip_ok { Exit::Success } else { Exit::NotAcquired(args.conflict_exit_code) };
            Ok((exit, Status::new(&args.name, Outcome::Skipped).because(reason)))
        }
        Acquired::Interrupted(locks, signal) => {
            undo(locks).await;
            voice.note(format_args!("{signal} while waiting: the command was not started"));
            Ok((signal.into(), Status::new(&args.name, Outcome::Error).because("signal")))
        }
    }
}

async fn connect(source: &Source, holder: &str, renewals: &Arc<Renewals>) -> Result<Locker, Failure> {
    let ear = Ear(Arc::clone(renewals));
    let locks = lockyard::connect_with(source.url(), |builder| builder.label(holder).observer(ear)).await;
    locks.map_err(nothing_locked)
}

/// Refuses a ttl that leaves no room to end the command, before the lock is taken. What is granted is looked at again.
fn check_ttl(locks: &Locker, source: &Source, args: &RunArgs) -> Result<(), Failure> {
    let leased = locks.capabilities().liveness != LivenessKind::Process;
    let options = source.options();
    Schedule::new(leased.then_some(options.ttl), options.drift, args.kill_after).map(|_| ())
}

/// What came of wanting the lock.
enum Acquired {
    Guard(Locker, Guard),
    Busy(&'static str),
    Interrupted(Option<Locker>, Signal),
}

async fn acquire(locks: Locker, args: &RunArgs, signals: &mut Signals) -> Result<Acquired, Failure> {
    let request = locks.lock(&args.name);
    let wanted = async {
        if args.waits() {
            let request = args.wait.map_or_else(|| request.clone(), |wait| request.clone().wait(wait));
            request.acquire().await.map(Some)
        } else {
            request.try_acquire().await
        }
    };
    let result = tokio::select! {
        biased;
        // The acquire that is dropped here is undone in the background, a late grant too.
        signal = signals.stop() => return Ok(Acquired::Interrupted(Some(locks.clone()), signal)),
        result = wanted => result,
    };
    match result {
        Ok(Some(guard)) => Ok(Acquired::Guard(locks, guard)),
        Ok(None) => Ok(Acquired::Busy("held")),
        Err(error) if error.kind() == ErrorKind::Timeout && args.waits() => {
            undo(Some(locks)).await;
            Ok(Acquired::Busy("wait_timeout"))
        }
        Err(error) => {
            undo(Some(locks)).await;
            Err(nothing_locked(error))
        }
    }
}

/// Gives the undo of an acquire a moment to be answered; a lease ends what remains.
async fn undo(locks: Option<Locker>) {
    if let Some(locks) = locks {
        let _ = tokio::time::timeout(UNDO, locks.shutdown()).await;
    }
}

fn nothing_locked(error: Error) -> Failure {
    let mut failure = Failure::from(error);
    if failure.exit == Exit::Unreachable {
        failure.message.push_str("; nothing is locked, the command was not started");
    }
    failure
}

impl RunArgs {
    /// Whether it waits for the lock instead of trying once.
    fn waits(&self) -> bool {
        self.wait_forever || self.wait.is_some_and(|wait| !wait.is_zero())
    }
}
