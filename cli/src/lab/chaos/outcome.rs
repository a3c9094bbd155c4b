//! What came of a run.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use lockyard_conformance::history::{FaultKind, History, Verdict, Violation, What};

use super::plan::Shape;

/// The counts of a run, and what is wrong.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) took: Duration,
    pub(super) operations: usize,
    grants: usize,
    lost: usize,
    refused: usize,
    faults: BTreeMap<FaultKind, usize>,
    verdict: Verdict,
    /// How long the slowest client took for a name with all faults off.
    pub(super) recovered: Duration,
    /// Names that a client did not get again.
    pub(super) stuck: Vec<String>,
    /// What was never answered.
    pub(super) hangs: Vec<String>,
    /// What is on the server when all clients are gone.
    pub(super) left: Vec<String>,
    /// Faults that could not be made: no violation, but less of a test.
    pub(super) not_made: Vec<String>,
}

impl Outcome {
    /// What a history shows.
    pub(super) fn of(history: &History) -> Self {
        let count = |wanted: fn(&What) -> bool| history.events.iter().filter(|event| wanted(&event.what)).count();
        let mut faults = BTreeMap::new();
        for fault in &history.faults {
            *faults.entry(fault.fault).or_default() += 1;
        }
        Self {
            operations: count(|what| matches!(what, What::Acquire | What::Release)),
            grants: count(|what| matches!(what, What::Granted { .. })),
            lost: count(|what| matches!(what, What::Lost { .. })),
            refused: count(|what| matches!(what, What::Stale)),
            faults,
            verdict: history.check(),
            ..Self::default()
        }
    }

    /// Whether a promise was broken.
    pub(super) fn failed(&self) -> bool {
        let wrong = self.verdict.violations.len() + self.stuck.len() + self.hangs.len() + self.left.len();
        wrong > 0
    }

    /// The lines about a run.
    pub(super) fn text(&self, id: &str, shape: &Shape) -> String {
        let word = if self.failed() { "FAIL" } else { "PASS" };
        let mut text = format!("{word} [{:.1}s] {id} seed {}: {}", self.took.as_secs_f64(), shape.seed, self.counts());
        let (stuck, hangs, left) = (self.stuck.len(), self.hangs.len(), self.left.len());
        // Writing to a string does not fail.
        let _ = write!(
            text,
            "\n    recovered within {:?}; {stuck} stuck names, {hangs} hangs, {left} claims left behind",
            self.recovered
        );
        self.add_details(&mut text);
        text
    }

    /// The lines about a history of which nothing else is known.
    pub(super) fn verdict_text(&self, backend: &str) -> String {
        let word = if self.failed() { "FAIL" } else { "PASS" };
        let mut text = format!("{word} {backend}: {}", self.counts());
        self.add_details(&mut text);
        text
    }

    fn counts(&self) -> String {
        let is = |wanted: fn(&Violation) -> bool| self.verdict.violations.iter().filter(|it| wanted(it)).count();
        let faults: usize = self.faults.values().sum();
        let kinds: Vec<_> = self.faults.iter().map(|(kind, count)| format!("{} {count}", kind.as_str())).collect();
        format!(
            "{} operations, {} grants, {} losses, {} late writes refused, {faults} faults{}{}\
             \n    longest gap {:?}; overlaps: {} explained (longest {:?}), {} unexplained; \
             tokens: {} fell, {} excused; {} late writes taken",
            self.operations,
            self.grants,
            self.lost,
            self.refused,
            if kinds.is_empty() { "" } else { ": " },
            kinds.join(", "),
            self.verdict.longest_gap,
            self.verdict.explained.len(),
            self.verdict.longest_overlap(),
            is(|it| matches!(it, Violation::Overlap(_))),
            is(|it| matches!(it, Violation::TokenFell { .. })),
            self.verdict.tokens_excused,
            is(|it| matches!(it, Violation::StaleWrite { .. })),
        )
    }

    fn add_details(&self, text: &mut String) {
        let violations = self.verdict.violations.iter().map(ToString::to_string);
        let others = [&self.stuck, &self.hangs, &self.left, &self.not_made].into_iter().flatten().cloned();
        for line in violations.chain(others) {
            text.push_str("\n    ");
            text.push_str(&line);
        }
    }
}
