//! Reports for unit tests, with known figures.

use std::collections::BTreeMap;

use super::model::{Backend, Parameters, Report, ScenarioResult, ScenarioResults, Tool};
use crate::environment::Environment;
use crate::stats::Estimate;

/// Redis with a hand-off of this p50 and contended runs of this rate, each with an interval of 5 % to both sides.
pub(super) fn report(p50_us: f64, per_second: f64) -> Report {
    let spread = |value: f64| Some(Estimate::new(value, value * 0.95, value * 1.05));
    let result = |p50_us, per_second| ScenarioResult {
        backend: "redis".to_owned(),
        trials: 5,
        p50_us,
        per_second,
        ..ScenarioResult::default()
    };
    let contended = |clients| scenario("contended", 8, clients, result(None, spread(per_second)));
    Report {
        schema: 1,
        tool: Tool::default(),
        command: String::new(),
        seed: 1,
        suite: "quick".to_owned(),
        cancelled: false,
        env: Environment::default(),
        backends: Vec::new(),
        skipped: Vec::new(),
        conformance: Vec::new(),
        scenarios: vec![
            scenario("handoff", 2, "own", result(spread(p50_us), None)),
            contended("own"),
            contended("one"),
        ],
    }
}

/// A backend of this id and kind that states nothing.
pub(super) fn backend(id: &str) -> Backend {
    Backend {
        id: id.to_owned(),
        kind: id.to_owned(),
        mode: "single".to_owned(),
        version: String::new(),
        topology: String::new(),
        settings: BTreeMap::new(),
        capabilities: BTreeMap::new(),
        round_trip_us: None,
        notes: Vec::new(),
    }
}

fn scenario(id: &str, contenders: u64, clients: &str, result: ScenarioResult) -> ScenarioResults {
    let (clients, name, machine) = (clients.to_owned(), "same".to_owned(), "idle".to_owned());
    let local_queue = "on".to_owned();
    let parameters =
        Parameters { contenders, clients, name, machine, processes: 1, local_queue, fault: None, rate: None };
    ScenarioResults { id: id.to_owned(), parameters, results: vec![result] }
}
