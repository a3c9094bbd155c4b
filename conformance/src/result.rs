//! What became of a check.

use std::time::Duration;

use serde::Serialize;

use crate::Check;

/// How a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum CheckOutcome {
    /// The promise is kept.
    Passed,
    /// The promise is broken, or the check hung.
    Failed,
    /// Not applicable here, or expected to fail.
    Ignored,
}

/// One check that has run.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct CheckResult {
    /// The check: `clause::name`.
    pub name: &'static str,
    /// The clause of the contract, 1 to 16; 0 for the front end over the backend.
    pub clause: u8,
    /// How it ended.
    pub outcome: CheckOutcome,
    /// Why, unless it passed.
    pub reason: Option<String>,
    /// How long it took.
    pub seconds: f64,
}

impl CheckResult {
    pub(crate) fn new(check: &Check, outcome: CheckOutcome, reason: Option<String>, took: Duration) -> Self {
        Self { name: check.name, clause: check.clause, outcome, reason, seconds: took.as_secs_f64() }
    }
}
