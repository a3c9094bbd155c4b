//! `failover`: what a crash and restart of a single server does.

use std::cmp::Ordering;
use std::time::Duration;

use lockyard_api::{Fencing, FencingToken, Guard, Locker, Moment};

use super::{Found, Job, Sample, Trial};
use crate::side::{Outcome, Trouble};

const SHORTEST: Duration = Duration::from_secs(2);
/// How often a name is tried.
const AGAIN: Duration = Duration::from_millis(20);
/// A deadline that moved by less did not move: it is computed from two readings of the clock.
const CONFIRMED: Duration = Duration::from_millis(50);
/// A server that is not back by then does not come back.
const LIMIT: Duration = Duration::from_secs(60);

/// What one crash did.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Crash {
    pub(crate) gap_seconds: f64,
    pub(crate) overlap: bool,
    pub(crate) kept: bool,
    /// The next token against that of the hold; `None` where there are no tokens.
    pub(crate) tokens: Option<Ordering>,
}

pub(super) async fn run(job: &Job) -> Outcome<Trial> {
    let target = job.target.as_ref().ok_or_else(super::no_target)?;
    let server = target.server.as_ref().ok_or_else(|| Trouble::new("there is no server that could be restarted"))?;
    let holder = Locker::over((target.connect)().await?).build()?;
    let other = Locker::over((target.connect)().await?).build()?;
    let promised = holder.capabilities().clone();
    let ttl = promised.ttl.round_up(SHORTEST.max(promised.ttl.min));
    let guard = holder.lock(&job.name).ttl(ttl).acquire().await?;
    let ttl = guard.ttl().unwrap_or(ttl);
    let crashed = job.clock.now();
    let deadline = crashed.plus(guard.remaining());
    server.kill().await?;
    server.restart().await?;
    let free = format!("{}-free", job.name);
    let granted = tried(job, &other, &free, ttl).await?;
    let gap_seconds = job.clock.now().since(crashed).as_secs_f64();
    let _ = granted.release().await;
    let (kept, overlap, next) = afterwards(job, &guard, &other, deadline, ttl + promised.slack).await?;
    let before = guard.fencing_token();
    let _ = guard.release().await;
    let next = match next {
        Some(next) => next,
        None => tried(job, &other, &job.name, ttl).await?,
    };
    let tokens = match promised.fencing {
        Fencing::None => None,
        _ => next.fencing_token().zip(before).map(|(next, before): (FencingToken, FencingToken)| next.cmp(&before)),
    };
    let _ = next.release().await;
    let _ = tokio::join!(holder.shutdown(), other.shutdown());
    let crash = Crash { gap_seconds, overlap, kept, tokens };
    Ok(Trial { found: Some(Found::Failover(crash)), ..Trial::alone(Sample::default()) })
}

/// Whether the hold stands once the server has confirmed it after the crash, or all that was promised before is over; whether
/// both held; the other's guard.
async fn afterwards(
    job: &Job,
    guard: &Guard,
    other: &Locker,
    deadline: Moment,
    promised: Duration,
) -> Outcome<(bool, bool, Option<Guard>)> {
    let end = job.clock.now().plus(promised);
    while job.clock.now() < end {
        // A call that fails proves nothing; the next may not.
        if let Ok(Some(next)) = other.try_acquire(&job.name).await {
            return Ok((false, guard.is_held() && next.is_held(), Some(next)));
        }
        // The old deadline is the latest that an answer from before the crash can give.
        if job.clock.now().plus(guard.remaining()) > deadline.plus(CONFIRMED) {
            return Ok((true, false, None));
        }
        if guard.lost_reason().is_some() {
            return Ok((false, false, None));
        }
        job.clock.sleep(AGAIN).await;
    }
    Ok((guard.is_held(), false, None))
}

/// Tries a name until it is granted.
async fn tried(job: &Job, locker: &Locker, name: &str, ttl: Duration) -> Outcome<Guard> {
    let end = job.clock.now().plus(LIMIT + ttl);
    loop {
        let last = match locker.try_acquire(name).await {
            Ok(Some(guard)) => return Ok(guard),
            Ok(None) => Trouble::new(format!("{name} is taken")),
            Err(error) => Trouble::from(error),
        };
        if job.clock.now() > end {
            return Err(last);
        }
        job.clock.sleep(AGAIN).await;
    }
}
