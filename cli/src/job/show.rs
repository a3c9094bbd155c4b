//! Jobs and their runs, as tables and as JSON.

use lockyard_jobs::{Entry, Listed, Record, WallTime};
use serde_json::{Value, json};

use crate::output::{columns, rough};

/// A job, with a record a shard.
pub(super) struct Job {
    pub(super) name: String,
    pub(super) listed: Listed,
    pub(super) records: Vec<Record>,
}

impl Job {
    /// The records with the names of their shards.
    fn lanes(&self) -> impl Iterator<Item = (String, Option<usize>, &Record)> {
        self.records.iter().enumerate().map(|(number, record)| match self.listed.shards {
            Some(_) => (format!("{}#{number}", self.name), Some(number), record),
            None => (self.name.clone(), None, record),
        })
    }

    /// When it is due next; nothing for one that runs by hand, or that is paused.
    fn next(&self, record: &Record, now: WallTime) -> Option<WallTime> {
        let ticks = self.listed.ticks(&self.name, now).ok()?;
        ticks.next_after(now).filter(|_| record.paused.is_none())
    }
}

fn state(record: &Record) -> &'static str {
    match record {
        _ if record.is_running() => "running",
        Record { paused: Some(_), .. } => "paused",
        Record { trigger: Some(_), .. } => "triggered",
        _ => "idle",
    }
}

pub(super) fn list(jobs: &[Job], now: WallTime) -> String {
    let rows = jobs.iter().flat_map(|job| {
        job.lanes().map(move |(name, _, record)| {
            let last = record.last.as_ref();
            vec![
                name,
                job.listed.schedule.to_string(),
                state(record).to_owned(),
                shown(last.map(|run| run.slot)),
                shown(last.map(|run| run.status)),
                record.consecutive_failures.to_string(),
                shown(job.next(record, now)),
            ]
        })
    });
    columns(&["NAME", "SCHEDULE", "STATE", "LAST", "STATUS", "FAILURES", "NEXT"], rows)
}

pub(super) fn list_json(jobs: &[Job], now: WallTime) -> Value {
    let jobs: Vec<Value> = jobs
        .iter()
        .flat_map(|job| {
            job.lanes().map(move |(_, shard, record)| {
                json!({
                    "name": job.name,
                    "shard": shard,
                    "schedule": job.listed.schedule.to_string(),
                    "state": state(record),
                    "slot": record.slot,
                    "last": record.last,
                    "previous_success": record.previous_success,
                    "consecutive_failures": record.consecutive_failures,
                    "paused": record.paused,
                    "next": job.next(record, now),
                })
            })
        })
        .collect();
    json!({ "schema": 1, "jobs": jobs })
}

pub(super) fn history(job: &Job) -> String {
    let rows = job.lanes().flat_map(|(name, _, record)| {
        entries(record).map(move |entry| {
            let run = entry.run.as_ref();
            vec![
                name.clone(),
                entry.slot.to_string(),
                entry.status.to_string(),
                entry.count.to_string(),
                shown(run.and_then(lockyard_jobs::Run::took).map(rough)),
                shown(run.map(|run| &run.holder)),
                shown(run.map(|run| run.token)),
                shown(run.and_then(|run| run.error.as_deref()).map(one_line)),
            ]
        })
    });
    columns(&["NAME", "SLOT", "STATUS", "SLOTS", "TOOK", "HOLDER", "TOKEN", "ERROR"], rows)
}

pub(super) fn history_json(job: &Job) -> Value {
    let runs: Vec<Value> = job
        .lanes()
        .flat_map(|(_, shard, record)| {
            entries(record).map(move |entry| {
                json!({
                    "shard": shard,
                    "slot": entry.slot,
                    "status": entry.status,
                    "slots": entry.count,
                    "run": entry.run,
                })
            })
        })
        .collect();
    json!({ "schema": 1, "name": job.name, "runs": runs })
}

/// The history, and the run that goes on.
fn entries(record: &Record) -> impl Iterator<Item = Entry> {
    let running = record.last.clone().filter(|_| record.is_running()).map(Entry::from);
    record.history.iter().cloned().chain(running)
}

fn shown(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

/// Errors of jobs may hold anything.
fn one_line(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}
