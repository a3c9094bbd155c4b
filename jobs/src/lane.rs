//! A lane: the lock, the record and the marker of one job, or of one of its shards.

use std::sync::Arc;
use std::time::Duration;

use lockyard_api::{Error, ErrorKind, Guard, LockName};

use crate::breaker::Change;
use crate::event::JobEvent;
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
}

impl Lane {
    pub(crate) fn new(job: &JobBuilder, at_least: Option<Duration>, shard: Option<u32>) -> Result<Self, Error> {
        let lock = names::lane(&job.name, shard)?;
        let closed = names::marker(&job.name, shard)?;
        let marker = at_least.and_then(|time| Marker::new(&job.locks, closed, time));
        let register = Arc::clone(&job.register);
        let ledger = Ledger::new(register, job.locks.clock().clone(), &job.name, lock.clone());
        Ok(Self { shard, lock, ledger, marker })
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
        let OnConflict::Retry(backoff) = self.settings.on_conflict else { return self.try_lane(lane).await };
        let mut taken = self.try_lane(lane).await?;
        for attempt in 2..=backoff.attempts {
            if matches!(taken, Taken::Guard(_)) {
                break;
            }
            self.locks.clock().sleep(backoff.bound(attempt).mul_f64(fastrand::f64())).await;
            taken = self.try_lane(lane).await?;
        }
        Ok(taken)
    }

    /// Tries once, or waits where that is the policy. That the lock is busy is believed only when the service tells of a
    /// holder: to this process it is busy too while an earlier claim of its own is still being undone.
    async fn try_lane(&self, lane: &Lane) -> Result<Taken> {
        for _ in 0..Self::TRIES {
            let breaker = self.breaker.enter();
            breaker.map_err(|(failures, retry_in)| JobError::BreakerOpen {
                job: self.name.clone(),
                failures,
                retry_in,
            })?;
            let tried = self.request(lane).await;
            let (change, taken) = match tried {
                Ok(taken) => (self.breaker.answered(), Ok(taken)),
                Err(error) => (self.breaker.failed(), Err(JobError::lock(&self.name, error))),
            };
            match change {
                Change::None => {}
                Change::Opened { failures, pause } => self.tell(&JobEvent::BreakerOpened { failures, pause }),
                Change::Closed => self.tell(&JobEvent::BreakerClosed),
            }
            if let Some(taken) = taken? {
                return Ok(taken);
            }
            self.locks.clock().sleep(Self::BETWEEN_TRIES.mul_f64(fastrand::f64())).await;
        }
        Ok(Taken::Held(Skipped::Held { holder: None, since: None }))
    }

    /// One request. `None` when the lock was busy and nobody holds it by now.
    async fn request(&self, lane: &Lane) -> lockyard_api::Result<Option<Taken>> {
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
