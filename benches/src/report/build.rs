//! From trials to estimates.

use std::cmp::Ordering;

use super::findings::{Failover, Takeover};
use super::model::{Beside, FloorFigures, Parameters, Report, ScenarioResult, ScenarioResults, Skipped, Tool};
use crate::measure::{Crash, Found, Sample, Trial};
use crate::run::{Cell, Measured};
use crate::stats::{Estimate, median, round, variation};
use crate::{Plan, Scenario};

impl Report {
    /// The report of a run. Conformance, and what could not even be started, are added by whoever knows them.
    #[must_use]
    pub fn new(tool: Tool, command: &str, plan: &Plan, measured: &Measured) -> Self {
        let skipped = measured.unreachable.iter().map(|(id, reason)| Skipped::new(id, reason, "")).collect();
        Self {
            schema: 1,
            tool,
            command: command.to_owned(),
            seed: measured.seed,
            suite: plan.suite.to_string(),
            cancelled: measured.cancelled,
            env: measured.env.clone(),
            backends: measured.backends.clone(),
            skipped,
            conformance: Vec::new(),
            scenarios: scenarios(measured),
        }
    }

    /// Reads a report back.
    ///
    /// # Errors
    /// When it is no report of this schema.
    pub fn from_json(json: &str) -> Result<Self, serde_json::Error> {
        let report: Self = serde_json::from_str(json)?;
        if report.schema == 1 {
            return Ok(report);
        }
        Err(serde::de::Error::custom(format!(
            "schema {} of the report is unknown: this program reads 1",
            report.schema
        )))
    }

    /// The report as JSON, indented, with a line end. The same report gives the same bytes.
    #[must_use]
    pub fn to_json(&self) -> String {
        // Nothing in it can fail to be written: the keys are text and the numbers finite.
        let mut json = serde_json::to_string_pretty(self).unwrap_or_default();
        json.push('\n');
        json
    }
}

fn scenarios(measured: &Measured) -> Vec<ScenarioResults> {
    let mut all: Vec<(Scenario, ScenarioResults)> = Vec::new();
    for cell in &measured.cells {
        let result = result(cell, measured.seed);
        match all.iter_mut().find(|(scenario, _)| *scenario == cell.scenario) {
            Some((_, scenario)) => scenario.results.push(result),
            None => all.push((cell.scenario, empty(cell.scenario, result))),
        }
    }
    all.into_iter().map(|(_, results)| results).collect()
}

fn empty(scenario: Scenario, first: ScenarioResult) -> ScenarioResults {
    let parameters = Parameters {
        contenders: scenario.contenders() as u64,
        clients: scenario.clients().to_owned(),
        name: scenario.name().to_owned(),
        machine: scenario.machine().to_owned(),
        processes: scenario.processes() as u64,
        local_queue: scenario.local_queue().to_owned(),
        fault: scenario.fault().map(str::to_owned),
        rate: scenario.rate(),
    };
    ScenarioResults { id: scenario.id().to_owned(), parameters, results: vec![first] }
}

fn result(cell: &Cell, seed: u64) -> ScenarioResult {
    let mut result = ScenarioResult {
        backend: cell.backend.clone(),
        trials: cell.trials.len() as u64,
        missing: missing(cell),
        ..ScenarioResult::default()
    };
    let trials = Trials { trials: &cell.trials, seed };
    let requests = trials.values(|trial| trial.ours.requests.map(|requests| requests.work));
    if let Some(work) = median(&requests) {
        let kept = trials.values(|trial| trial.ours.requests.map(|requests| requests.housekeeping));
        result.server_commands_per_second = Some(round(work));
        result.housekeeping_per_second = median(&kept).map(round);
        return result;
    }
    if let Some(first) = cell.trials.iter().find_map(|trial| trial.found.as_ref()) {
        trials.find(cell.scenario, first, &mut result);
        return result;
    }
    if cell.trials.is_empty() {
        return result;
    }
    let headline = headline(cell.scenario);
    result.p50_us = trials.estimate(|trial| Some(trial.ours.p50_us));
    result.p99_us = trials.estimate(|trial| Some(trial.ours.p99_us));
    result.p90_us = median(&trials.values(|trial| Some(trial.ours.tail_us?.0))).map(round);
    result.p999_us = median(&trials.values(|trial| Some(trial.ours.tail_us?.1))).map(round);
    result.per_second = trials.estimate(|trial| Some(trial.ours.per_second));
    result.cpu_ns = trials.estimate(|trial| trial.ours.cpu_ns);
    result.floor = trials.floor();
    result.floor_ratio = trials.estimate(|trial| ratio(headline(&trial.ours), headline(trial.floor.as_ref()?)));
    result.aa_ratio = trials.estimate(|trial| ratio(headline(trial.again.as_ref()?), headline(trial.floor.as_ref()?)));
    result.jain = median(&trials.values(|trial| trial.ours.jain)).map(round);
    result.max_wait_ms = trials.values(|trial| trial.ours.max_wait_ms).into_iter().reduce(f64::max).map(round);
    result.mean_round_ms = median(&trials.values(|trial| trial.ours.mean_round_ms)).map(round);
    result.variation = variation(&trials.values(|trial| Some(headline(&trial.ours)))).map(round);
    result.overlaps = cell.trials.iter().map(|trial| trial.ours.overlaps).sum();
    result.beside = trials.beside();
    result
}

