//! The ticks of a schedule: forward, backward, and how far apart.

use std::time::Duration;

use chrono::{DateTime, Utc};
use chrono_tz::Tz;
use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};

use crate::slot::slot_of;
use crate::{Invalid, WallTime};

/// The ticks of a [`Schedule`](crate::Schedule): a function of the schedule alone, so that all replicas name the same ones.
#[derive(Debug, Clone)]
pub struct Ticks(Kind);

#[derive(Debug, Clone)]
enum Kind {
    Cron { cron: Box<Cron>, zone: Tz },
    Every { millis: u64 },
    Manual,
}

impl Ticks {
    /// How many ticks are looked at to find the shortest distance between two.
    const SAMPLE: usize = 64;

    pub(crate) fn cron(job: &str, expression: &str, zone: &str, from: WallTime) -> Result<Self, Invalid> {
        let zone = zone.parse::<Tz>().map_err(|_| {
            let problem = format!("there is no time zone {zone:?}");
            Invalid::new(job, "tz", problem, "use a name of the IANA database, such as \"Europe/Berlin\" or \"UTC\"")
        })?;
        let parser = CronParser::builder().seconds(Seconds::Optional).year(Year::Disallowed).build();
        let cron = parser.parse(expression).map_err(|error| {
            let problem = format!("cannot read the cron expression {expression:?}: {error}");
            let cure = "write minute, hour, day of month, month and day of week, such as \"0 2 * * *\"; six fields begin with the second";
            Invalid::new(job, "schedule", problem, cure)
        })?;
        let ticks = Self(Kind::Cron { cron: Box::new(cron), zone });
        if ticks.next_after(from).is_none() {
            let problem = format!("the cron expression {expression:?} is never due after {from}");
            let cure = "name a day that its months have; a job that only runs by hand has Schedule::manual()";
            return Err(Invalid::new(job, "schedule", problem, cure));
        }
        Ok(ticks)
    }

    pub(crate) fn every(job: &str, period: Duration) -> Result<Self, Invalid> {
        match u64::try_from(period.as_millis()) {
            Ok(millis) if millis > 0 && Duration::from_millis(millis) == period => Ok(Self(Kind::Every { millis })),
            _ => {
                let problem = format!("every {period:?} is no whole number of milliseconds above zero");
                Err(Invalid::new(job, "schedule", problem, "give a distance such as Duration::from_secs(60)"))
            }
        }
    }

    pub(crate) const fn manual() -> Self {
        Self(Kind::Manual)
    }

    /// Whether there are none: each slot is named by hand.
    #[must_use]
    pub const fn is_manual(&self) -> bool {
        matches!(self.0, Kind::Manual)
    }

    /// The first tick after this time; `None` when there is none.
    #[must_use]
    pub fn next_after(&self, time: WallTime) -> Option<WallTime> {
        match &self.0 {
            // The search goes on from the next whole second: a tick is one.
            Kind::Cron { cron, zone } => from_chrono(&cron.find_next_occurrence(&to_chrono(time, *zone)?, false).ok()?),
            Kind::Every { millis } => {
                let next = (time.as_millis() / millis).checked_add(1)?.checked_mul(*millis)?;
                Some(WallTime::from_millis(next)).filter(|found| found.as_millis() == next)
            }
            Kind::Manual => None,
        }
    }

    /// The last tick at or before this time; `None` when there is none.
    #[must_use]
    pub fn latest_at(&self, time: WallTime) -> Option<WallTime> {
        match &self.0 {
            Kind::Cron { cron, zone } => {
                from_chrono(&cron.find_previous_occurrence(&to_chrono(time, *zone)?, true).ok()?)
            }
            Kind::Every { millis } => Some(WallTime::from_millis(time.as_millis() / millis * millis)),
            Kind::Manual => None,
        }
    }

    /// The last tick before this time; `None` when there is none.
    #[must_use]
    pub fn latest_before(&self, time: WallTime) -> Option<WallTime> {
        self.latest_at(time.minus(Duration::from_millis(1))).filter(|found| *found < time)
    }

    /// The time from a tick to the next one; `None` when there is no next one.
    #[must_use]
    pub fn period_at(&self, tick: WallTime) -> Option<Duration> {
        self.next_after(tick).map(|next| next.since(tick))
    }

    /// The shortest distance between two of the next ticks; `None` where there are no two.
    #[must_use]
    pub fn shortest_period(&self, from: WallTime) -> Option<Duration> {
        let mut tick = self.next_after(from)?;
        let mut shortest: Option<Duration> = None;
        for _ in 0..Self::SAMPLE {
            let Some(next) = self.next_after(tick) else { break };
            let period = next.since(tick);
            shortest = Some(shortest.map_or(period, |known| known.min(period)));
            tick = next;
        }
        shortest
    }

    /// The slot that a start at this time is meant for: the tick nearest to it within 5 % of the period and at most 30 s, so
    /// that hosts whose clocks differ name the same one; else the last one before it. Without ticks the time itself.
    /// `None` before the first tick.
    #[must_use]
    pub fn slot_at(&self, time: WallTime) -> Option<WallTime> {
        slot_of(self, time)
    }

    /// How many ticks lie between the two, neither counted; no more than `most` are.
    #[must_use]
    pub fn count_between(&self, after: WallTime, before: WallTime, most: u64) -> u64 {
        let mut count = 0;
        let mut tick = after;
        while count < most {
            match self.next_after(tick) {
                Some(next) if next < before => (tick, count) = (next, count + 1),
                _ => break,
            }
        }
        count
    }
}

fn to_chrono(time: WallTime, zone: Tz) -> Option<DateTime<Tz>> {
    let millis = i64::try_from(time.as_millis()).ok()?;
    Some(DateTime::<Utc>::from_timestamp_millis(millis)?.with_timezone(&zone))
}

fn from_chrono(time: &DateTime<Tz>) -> Option<WallTime> {
    u64::try_from(time.timestamp_millis()).ok().map(WallTime::from_millis)
}

#[cfg(test)]
#[path = "ticks_tests.rs"]
mod tests;
