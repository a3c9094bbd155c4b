//! The figures of a result by name: one list for tables of data, thresholds and comparisons.

use super::model::{ScenarioResult, ScenarioResults};
use crate::stats::Estimate;

/// Whether more or less of a figure is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Better {
    Less,
    More,
    /// It says something about the machine or the floor.
    Neither,
}

/// A figure: its name, and where it stands in a result.
pub(super) struct Figure {
    pub(super) name: &'static str,
    pub(super) of: fn(&ScenarioResult) -> Option<Estimate>,
}

/// All figures, in the order in which they are shown.
pub(super) const FIGURES: [Figure; 23] = [
    Figure { name: "p50_us", of: |result| result.p50_us },
    Figure { name: "p99_us", of: |result| result.p99_us },
    Figure { name: "per_second", of: |result| result.per_second },
    Figure { name: "floor_p50_us", of: |result| exact(result.floor.map(|floor| floor.p50_us)) },
    Figure { name: "floor_per_second", of: |result| exact(result.floor.map(|floor| floor.per_second)) },
    Figure { name: "floor_ratio", of: |result| result.floor_ratio },
    Figure { name: "aa_ratio", of: |result| result.aa_ratio },
    Figure { name: "jain", of: |result| exact(result.jain) },
    Figure { name: "max_wait_ms", of: |result| exact(result.max_wait_ms) },
    Figure { name: "mean_round_ms", of: |result| exact(result.mean_round_ms) },
    Figure { name: "server_commands_per_second", of: |result| exact(result.server_commands_per_second) },
    Figure { name: "housekeeping_per_second", of: |result| exact(result.housekeeping_per_second) },
    Figure { name: "cpu_ns", of: |result| result.cpu_ns },
    Figure { name: "overlaps", of: |result| exact(result.missing.is_none().then_some(f64_of(result.overlaps))) },
    Figure { name: "renewals_per_second", of: |result| exact(result.hold_cost.map(|cost| cost.renewals_per_second)) },
    Figure { name: "client_cpu", of: |result| exact(result.hold_cost.map(|cost| cost.client_cpu)) },
    Figure { name: "bytes_per_lock", of: |result| exact(result.hold_cost.map(|cost| cost.bytes_per_lock)) },
    Figure { name: "missed_deadlines", of: |result| exact(result.hold_cost.map(|cost| f64_of(cost.missed_deadlines))) },
    Figure { name: "takeover_seconds", of: |result| result.takeover.as_ref().map(|takeover| takeover.seconds) },
    Figure { name: "takeover_over_bound", of: over_bound },
    Figure { name: "gap_seconds", of: |result| exact(result.failover.as_ref().map(|failover| failover.gap_seconds)) },
    Figure {
        name: "held_connections",
        of: |result| exact(result.connections.as_ref().map(|found| f64_of(found.held_connections))),
    },
    Figure {
        name: "waited_connections",
        of: |result| exact(result.connections.as_ref().map(|found| f64_of(found.waited_connections))),
    },
];

impl Figure {
    /// The figure of this name.
    pub(super) fn named(name: &str) -> Option<&'static Self> {
        FIGURES.iter().find(|figure| figure.name == name)
    }

    /// What is better in this scenario.
    pub(super) fn better(&self, scenario: &ScenarioResults) -> Better {
        match (self.name, scenario.id.as_str()) {
            // The ratio is of times there, of rates everywhere else.
            ("floor_ratio", "uncontended" | "handoff" | "open_loop") => Better::Less,
            ("floor_ratio" | "per_second" | "jain", _) => Better::More,
            ("floor_p50_us" | "floor_per_second" | "aa_ratio" | "renewals_per_second", _) => Better::Neither,
            _ => Better::Less,
        }
    }
}

/// What the next holder waited, over what is promised: at most 1.
fn over_bound(result: &ScenarioResult) -> Option<Estimate> {
    let takeover = result.takeover.as_ref().filter(|takeover| takeover.bound_seconds > 0.0)?;
    let share = |seconds: f64| crate::stats::round(seconds / takeover.bound_seconds);
    let Estimate { est, lo, hi } = takeover.seconds;
    Some(Estimate::new(share(est), share(lo), share(hi)))
}

fn exact(value: Option<f64>) -> Option<Estimate> {
    value.map(|value| Estimate::new(value, value, value))
}

#[expect(clippy::cast_precision_loss, reason = "a count of what should be none")]
const fn f64_of(count: u64) -> f64 {
    count as f64
}
