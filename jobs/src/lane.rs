//! A lane: the lock, the record and the marker of one job, or of one of its shards.

use std::sync::Arc;
use std::time::Duration;

use lockyard_api::{CircuitBreaker, CircuitChange, Error, ErrorKind, Guard, LockName};

use crate::event::{BreakerCause, JobEvent};
use crate::job::Inner;
use crate::least::Marker;
use crate::ledger::Ledger;
use crate::{JobBuilder, JobError, OnConflict, Result, Skipped, names};

/// Where one job, or one shard of it, runs.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) shard: Option<u32>,
    pub(crate) lock: LockName,
    pub(crate) ledger: Ledger,
    pub(crate) marker: Option<Marker>,
    /// Around repeated attempts at a lock that is held.
    crowd: CircuitBreaker,
}

impl Lane {
    pub(crate) fn new(job: &JobBuilder, at_least: Option<Duration>, shard: Option<u32>) -> Result<Self, Error> {
        let lock = names::lane(&job.name, shard)?;
        let closed = names::marker(&job.name, shard)?;
        let marker = at_least.and_then(|time| Marker::new(&job.locks, &job.register, closed, time));
        let register = Arc::clone(&job.register);
        let clock = job.locks.clock();
        let ledger = Ledger::new(register, clock.clone(), &job.name, lock.clone());
        Ok(Self { shard, lock, ledger, marker, crowd: CircuitBreaker::new(clock.clone()) })
    }
}

/// What came of taking the lock.
pub(crate) enum Taken {
    Guard(Guard),
    /// Another holds it.
    Held(Skipped),
}

impl Inner {
    /// How often a lock is tried that was busy and has no holder.
    const TRIES: u32 = 4;
    const BETWEEN_TRIES: Duration = Duration::from_millis(20);

    /// Takes the lock of the lane, as far as the policy goes.
    pub(crate) async fn take(&self, lane: &Lane) -> Result<Taken> {
        let OnConflict::Retry(backoff) = self.settings.on_conflict else { return self.try_lane(lane, true).await };
        let mut taken = self.try_patiently(lane, backoff.attempts <= 1).await?;
        for attempt in 2..=backoff.attempts {
            if matches!(taken, Taken::Guard(_)) {
                break;
            }
            self.locks.clock().sleep(backoff.bound(attempt).mul_f64(fastrand::f64())).await;
            taken = self.try_patiently(lane, attempt == backoff.attempts).await?;
        }
        Ok(taken)
    }

    /// Tries once, when the breaker lets it: of many that retry each slows down, so that they do not storm the service
    /// together. No attempt is taken from the policy. Who holds it is asked for at the last one alone.
    async fn try_patiently(&self, lane: &Lane, last: bool) -> Result<Taken> {
        while let Err(open) = lane.crowd.enter() {
            self.locks.clock().sleep(open.retry_in).await;
        }
        let taken = self.try_lane(lane, last).await?;
        let change = match &taken {
            Taken::Guard(_) => lane.crowd.succeeded(),
            Taken::Held(_) => lane.crowd.failed(),
        };
        self.tell_of(change, BreakerCause::Held);
        Ok(taken)
    }

    fn tell_of(&self, change: CircuitChange, cause: BreakerCause) {
        match change {
            CircuitChange::Opened { failures, pause } => {
                self.tell(&JobEvent::BreakerOpened { cause, failures, pause });
            }
            CircuitChange::Closed => self.tell(&JobEvent::BreakerClosed { cause }),
            _ => {}
        }
    }

    /// Tries once, or waits where that is the policy. That the lock is busy is believed only when the service tells of a
    /// holder, where it is asked (`asks`): to this process it is busy too while an earlier claim of its own is still being undone.
    async fn try_lane(&self, lane: &Lane, asks: bool) -> Result<Taken> {
        for _ in 0..Self::TRIES {
            let breaker = self.breaker.enter();
            breaker.map_err(|open| JobError::BreakerOpen {
                job: self.name.clone(),
                failures: open.failures,
                retry_in: open.retry_in,
            })?;
            let tried = self.request(lane, asks).await;
            let (change, taken) = match tried {
                Ok(taken) => (self.breaker.succeeded(), Ok(taken)),
                Err(error) => (self.breaker.failed(), Err(JobError::lock(&self.name, error))),
            };
            self.tell_of(change, BreakerCause::Unreachable);
            if let Some(taken) = taken? {
                return Ok(taken);
            }
            self.locks.clock().sleep(Self::BETWEEN_TRIES.mul_f64(fastrand::f64())).await;
        }
        Ok(Taken::Held(Skipped::Held { holder: None, since: None }))
    }

    /// One request. `None` when the lock was busy and nobody holds it by now.
    async fn request(&self, lane: &Lane, asks: bool) -> lockyard_api::Result<Option<Taken>> {
        let request = self.locks.lock(lane.lock.as_str()).ttl(self.settings.ttl).label(&*self.settings.holder);
        let guard = match self.settings.on_conflict {
            OnConflict::Wait(most) => match request.wait(most).acquire().await {
                Err(error) if error.kind() == ErrorKind::Timeout => None,
                other => Some(other?),
            },
            OnConflict::Skip | OnConflict::Retry(_) => request.try_acquire().await?,
        };
        if let Some(guard) = guard {
            return Ok(Some(Taken::Guard(guard)));
        }
        if !asks {
            return Ok(Some(Taken::Held(Skipped::Held { holder: None, since: None })));
        }
        let Some(found) = self.locks.inspect(lane.lock.as_str()).await? else { return Ok(None) };
        let since = found.held_for;
        let holder = found.label.map(|label| label.to_string()).or(found.origin);
        if holder.as_deref() == Some(&*self.settings.holder) && self.locks.pending_releases() > 0 {
            let message = "a claim of this process, of which no answer came, is still being undone";
            return Err(Error::new(ErrorKind::Unreachable, message).not_applied());
        }
        Ok(Some(Taken::Held(Skipped::Held { holder, since })))
    }
}
