//! Getting the lock, or being told why not.

use std::time::Duration;

use lockyard::{Error, ErrorKind, Guard, LivenessKind, Locker};
use nix::sys::signal::Signal;

use super::client::Client;
use super::schedule::Schedule;
use super::signals::Signals;
use crate::args::RunArgs;
use crate::exit::{Exit, Failure};
use crate::source::Source;

/// How long lockyard stays to undo an acquire that a signal has ended: it is gone within a second.
const UNDO: Duration = Duration::from_millis(700);

/// Refuses a ttl that leaves no room to end the command, before the lock is taken. What is granted is looked at again.
pub(super) fn check_ttl(locks: &Locker, source: &Source, args: &RunArgs) -> Result<(), Failure> {
    let leased = locks.capabilities().liveness != LivenessKind::Process;
    let options = source.options();
    Schedule::new(leased.then_some(options.ttl), options.drift, args.kill_after, args.renew).map(|_| ())
}

/// What came of wanting the lock.
pub(super) enum Acquired {
    Guard(Client, Guard),
    Busy(&'static str),
    Interrupted(Option<Locker>, Signal),
}

pub(super) async fn acquire(client: Client, args: &RunArgs, signals: &mut Signals) -> Result<Acquired, Failure> {
    let locks = &client.locks;
    let mut request = locks.lock(&args.name);
    if args.shared {
        request = request.shared();
    } else if args.slots > 1 {
        request = request.permit(args.slots);
    }
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
        Ok(Some(guard)) => Ok(Acquired::Guard(client, guard)),
        Ok(None) => Ok(Acquired::Busy("held")),
        Err(error) if error.kind() == ErrorKind::Timeout && args.waits() => {
            undo(Some(client.locks)).await;
            Ok(Acquired::Busy("wait_timeout"))
        }
        Err(error) => {
            undo(Some(client.locks)).await;
            Err(nothing_locked(error))
        }
    }
}

/// Gives the undo of an acquire a moment to be answered; a lease ends what remains.
pub(super) async fn undo(locks: Option<Locker>) {
    if let Some(locks) = locks {
        let _ = tokio::time::timeout(UNDO, locks.shutdown()).await;
    }
}

pub(super) fn nothing_locked(error: Error) -> Failure {
    let mut failure = Failure::from(error);
    if failure.exit == Exit::Unreachable {
        failure.message.push_str("; nothing is locked, the command was not started");
    }
    failure
}
