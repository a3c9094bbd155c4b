//! The run record: what all replicas know of a job.

use std::fmt;
use std::time::Duration;

use lockyard_api::FencingToken;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::WallTime;
use crate::document::{Document, shortened};

/// What all replicas know of a job. Kept in the fenced register as JSON, written with the token of the lock.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Record {
    /// The latest slot that was used, run or not. Slots only rise.
    pub slot: Option<WallTime>,
    /// The latest run: the present one while its status is `running`.
    pub last: Option<Run>,
    /// No run begins before this time, by the clock of the host that wrote it.
    pub not_before: Option<WallTime>,
    /// The slot of the latest run that ended well.
    pub previous_success: Option<WallTime>,
    /// How many runs in a row have not ended well.
    #[serde(default)]
    pub consecutive_failures: u32,
    /// Set while the job is paused.
    pub paused: Option<Pause>,
    /// When the last pause ended: slots until then are not caught up.
    pub resumed_at: Option<WallTime>,
    /// A run that somebody asked for and nobody has begun.
    pub trigger: Option<Trigger>,
    /// The latest runs and misses, the latest last.
    #[serde(default)]
    pub history: Vec<Entry>,
    /// What a later version of this program keeps here beside that: carried along.
    #[serde(flatten)]
    extra: Map<String, Value>,
}

/// One run of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Run {
    /// The slot; the time at which it was asked for where it was asked for by hand.
    pub slot: WallTime,
    /// Differs from that of every other run.
    pub run_id: String,
    /// Which start of this slot it is: 1, unless the job reruns what crashed.
    pub attempt: u32,
    /// Whether it was asked for by hand, beside the schedule.
    #[serde(default)]
    pub triggered: bool,
    /// Who ran it.
    pub holder: String,
    /// The fencing token under which it ran.
    #[serde(with = "decimal")]
    pub token: u64,
    /// When it was claimed, by the clock of its host.
    pub started_at: WallTime,
    /// When it ended, by the clock of its host.
    pub finished_at: Option<WallTime>,
    /// What became of it.
    pub status: Status,
    /// What the job said of its failure, cut short.
    pub error: Option<String>,
}

/// What became of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Status {
    /// It is claimed and has not ended; when nobody holds the lock, it has crashed.
    Running,
    /// The job returned a value.
    Succeeded,
    /// The job returned an error, or panicked.
    Failed,
    /// The job took longer than it may and was ended.
    TimedOut,
    /// The lock was lost and the job ended.
    Lost,
    /// The program was shut down and the job ended.
    Stopped,
    /// Its replica vanished during the run.
    Crashed,
    /// Nobody ran the slot in time.
    Missed,
}

impl Status {
    /// The status as one word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::TimedOut => "timed_out",
            Self::Lost => "lost",
            Self::Stopped => "stopped",
            Self::Crashed => "crashed",
            Self::Missed => "missed",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A line of the history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Entry {
    /// The slot; the first one where several were missed.
    pub slot: WallTime,
    /// What became of it.
    pub status: Status,
    /// How many slots were missed; 1 for a run.
    pub count: u64,
    /// The run, where there was one.
    pub run: Option<Run>,
}

impl From<Run> for Entry {
    fn from(run: Run) -> Self {
        Self { slot: run.slot, status: run.status, count: 1, run: Some(run) }
    }
}

/// Who has paused a job, and when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Pause {
    /// When.
    pub at: WallTime,
    /// Who.
    pub by: String,
}

impl Pause {
    /// A pause from this time.
    pub fn new(at: WallTime, by: impl Into<String>) -> Self {
        Self { at, by: by.into() }
    }
}

/// A run that was asked for by hand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Trigger {
    /// When.
    pub at: WallTime,
    /// Who.
    pub by: String,
}

impl Trigger {
    /// A run asked for at this time.
    pub fn new(at: WallTime, by: impl Into<String>) -> Self {
        Self { at, by: by.into() }
    }
}

impl Record {
    /// How many lines the history has.
    pub const HISTORY: usize = 20;

    /// Whether the latest run is claimed and has not ended.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.last.as_ref().is_some_and(|run| run.status == Status::Running)
    }

    pub(crate) fn is_run(&self, run_id: &str) -> bool {
        self.last.as_ref().is_some_and(|run| run.run_id == run_id)
    }

    /// Writes down that this run begins.
    pub(crate) fn begin(&mut self, run: Run, not_before: Option<WallTime>) {
        if run.triggered {
            self.trigger = None;
        } else {
            self.slot = Some(run.slot);
        }
        self.not_before = not_before;
        self.last = Some(run);
    }

    /// Writes down how the latest run ended.
    pub(crate) fn end(&mut self, status: Status, at: WallTime, error: Option<String>) {
        let Some(run) = &mut self.last else { return };
        run.status = status;
        run.finished_at = Some(at);
        run.error = error.map(|error| shortened(&error));
        let run = run.clone();
        if status == Status::Succeeded {
            // A run by hand can be ahead of those that are caught up.
            self.previous_success = self.previous_success.max(Some(run.slot));
            self.consecutive_failures = 0;
        } else {
            self.consecutive_failures = self.consecutive_failures.saturating_add(1);
        }
        self.push(run.into());
    }

    /// Writes down that these slots were run by nobody.
    pub(crate) fn miss(&mut self, first: WallTime, count: u64) {
        self.push(Entry { slot: first, status: Status::Missed, count, run: None });
    }

    fn push(&mut self, entry: Entry) {
        self.history.push(entry);
        let surplus = self.history.len().saturating_sub(Self::HISTORY);
        self.history.drain(..surplus);
    }
}

impl Run {
    /// A first run of a slot by its schedule, which begins now.
    pub(crate) fn begun(slot: WallTime, run_id: &str, holder: &str, token: FencingToken, now: WallTime) -> Self {
        Self {
            slot,
            run_id: run_id.to_owned(),
            attempt: 1,
            triggered: false,
            holder: holder.to_owned(),
            token: token.get(),
            started_at: now,
            finished_at: None,
            status: Status::Running,
            error: None,
        }
    }

    /// How long it took, where it has ended.
    #[must_use]
    pub fn took(&self) -> Option<Duration> {
        self.finished_at.map(|end| end.since(self.started_at))
    }
}

impl Document for Record {
    fn problem(&self) -> Option<String> {
        let wild = self.last.as_ref().is_some_and(|run| FencingToken::new(run.token).is_err());
        wild.then(|| "its token is beyond all tokens".to_owned())
    }
}

/// Tokens as decimal text: many readers of JSON keep only 53 bits of a number.
mod decimal {
    use serde::{Deserialize, Deserializer, Serializer, de};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
    pub(super) fn serialize<S: Serializer>(token: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(token)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
#[path = "record_tests.rs"]
pub(crate) mod tests;
