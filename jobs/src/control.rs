//! What people do with a job beside its schedule.

use std::sync::Arc;

use lockyard_api::{Clock, FencedRegister};

use crate::ledger::Ledger;
use crate::record::{Pause, Trigger};
use crate::{JobError, Record, Result, WallTime, names};

/// Pauses a job, resumes it, asks for a run, and looks at what has become of its runs: from anywhere, by its name, also
/// while it runs. Cheap to clone.
///
/// ```
/// use lockyard_jobs::JobControl;
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// let register = lockyard::connect_register("memory://control").await?;
/// let control = JobControl::new("orders:sync", None, register, lockyard::Clock::system())?;
/// control.pause("eve").await?;
/// assert!(control.records().await?.iter().all(|record| record.paused.is_some()));
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
/// ```
#[derive(Debug, Clone)]
pub struct JobControl {
    ledgers: Arc<[Ledger]>,
    /// Whose wall clock names the time of what is done.
    clock: Clock,
}

impl JobControl {
    /// The controls of the job of this name, with its number of shards: `None` for a job without.
    ///
    /// # Errors
    /// `InvalidName` for a name that no job has.
    pub fn new(name: &str, shards: Option<u32>, register: Arc<dyn FencedRegister>, clock: Clock) -> Result<Self> {
        let shards: Vec<_> = shards.map_or_else(|| vec![None], |shards| (0..shards).map(Some).collect());
        let ledger = |shard| {
            let lane = names::lane(name, shard).map_err(|error| JobError::lock(name, error))?;
            Ok(Ledger::new(Arc::clone(&register), clock.clone(), name, lane))
        };
        let ledgers = shards.into_iter().map(ledger).collect::<Result<_>>()?;
        Ok(Self { ledgers, clock })
    }

    /// The same, naming times by this clock.
    pub(crate) fn naming_times_by(mut self, clock: &Clock) -> Self {
        self.clock = clock.clone();
        self
    }

    /// The records: one, or one a shard.
    ///
    /// # Errors
    /// What the service did, and a record that cannot be used.
    ///
    /// # Cancel safety
    /// May be dropped at any await; it changes nothing.
    pub async fn records(&self) -> Result<Vec<Record>> {
        let mut records = Vec::new();
        for ledger in self.ledgers.iter() {
            records.push(ledger.read().await?.record);
        }
        Ok(records)
    }

    /// Lets no run begin from now on; one that goes on is not touched. A second pause changes nothing.
    ///
    /// # Errors
    /// As [`JobControl::records`]. Some shards may be paused then: pause again.
    ///
    /// # Cancel safety
    /// Dropped, it may have paused all, some, or none of the shards.
    pub async fn pause(&self, by: &str) -> Result<()> {
        let at = WallTime::now(&self.clock);
        let change = |record: &mut Record| {
            let paused = record.paused.is_some();
            record.paused.get_or_insert_with(|| Pause::new(at, by));
            !paused
        };
        self.edit(change).await
    }

    /// Lets runs begin again. The slots of the pause are not caught up.
    ///
    /// # Errors
    /// As [`JobControl::pause`].
    ///
    /// # Cancel safety
    /// As [`JobControl::pause`].
    pub async fn resume(&self) -> Result<()> {
        let at = WallTime::now(&self.clock);
        let change = |record: &mut Record| {
            let paused = record.paused.take().is_some();
            if paused {
                record.resumed_at = Some(at);
            }
            paused
        };
        self.edit(change).await
    }

    /// Asks for a run beside the schedule: whichever replica sees it first begins it, once. Asking again before that
    /// changes nothing.
    ///
    /// # Errors
    /// As [`JobControl::pause`].
    ///
    /// # Cancel safety
    /// As [`JobControl::pause`].
    pub async fn trigger(&self, by: &str) -> Result<()> {
        let at = WallTime::now(&self.clock);
        let change = |record: &mut Record| {
            let asked = record.trigger.is_some();
            record.trigger.get_or_insert_with(|| Trigger::new(at, by));
            !asked
        };
        self.edit(change).await
    }

    /// The record of one shard, for who looks often.
    pub(crate) async fn record(&self, shard: u32) -> Result<Record> {
        match usize::try_from(shard).ok().and_then(|shard| self.ledgers.get(shard)) {
            Some(ledger) => Ok(ledger.read().await?.record),
            None => Ok(Record::default()),
        }
    }

    async fn edit(&self, change: impl Fn(&mut Record) -> bool + Send + Sync) -> Result<()> {
        for ledger in self.ledgers.iter() {
            ledger.edit(&change).await?;
        }
        Ok(())
    }
}
