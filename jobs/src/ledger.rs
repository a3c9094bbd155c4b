//! What is kept in the register: read, and changed by compare-and-set.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use lockyard_api::{Clock, FencedRegister, FencingToken, LockName, Moment, Outcome, Version, Write};

use crate::document::Document;
use crate::{JobError, Record, RecordError, Result};

/// Where one document is kept.
#[derive(Debug)]
pub(crate) struct Ledger<D = Record> {
    register: Arc<dyn FencedRegister>,
    clock: Clock,
    /// The job, as errors name it.
    job: Arc<str>,
    name: LockName,
    document: PhantomData<fn() -> D>,
}

/// A document as it was found.
#[derive(Debug, Clone)]
pub(crate) struct Found<D = Record> {
    pub(crate) record: D,
    pub(crate) version: Version,
    pub(crate) token: Option<FencingToken>,
}

/// The answer to a write.
#[derive(Debug)]
pub(crate) enum Put {
    /// It stands there, with this version.
    Done(Version),
    /// Something else stands there: read again.
    Conflict,
    /// A later holder has written.
    Stale,
}

impl<D: Document> Ledger<D> {
    /// How often a change is made again that others came before.
    pub(crate) const ATTEMPTS: u32 = 32;
    /// How long a write is repeated that nobody answers.
    pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
    const FIRST_PAUSE: Duration = Duration::from_millis(10);
    const LONGEST_PAUSE: Duration = Duration::from_millis(500);

    pub(crate) fn new(register: Arc<dyn FencedRegister>, clock: Clock, job: &str, name: LockName) -> Self {
        Self { register, clock, job: job.into(), name, document: PhantomData }
    }

    pub(crate) async fn read(&self) -> Result<Found<D>> {
        let fenced = self.register.read(&self.name).await.map_err(|error| self.lock_error(error))?;
        let record = D::decode(fenced.value.as_deref(), self.name.as_str());
        let record = record.map_err(|error| self.record_error(error))?;
        Ok(Found { record, version: fenced.version, token: fenced.token })
    }

    /// Writes in place of the version that is expected. When no answer comes it writes again, and looks whether the first
    /// write is what it conflicts with: `is_mine` tells it from those of others.
    pub(crate) async fn put(
        &self,
        record: &D,
        token: FencingToken,
        expected: Version,
        patience: Duration,
        is_mine: impl Fn(&D) -> bool + Send + Sync,
    ) -> Result<Put> {
        let value = record.encode(self.name.as_str()).map_err(|error| self.record_error(error))?;
        let limit = self.clock.now().plus(patience);
        let mut pause = Self::FIRST_PAUSE;
        let mut unanswered = false;
        loop {
            let failed = match self.register.write(&self.name, &value, token, expected).await {
                Ok(Write::Written { version }) => return Ok(Put::Done(version)),
                Ok(Write::StaleToken { .. }) => return Ok(Put::Stale),
                Ok(_) if !unanswered => return Ok(Put::Conflict),
                Ok(_) => match self.read().await {
                    Ok(found) if found.token == Some(token) && is_mine(&found.record) => {
                        return Ok(Put::Done(found.version));
                    }
                    Ok(_) => return Ok(Put::Conflict),
                    Err(error @ JobError::Record { .. }) => return Err(error),
                    Err(error) => error,
                },
                Err(error) if error.outcome() == Outcome::NotApplied && !error.kind().is_transient() => {
                    return Err(self.lock_error(error));
                }
                // Writing again with the same expected version is safe: one of the writes counts.
                Err(error) => {
                    unanswered |= error.outcome() != Outcome::NotApplied;
                    self.lock_error(error)
                }
            };
            if !self.rest(&mut pause, limit).await {
                return Err(failed);
            }
        }
    }

    /// Changes the document without holding a lock, as an operator does: under the token that stands there, so that the
    /// token of a holder still counts. Nothing is written when `change` answers `false`. Returns what stands there then.
    pub(crate) async fn edit(&self, mut change: impl FnMut(&mut D) -> bool + Send) -> Result<D> {
        for _ in 0..Self::ATTEMPTS {
            let Found { mut record, version, token } = self.read().await?;
            if !change(&mut record) {
                return Ok(record);
            }
            let token = match token {
                Some(token) => token,
                // Less than all that a lock gives.
                None => FencingToken::new(0).map_err(|error| self.lock_error(error))?,
            };
            match self.put(&record, token, version, Self::PATIENCE, |found| *found == record).await? {
                Put::Done(_) => return Ok(record),
                Put::Conflict | Put::Stale => {}
            }
        }
        Err(self.record_error(RecordError::Contended { attempts: Self::ATTEMPTS }))
    }

    /// Waits a random time before the next attempt. `false` when there is no time for another.
    async fn rest(&self, pause: &mut Duration, limit: Moment) -> bool {
        let until = self.clock.now().plus(pause.mul_f64(fastrand::f64()));
        *pause = pause.saturating_mul(2).min(Self::LONGEST_PAUSE);
        if until >= limit {
            return false;
        }
        self.clock.sleep_until(until).await;
        true
    }

    pub(crate) fn lock_error(&self, error: lockyard_api::Error) -> JobError {
        JobError::lock(&self.job, error)
    }

    pub(crate) fn record_error(&self, source: RecordError) -> JobError {
        JobError::Record { job: self.job.to_string(), source }
    }
}
