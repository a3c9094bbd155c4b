//! What was promised, and whether the figures keep it.

use super::model::{Report, ScenarioResult, ScenarioResults};
use super::text;
use crate::stats::Estimate;

/// How a goal came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Verdict {
    /// The figure and its interval keep it.
    Reached,
    /// The figure keeps it, the interval does not: the noise is too large to be sure.
    ReachedUnsure,
    /// The figure misses it, the interval does not: the noise is too large to be sure.
    MissedUnsure,
    /// The figure and its interval miss it.
    Missed,
    /// There is no figure.
    NotMeasured,
}

impl Verdict {
    /// The verdict in words.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Reached => "reached",
            Self::ReachedUnsure => "reached, within the noise",
            Self::MissedUnsure => "not reached, within the noise",
            Self::Missed => "not reached",
            Self::NotMeasured => "not measured",
        }
    }

    /// Whether the figure keeps the goal.
    #[must_use]
    pub const fn is_reached(self) -> bool {
        matches!(self, Self::Reached | Self::ReachedUnsure)
    }
}

/// A goal of one backend.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Goal {
    /// What is wanted, with the limit.
    pub what: String,
    /// The backend; `noop` for the front end itself.
    pub backend: String,
    /// The figure as text, or `–`.
    pub figure: String,
    /// How it came out.
    pub verdict: Verdict,
}

/// Which side of the limit is good.
#[derive(Clone, Copy)]
enum Limit {
    AtMost(f64),
    AtLeast(f64),
}

impl Limit {
    fn verdict(self, figure: &Estimate) -> Verdict {
        let keeps = |value: f64| match self {
            Self::AtMost(limit) => value <= limit,
            Self::AtLeast(limit) => value >= limit,
        };
        match (keeps(figure.est), keeps(figure.lo) && keeps(figure.hi), keeps(figure.lo) || keeps(figure.hi)) {
            (true, true, _) => Verdict::Reached,
            (true, false, _) => Verdict::ReachedUnsure,
            (false, _, true) => Verdict::MissedUnsure,
            (false, _, false) => Verdict::Missed,
        }
    }
}

type Figure = fn(&ScenarioResult) -> Option<Estimate>;
type Show = fn(&Estimate) -> String;

impl Report {
    /// The goals with their verdicts, in the order of the scenarios.
    #[must_use]
    pub fn goals(&self) -> Vec<Goal> {
        let mut goals = Vec::new();
        let nanos: Show = |cpu| format!("{} ns", text::spread(cpu));
        let share: Show = |jain| format!("{:.3}", jain.est);
        let rate: Show = |rate| format!("{:.1}/s", rate.est);
        let ratio: Figure = |result| result.floor_ratio;
        for scenario in &self.scenarios {
            let mut add = |what: &str, limit, figure, show| goals.extend(self.of(scenario, what, limit, figure, show));
            match key(scenario) {
                ("noop", ..) => {
                    add("front end ≤ 1 µs of processor time a cycle", Limit::AtMost(1000.0), |r| r.cpu_ns, nanos);
                }
                ("uncontended", _, _, "same", "idle") => {
                    add("uncontended p50 ≤ 1.15 × floor", Limit::AtMost(1.15), ratio, text::ratio);
                }
                ("handoff", ..) => add("hand-off p50 ≤ 1.3 × floor", Limit::AtMost(1.3), ratio, text::ratio),
                ("contended", 8, "own", ..) => {
                    add("hand-overs ≥ 0.8 × floor (etcd 1.2), 8 contenders", Limit::AtLeast(0.8), ratio, text::ratio);
                    add("fairness ≥ 0.99, 8 contenders", Limit::AtLeast(0.99), |r| r.jain.map(exact), share);
                }
                ("waiting_cost", 50, ..) => {
                    let figure: Figure = |result| result.server_commands_per_second.map(exact);
                    add("fewer than 5 requests/s for 50 waiters", Limit::AtMost(5.0), figure, rate);
                }
                _ => {}
            }
        }
        goals
    }

    fn of(&self, scenario: &ScenarioResults, what: &str, limit: Limit, figure: Figure, show: Show) -> Vec<Goal> {
        let wanted = scenario.results.iter().filter(|result| self.is_asked(&result.backend, what));
        let goal = |result: &ScenarioResult| {
            let limit = match limit {
                Limit::AtLeast(_) if result.backend == "etcd" && what.contains("etcd 1.2") => Limit::AtLeast(1.2),
                other => other,
            };
            let found = figure(result);
            Goal {
                what: what.to_owned(),
                backend: result.backend.clone(),
                figure: found.as_ref().map_or_else(|| "–".to_owned(), show),
                verdict: found.as_ref().map_or(Verdict::NotMeasured, |found| limit.verdict(found)),
            }
        };
        wanted.map(goal).collect()
    }

    /// Ratios are asked of backends with a server, fairness of those that promise an order.
    fn is_asked(&self, id: &str, what: &str) -> bool {
        let Some(backend) = self.backends.iter().find(|backend| backend.id == id) else { return id == "noop" };
        if backend.is_peer() {
            return false;
        }
        if what.starts_with("fairness") {
            return backend.capabilities.get("queue").is_some_and(|queue| queue == "fifo");
        }
        !matches!(backend.kind.as_str(), "memory" | "file")
    }
}

/// What tells scenarios of one id apart.
pub(super) fn key(scenario: &ScenarioResults) -> (&str, u64, &str, &str, &str) {
    let parameters = &scenario.parameters;
    (&scenario.id, parameters.contenders, &parameters.clients, &parameters.name, &parameters.machine)
}

const fn exact(value: f64) -> Estimate {
    Estimate::new(value, value, value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_knows_the_noise() {
        let limit = Limit::AtMost(1.15);
        assert_eq!(limit.verdict(&Estimate::new(1.1, 1.0, 1.14)), Verdict::Reached);
        assert_eq!(limit.verdict(&Estimate::new(1.1, 1.0, 1.2)), Verdict::ReachedUnsure);
        assert_eq!(limit.verdict(&Estimate::new(1.2, 1.1, 1.3)), Verdict::MissedUnsure);
        assert_eq!(limit.verdict(&Estimate::new(1.3, 1.2, 1.4)), Verdict::Missed);
        assert_eq!(Limit::AtLeast(0.8).verdict(&Estimate::new(0.9, 0.85, 1.0)), Verdict::Reached);
        assert_eq!(Limit::AtLeast(0.8).verdict(&Estimate::new(0.7, 0.6, 0.75)), Verdict::Missed);
    }
}
