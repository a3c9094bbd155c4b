//! The status file: what became of a run.

use std::io;
use std::path::Path;

use serde::Serialize;

use super::env::Facts;
use super::replace::replace;
use crate::exit::Exit;

/// How a run ended, in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Outcome {
    /// The command ran to its own end.
    Ran,
    /// Another holds the lock; the command was not started.
    Skipped,
    /// The lock was lost and the command stopped.
    Lost,
    /// The command was stopped at its time limit.
    Timeout,
    /// lockyard failed, or was told to stop, before the command was started.
    Error,
}

/// How the command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct ChildStatus {
    pub(super) code: Option<i32>,
    pub(super) signal: Option<i32>,
}

/// What stands in the file.
#[derive(Debug, Serialize)]
pub(super) struct Status {
    schema: u32,
    pub(super) outcome: Outcome,
    pub(super) reason: Option<String>,
    pub(super) exit_code: u8,
    pub(super) child: Option<ChildStatus>,
    name: String,
    holder: Option<String>,
    token: Option<String>,
    acquired_at: Option<String>,
    scheduled_at: Option<String>,
    held_seconds: Option<f64>,
    /// Final when the lock is released: until then another may be confirmed.
    pub(super) renewals: u64,
}

impl Status {
    /// A run that never held the lock.
    pub(super) fn new(name: &str, outcome: Outcome) -> Self {
        Self {
            schema: 1,
            outcome,
            reason: None,
            exit_code: 0,
            child: None,
            name: name.to_owned(),
            holder: None,
            token: None,
            acquired_at: None,
            scheduled_at: None,
            held_seconds: None,
            renewals: 0,
        }
    }

    pub(super) fn because(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }

    /// The run held the lock.
    pub(super) fn held(mut self, facts: &Facts, seconds: f64) -> Self {
        self.holder = Some(facts.holder.clone());
        self.token.clone_from(&facts.token);
        self.acquired_at = Some(facts.acquired_at.clone());
        self.scheduled_at.clone_from(&facts.scheduled_at);
        self.held_seconds = Some(seconds);
        self
    }

    /// The code that the shell sees.
    pub(super) fn ended_with(mut self, exit: Exit) -> Self {
        self.exit_code = exit.code();
        self
    }

    /// Writes the file in one step: a reader sees the old one or the new one, never half.
    pub(super) fn write(&self, path: &Path) -> io::Result<()> {
        let text = serde_json::to_string_pretty(self)?;
        replace(path, &(text + "\n"))
    }
}
