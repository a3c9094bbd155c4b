//! The claim of a slot in the record, and the line about its end.

use lockyard_api::{FencingToken, Guard, Version};

use crate::context::Facts;
use crate::decide::{Decision, Plan, Wanted};
use crate::event::JobEvent;
use crate::job::Inner;
use crate::lane::Lane;
use crate::ledger::{Found, Ledger, Put};
use crate::record::{Run, Status};
use crate::{JobError, Record, RecordError, Result, Skipped, WallTime};

/// What came of the attempt to claim a slot.
pub(crate) enum Claiming {
    /// It is ours.
    Claimed(Box<Claimed>),
    /// It is not to be run.
    Skipped(Skipped),
    /// The record shows that the lock is somebody else's by now.
    Lost,
}

/// A slot that is claimed: the record as it stands, and in which version.
#[derive(Debug)]
pub(crate) struct Claimed {
    pub(crate) run: Run,
    token: FencingToken,
    record: Record,
    version: Version,
    missed: u64,
    crashed: bool,
}

/// Whether the end of a run was written down.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Closing {
    Done,
    /// A later run stands there: the lock was lost.
    Gone,
    /// The service did not take it.
    Failed,
}

impl Claimed {
    pub(crate) const fn token(&self) -> FencingToken {
        self.token
    }

    pub(crate) fn facts(&self, shard: Option<u32>) -> Facts {
        Facts {
            scheduled_at: self.run.slot,
            previous_success: self.record.previous_success,
            run_id: self.run.run_id.clone(),
            attempt: self.run.attempt,
            token: self.token,
            shard,
            missed: self.missed,
            crashed: self.crashed,
            triggered: self.run.triggered,
        }
    }
}

impl Inner {
    /// Claims the slot in the record, if the record lets it be run.
    pub(crate) async fn claim(&self, guard: &Guard, lane: &Lane, wanted: Wanted, called: WallTime) -> Result<Claiming> {
        let token = guard.fencing_token().ok_or_else(|| {
            lane.ledger.lock_error(lockyard_api::Error::unsupported("the lock came without a fencing token"))
        })?;
        for _ in 0..Ledger::<Record>::ATTEMPTS {
            let found = lane.ledger.read().await?;
            let claiming = match self.rules(lane).decide(&found.record, wanted, called, self.now()) {
                Decision::Skip(skipped) => return Ok(Claiming::Skipped(skipped)),
                Decision::Miss { slot } => self.miss(lane, found, token, slot).await?,
                Decision::Run(plan) => match self.closed(lane).await? {
                    Some(skipped) => return Ok(Claiming::Skipped(skipped)),
                    None => self.begin(guard, lane, found, token, plan).await?,
                },
            };
            // Nothing: an operator has changed the record in between.
            if let Some(claiming) = claiming {
                return Ok(claiming);
            }
        }
        Err(lane.ledger.record_error(RecordError::Contended { attempts: Ledger::<Record>::ATTEMPTS }))
    }

    /// Whether the marker of the run before keeps the job closed.
    async fn closed(&self, lane: &Lane) -> Result<Option<Skipped>> {
        let Some(marker) = &lane.marker else { return Ok(None) };
        let left = marker.closed_for().await.map_err(|error| lane.ledger.lock_error(error))?;
        Ok(left.map(|left| Skipped::TooSoon { until: self.now().plus(left) }))
    }

