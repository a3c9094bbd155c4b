//! Steps that many checks take.

use std::future::Future;
use std::time::Duration;

use lockyard_api::{Attempt, Claim, Clock, DistributedLock, ErrorKind, FencingToken, Grant, Release, Renewal, Wake};

use crate::{Checked, Context, Stop};

type Lock = dyn DistributedLock;

/// The name is free: the claim gets it.
#[track_caller]
pub(crate) fn granted(attempt: Attempt) -> Checked<Grant> {
    match attempt {
        Attempt::Granted(grant) => Ok(grant),
        other => {
            Err(Stop::failed(format_args!("the name is free, try_acquire should grant it and answered {other:?}")))
        }
    }
}

/// The name is held: a claim that leaves is told so.
#[track_caller]
pub(crate) fn busy(attempt: Attempt) -> Checked {
    match attempt {
        Attempt::Busy => Ok(()),
        other => Err(Stop::failed(format_args!("the name is held, try_acquire should be Busy and answered {other:?}"))),
    }
}

/// The name is held: a claim that queues gets a place.
#[track_caller]
pub(crate) fn queued(attempt: Attempt) -> Checked {
    match attempt {
        Attempt::Queued => Ok(()),
        other => {
            Err(Stop::failed(format_args!("the name is held, try_acquire should answer Queued and answered {other:?}")))
        }
    }
}

/// As [`queued`], behind a hold that nobody renews. `Ignored` when it may be over by now.
#[track_caller]
pub(crate) fn queued_behind(ctx: &Context, hold: &Grant, attempt: Attempt) -> Checked {
    if matches!(attempt, Attempt::Granted(_)) && ctx.is_over(hold) {
        return Err(Stop::ignored("the machine is too slow for a ttl this short"));
    }
    queued(attempt)
}

/// The hold stands.
#[track_caller]
pub(crate) fn stands(renewal: Renewal) -> Checked {
    match renewal {
        Renewal::Renewed { .. } => Ok(()),
        other => Err(Stop::failed(format_args!("the hold should stand, renew answered {other:?}"))),
    }
}

/// The hold is gone, or never was.
#[track_caller]
pub(crate) fn lost(renewal: Renewal) -> Checked {
    match renewal {
        Renewal::Lost => Ok(()),
        other => {
            Err(Stop::failed(format_args!("this owner holds nothing, renew should be Lost and answered {other:?}")))
        }
    }
}

/// Release answered as it should.
#[track_caller]
pub(crate) fn answered(release: Release, right: Release) -> Checked {
    if release == right {
        return Ok(());
    }
    Err(Stop::failed(format_args!("release should answer {right:?} and answered {release:?}")))
}

/// The token of a grant where tokens are promised.
#[track_caller]
pub(crate) fn token(grant: &Grant) -> Checked<FencingToken> {
    grant.token.ok_or_else(|| Stop::failed("fencing is claimed and the grant has no token"))
}

/// Waits as the front end does, until the claim is granted.
pub(crate) async fn acquire(lock: &Lock, claim: &Claim, limit: Duration) -> Checked<Grant> {
    within(limit, "the name is free or should become so, and is not granted", async {
        loop {
            match lock.try_acquire(claim).await? {
                Attempt::Granted(grant) => return Ok(grant),
                Attempt::Queued => {}
                _ => {
                    // A claim that leaves has nobody who tells it.
                    Clock::system().sleep(POLL).await;
                    continue;
                }
            }
            if let Wake::Granted(grant) = lock.wait(claim).await? {
                return Ok(grant);
            }
        }
    })
    .await
}

/// The first of two waiters is served, although the one behind listens all the time.
pub(crate) async fn served_first(first: (&Lock, &Claim), behind: (&Lock, &Claim), limit: Duration) -> Checked {
    tokio::select! {
        grant = acquire(first.0, first.1, limit) => grant.map(|_| ()),
        grant = acquire(behind.0, behind.1, limit) => match grant {
            Ok(_) => Err(Stop::failed("a waiter was served ahead of one that queued before it")),
            Err(stop) => Err(stop),
        },
    }
}