/// The figure that is compared with the floor.
const fn headline(scenario: Scenario) -> fn(&Sample) -> f64 {
    if scenario.is_throughput() { |sample| sample.per_second } else { |sample| sample.p50_us }
}

fn ratio(ours: f64, theirs: f64) -> Option<f64> {
    (theirs > 0.0).then(|| ours / theirs)
}

fn missing(cell: &Cell) -> Option<String> {
    if let Some(refusal) = &cell.refusal {
        return Some(refusal.clone());
    }
    let reason = cell.troubles.last().cloned();
    match (&reason, cell.trials.is_empty()) {
        (None, true) => Some("not measured: the run was ended".to_owned()),
        (None, false) => cell.no_floor.clone(),
        (Some(_), _) => reason,
    }
}

/// The trials of a cell.
struct Trials<'a> {
    trials: &'a [Trial],
    seed: u64,
}

impl Trials<'_> {
    fn values(&self, of: impl Fn(&Trial) -> Option<f64>) -> Vec<f64> {
        self.trials.iter().filter_map(of).collect()
    }

    fn estimate(&self, of: impl Fn(&Trial) -> Option<f64>) -> Option<Estimate> {
        Estimate::over_trials(&self.values(of), self.seed)
    }

    /// What is neither a latency nor a rate, where `first` is what the first trial found.
    fn find(&self, scenario: Scenario, first: &Found, result: &mut ScenarioResult) {
        match first {
            Found::HoldCost(cost) => result.hold_cost = Some(*cost),
            Found::Connections(connections) => result.connections = Some(connections.clone()),
            Found::Takeover { .. } => {
                let takeover = |trial: &Trial| match trial.found {
                    Some(Found::Takeover { seconds, bound_seconds }) => Some((seconds, bound_seconds)),
                    _ => None,
                };
                let seconds = self.estimate(|trial| takeover(trial).map(|(seconds, _)| seconds));
                let bound = self.values(|trial| takeover(trial).map(|(_, bound)| bound)).into_iter().reduce(f64::min);
                let fault = scenario.fault().unwrap_or_default().to_owned();
                result.takeover =
                    seconds.zip(bound).map(|(seconds, bound)| Takeover { fault, seconds, bound_seconds: round(bound) });
            }
            Found::Failover(_) => result.failover = self.failover(scenario),
        }
    }

    fn failover(&self, scenario: Scenario) -> Option<Failover> {
        let crashes = self.trials.iter().filter_map(|trial| match trial.found {
            Some(Found::Failover(crash)) => Some(crash),
            _ => None,
        });
        let crashes: Vec<Crash> = crashes.collect();
        let gap = crashes.iter().map(|crash| crash.gap_seconds).reduce(f64::max)?;
        let tokens = match crashes.iter().filter_map(|crash| crash.tokens).min() {
            Some(Ordering::Greater) => "rise",
            Some(_) => "fall",
            None => "none",
        };
        Some(Failover {
            fault: scenario.fault().unwrap_or_default().to_owned(),
            gap_seconds: round(gap),
            overlap: crashes.iter().any(|crash| crash.overlap),
            kept: crashes.iter().all(|crash| crash.kept),
            tokens: tokens.to_owned(),
        })
    }

    fn floor(&self) -> Option<FloorFigures> {
        let p50_us = median(&self.values(|trial| Some(trial.floor.as_ref()?.p50_us)))?;
        let per_second = median(&self.values(|trial| Some(trial.floor.as_ref()?.per_second)))?;
        Some(FloorFigures { p50_us: round(p50_us), per_second: round(per_second) })
    }

    fn beside(&self) -> Vec<Beside> {
        let Some((what, _)) = self.trials.iter().find_map(|trial| trial.beside) else { return Vec::new() };
        let p50 = |trial: &Trial| Some(trial.beside.as_ref()?.1.p50_us);
        let ratio = self.estimate(|trial| ratio(trial.ours.p50_us, p50(trial)?));
        let found = ratio.zip(median(&self.values(p50)));
        found.map(|(ratio, p50)| Beside { what: what.to_owned(), p50_us: round(p50), ratio }).into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(p50_us: f64, per_second: f64) -> Sample {
        Sample { p50_us, p99_us: 2.0 * p50_us, per_second, ..Sample::default() }
    }

    fn cell(scenario: Scenario) -> Cell {
        // A machine that gets slower from trial to trial: each ratio is exact all the same.
        let trials = (1..=5).map(|trial| {
            let slow = f64::from(trial);
            let floor = sample(100.0 * slow, 1000.0 / slow);
            Trial {
                ours: sample(110.0 * slow, 900.0 / slow),
                floor: Some(floor),
                again: Some(floor),
                beside: Some(("plain", sample(55.0 * slow, 1.0))),
                found: None,
                recordings: Vec::new(),
            }
        });
        let backend = "redis".to_owned();
        Cell { scenario, backend, trials: trials.collect(), troubles: Vec::new(), no_floor: None, refusal: None }
    }

    #[test]
    fn ratios_are_paired_by_trial() {
        let latency = result(&cell(Scenario::Handoff), 1);
        assert_eq!(latency.floor_ratio, Some(Estimate::new(1.1, 1.1, 1.1)));
        assert_eq!(latency.aa_ratio, Some(Estimate::new(1.0, 1.0, 1.0)));
        assert_eq!(latency.p50_us.map(|p50| p50.est), Some(330.0));
        assert_eq!(latency.beside[0].ratio.est, 2.0);
        let throughput = result(&cell(Scenario::Parallel(8)), 1);
        assert_eq!(throughput.floor_ratio, Some(Estimate::new(0.9, 0.9, 0.9)));
        assert_eq!(throughput.floor.map(|floor| floor.p50_us), Some(300.0));
    }

    fn cell_of(scenario: Scenario, found: impl IntoIterator<Item = Found>) -> Cell {
        let trial = |found| Trial { found: Some(found), ..Trial::alone(Sample::default()) };
        Cell { trials: found.into_iter().map(trial).collect(), ..cell(scenario) }
    }

    #[test]
    fn the_worst_crash_decides() {
        let crash = |gap_seconds, tokens| Crash { gap_seconds, overlap: false, kept: true, tokens: Some(tokens) };
        let good = [crash(0.5, Ordering::Greater), crash(0.25, Ordering::Greater)];
        let found = |crashes: &[Crash]| {
            let cell = cell_of(Scenario::Failover, crashes.iter().copied().map(Found::Failover));
            result(&cell, 1).failover.expect("found")
        };
        let all = found(&good);
        assert_eq!((all.gap_seconds, all.overlap, all.kept, all.tokens.as_str()), (0.5, false, true, "rise"));
        let bad = Crash { gap_seconds: 0.1, overlap: true, kept: false, tokens: Some(Ordering::Equal) };
        let all = found(&[good[0], bad]);
        assert_eq!((all.overlap, all.kept, all.tokens.as_str()), (true, false, "fall"));
        assert_eq!(found(&[Crash { tokens: None, ..bad }]).tokens, "none");
    }

    #[test]
    fn takeovers_are_estimated_against_the_smallest_bound() {
        let takeover = |seconds, bound_seconds| Found::Takeover { seconds, bound_seconds };
        let cell = cell_of(Scenario::Takeover(crate::Fault::Frozen), [takeover(1.5, 2.5), takeover(1.5, 2.4)]);
        let result = result(&cell, 1);
        let found = result.takeover.expect("found");
        assert_eq!(
            (found.fault.as_str(), found.seconds, found.bound_seconds),
            ("frozen", Estimate::new(1.5, 1.5, 1.5), 2.4)
        );
        assert_eq!((result.p50_us, result.trials), (None, 2), "no latency that nobody measured");
    }

    #[test]
    fn a_cell_without_trials_says_why() {
        let mut cell = cell(Scenario::Handoff);
        cell.trials.clear();
        assert!(result(&cell, 1).missing.expect("a reason").contains("ended"));
        cell.troubles.push("no answer".to_owned());
        let result = result(&cell, 1);
        assert_eq!((result.missing.as_deref(), result.p50_us, result.floor_ratio), (Some("no answer"), None, None));
    }
}
