//! The list of the jobs of a namespace: for people who want to see them all.

use std::collections::BTreeMap;
use std::sync::Arc;

use lockyard_api::{Clock, FencedRegister, LockName};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::document::Document;
use crate::job::Inner;
use crate::ledger::Ledger;
use crate::{JobError, Result, Schedule, Ticks, WallTime, names};

/// The jobs that have ever run in a namespace.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Catalogue {
    /// By name.
    pub jobs: BTreeMap<String, Listed>,
    #[serde(flatten)]
    extra: Map<String, Value>,
}

/// What the list says of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Listed {
    /// Its schedule.
    pub schedule: Schedule,
    /// Into how many shards it is split, if it is.
    pub shards: Option<u32>,
    #[serde(flatten)]
    extra: Map<String, Value>,
}

impl Listed {
    /// Its ticks.
    ///
    /// # Errors
    /// `Invalid` where a program with other time zones has listed it.
    pub fn ticks(&self, job: &str, from: WallTime) -> Result<Ticks> {
        Ok(self.schedule.ticks(job, from)?)
    }
}

impl Catalogue {
    /// Reads the list.
    ///
    /// # Errors
    /// What the service did, and a list that cannot be read.
    ///
    /// # Cancel safety
    /// May be dropped at any await; it changes nothing.
    pub async fn read(register: Arc<dyn FencedRegister>, clock: Clock) -> Result<Self> {
        Ok(ledger(register, clock)?.read().await?.record)
    }
}

impl Document for Catalogue {}

/// A job about to be listed.
#[derive(Debug)]
pub(crate) struct Enrolment {
    listed: Listed,
    register: Arc<dyn FencedRegister>,
    clock: Clock,
}

impl Enrolment {
    pub(crate) fn new(
        schedule: &Schedule,
        shards: Option<u32>,
        register: Arc<dyn FencedRegister>,
        clock: Clock,
    ) -> Self {
        Self { listed: Listed { schedule: schedule.clone(), shards, extra: Map::new() }, register, clock }
    }

    async fn enrol(&self, job: &str) -> Result<()> {
        let ledger = ledger(Arc::clone(&self.register), self.clock.clone())?;
        let change = |catalogue: &mut Catalogue| {
            if catalogue
                .jobs
                .get(job)
                .is_some_and(|known| (&known.schedule, known.shards) == (&self.listed.schedule, self.listed.shards))
            {
                return false;
            }
            catalogue.jobs.insert(job.to_owned(), self.listed.clone());
            true
        };
        ledger.edit(change).await.map(drop)
    }
}

impl Inner {
    /// Lists the job, once a process. That it cannot be listed keeps it from nothing.
    pub(crate) async fn enrol(&self) {
        let enrolled = self.enrolled.get_or_try_init(|| self.enrolment.enrol(&self.name)).await;
        if let Err(error) = enrolled {
            tracing::warn!(job.name = self.name, %error, "the job could not be listed");
        }
    }
}

fn ledger(register: Arc<dyn FencedRegister>, clock: Clock) -> Result<Ledger<Catalogue>> {
    let name = LockName::new(names::CATALOGUE).map_err(|error| JobError::lock(names::CATALOGUE_OWNER, error))?;
    Ok(Ledger::new(register, clock, names::CATALOGUE_OWNER, name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn every_schedule_reads_back() {
        let mut catalogue = Catalogue::default();
        for (name, schedule) in [
            ("a", Schedule::cron("0 2 * * *").tz("Europe/Berlin")),
            ("b", Schedule::cron("0 2 * * *")),
            ("c", Schedule::every(Duration::from_millis(1500))),
            ("d", Schedule::manual()),
        ] {
            let listed = Listed { schedule, shards: Some(8), extra: Map::new() };
            catalogue.jobs.insert(name.to_owned(), listed);
        }
        let text = catalogue.encode("r").expect("JSON");
        assert_eq!(Catalogue::decode(Some(&text), "r").expect("its own"), catalogue);
    }
}