/// As [`acquire`], over a connection that breaks: errors are tried again, and a claim whose session ended is replaced.
pub(crate) async fn persist(lock: &Lock, mut claim: Claim, limit: Duration) -> Checked<(Claim, Grant)> {
    within(limit, "the name should become free, and is not granted", async {
        loop {
            match attempt(lock, &claim).await {
                Ok(Some(grant)) => return Ok((claim, grant)),
                Ok(None) => {}
                Err(error) if error.kind() == ErrorKind::SessionChanged => {
                    // Best effort, as the front end's: what rests on an ended session is gone.
                    drop(lock.release(&claim).await);
                    claim = claim.with_owner(lockyard_api::Owner::random());
                }
                Err(error) if error.kind().is_transient() => Clock::system().sleep(POLL).await,
                Err(error) => return Err(error.into()),
            }
        }
    })
    .await
}

async fn attempt(lock: &Lock, claim: &Claim) -> lockyard_api::Result<Option<Grant>> {
    match lock.try_acquire(claim).await? {
        Attempt::Granted(grant) => return Ok(Some(grant)),
        Attempt::Queued => {}
        _ => Clock::system().sleep(POLL).await,
    }
    match lock.wait(claim).await? {
        Wake::Granted(grant) => Ok(Some(grant)),
        _ => Ok(None),
    }
}

/// Releases as the front end does after an unknown outcome: again and again until the server answers.
pub(crate) async fn undo(ctx: &Context, lock: &Lock, claim: &Claim) -> Checked<Release> {
    let limit = ctx.harness().op_timeout() + ctx.patience();
    within(limit, "a release should be answered once the server answers", async {
        loop {
            match lock.release(claim).await {
                Ok(release) => return Ok(release),
                Err(_) => Clock::system().sleep(POLL).await,
            }
        }
    })
    .await
}

/// Asks until there is an answer that is no error of the connection.
pub(crate) async fn renew(ctx: &Context, lock: &Lock, claim: &Claim) -> Checked<Renewal> {
    let limit = ctx.harness().op_timeout() + ctx.patience();
    within(limit, "renew should be answered once the server answers", async {
        loop {
            match lock.renew(claim).await {
                Ok(renewal) => return Ok(renewal),
                Err(error) if error.kind() == ErrorKind::SessionChanged => return Ok(Renewal::Lost),
                Err(_) => Clock::system().sleep(POLL).await,
            }
        }
    })
    .await
}

/// Fails when it takes longer than `limit`.
pub(crate) async fn within<T>(limit: Duration, what: &str, step: impl Future<Output = Checked<T>>) -> Checked<T> {
    match tokio::time::timeout(limit, step).await {
        Ok(answer) => answer,
        Err(_) => Err(Stop::Failed(format!("{what} within {limit:?}"))),
    }
}

/// Asks again and again until the condition holds.
pub(crate) async fn eventually<F>(limit: Duration, what: &str, mut condition: impl FnMut() -> F) -> Checked
where
    F: Future<Output = Checked<bool>>,
{
    within(limit, what, async {
        while !condition().await? {
            Clock::system().sleep(POLL).await;
        }
        Ok(())
    })
    .await
}

/// Polls a wait for a moment and drops it half-way: it must not have been granted anything.
pub(crate) async fn dropped_wait(lock: &Lock, claim: &Claim) -> Checked {
    let clock = Clock::system();
    tokio::select! {
        answer = lock.wait(claim) => match answer? {
            Wake::Granted(grant) => Err(Stop::failed(format_args!("the name is held, wait answered {grant:?}"))),
            _ => Ok(()),
        },
        () = clock.sleep(POLL * 5) => Ok(()),
    }
}

/// How long to let things be before asking again.
pub(crate) const POLL: Duration = Duration::from_millis(10);
