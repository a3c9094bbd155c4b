//! When a job is due.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ticks::Ticks;
use crate::{Invalid, WallTime};

/// When a job is due: by a cron expression, at a fixed distance, or only when asked.
///
/// ```
/// use lockyard_jobs::{Schedule, WallTime};
///
/// let nightly = Schedule::cron("30 2 * * *").tz("Europe/Berlin");
/// let ticks = nightly.ticks("orders:sync", "2026-03-28T12:00:00Z".parse()?)?;
/// // That night the clocks go from 02:00 to 03:00: it runs once, at 03:00 there.
/// let next = ticks.next_after("2026-03-28T12:00:00Z".parse()?);
/// assert_eq!(next, Some("2026-03-29T01:00:00Z".parse::<WallTime>()?));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schedule {
    #[serde(flatten)]
    rule: Rule,
    #[serde(skip_serializing_if = "Option::is_none")]
    zone: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Rule {
    Cron(String),
    Every(Duration),
    Manual,
}

impl Schedule {
    /// By a cron expression of five fields (minute, hour, day of month, month, day of week), or of six with the second first.
    /// In UTC unless [`Schedule::tz`] says otherwise: the zone of the machine may differ from replica to replica.
    ///
    /// When the clocks go forward, a time that does not exist runs once, at the first time after the gap; when they go
    /// back, a fixed time runs once, at its first pass, and a wildcard (`*/30 * * * *`) in both hours.
    pub fn cron(expression: impl Into<String>) -> Self {
        Self { rule: Rule::Cron(expression.into()), zone: None }
    }

    /// Every so often, in whole milliseconds, counted from the start of 1970 in UTC: so all replicas name the same ticks,
    /// whenever they were started.
    #[must_use]
    pub const fn every(period: Duration) -> Self {
        Self { rule: Rule::Every(period), zone: None }
    }

    /// Only when it is asked for: each time given to [`Job::run_tick`](crate::Job::run_tick) is a slot of its own.
    #[must_use]
    pub const fn manual() -> Self {
        Self { rule: Rule::Manual, zone: None }
    }

    /// The zone of a cron expression, by its name in the IANA database, such as `Europe/Berlin`.
    #[must_use]
    pub fn tz(mut self, zone: impl Into<String>) -> Self {
        self.zone = Some(zone.into());
        self
    }

    /// The ticks of the schedule. `job` is named in errors.
    ///
    /// # Errors
    /// [`Invalid`] for an expression that cannot be parsed or is never due after `from`, for an unknown zone, for a zone
    /// without an expression, and for a distance of nothing or of fractions of a millisecond.
    pub fn ticks(&self, job: &str, from: WallTime) -> Result<Ticks, Invalid> {
        if self.zone.is_some() && !matches!(self.rule, Rule::Cron(_)) {
            let cure = "leave it away, or give a cron expression";
            return Err(Invalid::new(job, "tz", "a zone says nothing without a cron expression", cure));
        }
        match &self.rule {
            Rule::Cron(expression) => Ticks::cron(job, expression, self.zone.as_deref().unwrap_or("UTC"), from),
            Rule::Every(period) => Ticks::every(job, *period),
            Rule::Manual => Ok(Ticks::manual()),
        }
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.rule, &self.zone) {
            (Rule::Cron(expression), Some(zone)) => write!(f, "{expression} {zone}"),
            (Rule::Cron(expression), None) => write!(f, "{expression} UTC"),
            (Rule::Every(period), _) => write!(f, "every {}", humantime::format_duration(*period)),
            (Rule::Manual, _) => f.write_str("by hand"),
        }
    }
}