    async fn begin(
        &self,
        guard: &Guard,
        lane: &Lane,
        found: Found,
        token: FencingToken,
        plan: Plan,
    ) -> Result<Option<Claiming>> {
        let now = self.now();
        // The owner is random, the token tells hand-offs apart.
        let run_id = format!("{}-{token}", guard.claim().owner);
        let begun = Run::begun(plan.slot, &run_id, &self.settings.holder, token, now);
        let run = Run { attempt: plan.attempt, triggered: plan.triggered, ..begun };
        let mut record = found.record;
        let crashed = self.bury(&mut record, now);
        if let Some((first, count)) = plan.missed {
            record.miss(first, count);
        }
        record.begin(run.clone(), self.settings.at_least_for.map(|time| now.plus(time)));
        let put = lane.ledger.put(&record, token, found.version, Ledger::<Record>::PATIENCE, |r| r.is_run(&run.run_id));
        let version = match put.await? {
            Put::Conflict => return Ok(None),
            Put::Stale => return Ok(Some(Claiming::Lost)),
            Put::Done(version) => version,
        };
        let missed = plan.missed.map_or(0, |(_, count)| count);
        if let Some(event) = &crashed {
            self.tell(event);
        }
        if let Some((first, count)) = plan.missed {
            self.tell(&JobEvent::Missed { first, count });
        }
        let claimed = Claimed { run, token, record, version, missed, crashed: crashed.is_some() };
        Ok(Some(Claiming::Claimed(Box::new(claimed))))
    }

    /// Writes down that the slot is over without a run.
    async fn miss(&self, lane: &Lane, found: Found, token: FencingToken, slot: WallTime) -> Result<Option<Claiming>> {
        let missed = self.rules(lane).missed(&found.record, slot);
        let (first, count) = missed.map_or((slot, 1), |(first, count)| (first, count + 1));
        let mut record = found.record;
        let crashed = self.bury(&mut record, self.now());
        record.miss(first, count);
        record.slot = Some(slot);
        let mine = |found: &Record| *found == record;
        match lane.ledger.put(&record, token, found.version, Ledger::<Record>::PATIENCE, mine).await? {
            Put::Conflict => return Ok(None),
            Put::Stale => return Ok(Some(Claiming::Lost)),
            Put::Done(_) => {}
        }
        if let Some(event) = &crashed {
            self.tell(event);
        }
        self.tell(&JobEvent::Missed { first, count });
        Ok(Some(Claiming::Skipped(Skipped::Misfired { missed: count, crashed: false })))
    }

    /// Writes down that the run which stands there has crashed, if it has: the lock is ours, so it does not run any more.
    fn bury(&self, record: &mut Record, now: WallTime) -> Option<JobEvent> {
        let run = record.last.clone().filter(|run| run.status == Status::Running)?;
        record.end(Status::Crashed, now, None);
        Some(JobEvent::Crashed { slot: run.slot, run_id: run.run_id, holder: run.holder })
    }

    /// Writes down how a run ended, beside what an operator has changed meanwhile.
    pub(crate) async fn close(&self, lane: &Lane, claimed: Claimed, status: Status, error: Option<String>) -> Closing {
        let Claimed { run, token, mut record, mut version, .. } = claimed;
        for _ in 0..Ledger::<Record>::ATTEMPTS {
            record.end(status, self.now(), error.clone());
            let mine = |found: &Record| found.is_run(&run.run_id) && !found.is_running();
            let failed = match lane.ledger.put(&record, token, version, Self::patience(status), mine).await {
                Ok(Put::Done(_)) => return Closing::Done,
                Ok(Put::Stale) => return Closing::Gone,
                Ok(Put::Conflict) => match lane.ledger.read().await {
                    Ok(found) if found.record.is_run(&run.run_id) => {
                        (record, version) = (found.record, found.version);
                        continue;
                    }
                    Ok(_) => return Closing::Gone,
                    Err(error) => error,
                },
                Err(error) => error,
            };
            return self.not_recorded(run.slot, &failed);
        }
        self.not_recorded(
            run.slot,
            &lane.ledger.record_error(RecordError::Contended { attempts: Ledger::<Record>::ATTEMPTS }),
        )
    }

    fn not_recorded(&self, slot: WallTime, error: &JobError) -> Closing {
        self.tell(&JobEvent::NotRecorded { slot, error: error.to_string() });
        Closing::Failed
    }
}
