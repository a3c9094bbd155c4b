//! What was promised, and whether the figures keep it.

mod wanted;

use super::model::{Report, ScenarioResult, ScenarioResults};
use crate::stats::Estimate;
use wanted::{WANTED, Wanted};

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

/// Where the figure, and where the far end of its interval, may be.
#[derive(Clone, Copy)]
enum Limit {
    AtMost(f64, f64),
    AtLeast(f64, f64),
    /// The figure itself: its interval says how far off it may be, and is no matter of the goal.
    Within(f64, f64),
}

impl Limit {
    /// At most this, and surely so.
    const fn most(limit: f64) -> Self {
        Self::AtMost(limit, limit)
    }

    /// At least this, and surely so.
    const fn least(limit: f64) -> Self {
        Self::AtLeast(limit, limit)
    }

    fn verdict(self, figure: &Estimate) -> Verdict {
        let (keeps, sure, maybe) = match self {
            Self::AtMost(limit, sure) => (figure.est <= limit, figure.hi <= sure, figure.lo <= limit),
            Self::Within(low, high) => {
                let keeps = (low..=high).contains(&figure.est);
                (keeps, keeps, figure.lo <= high && figure.hi >= low)
            }
            Self::AtLeast(limit, sure) => (figure.est >= limit, figure.lo >= sure, figure.hi >= limit),
        };
        match (keeps, sure, maybe) {
            (true, true, _) => Verdict::Reached,
            (true, false, _) => Verdict::ReachedUnsure,
            (false, _, true) => Verdict::MissedUnsure,
            (false, _, false) => Verdict::Missed,
        }
    }
}

impl Report {
    /// The goals with their verdicts, in the order of the scenarios.
    #[must_use]
    pub fn goals(&self) -> Vec<Goal> {
        let scenarios = self.scenarios.iter();
        scenarios.flat_map(|scenario| WANTED.iter().flat_map(|wanted| self.judge(wanted, scenario))).collect()
    }

    fn judge(&self, wanted: &Wanted, scenario: &ScenarioResults) -> Vec<Goal> {
        if !(wanted.of)(scenario) {
            return Vec::new();
        }
        let goal = |result: &ScenarioResult| {
            let limit = self.limit(wanted, &result.backend)?;
            let found = (wanted.figure)(self, scenario, result);
            Some(Goal {
                what: wanted.what.to_owned(),
                backend: result.backend.clone(),
                figure: found.as_ref().map_or_else(|| "–".to_owned(), wanted.show),
                verdict: found.as_ref().map_or(Verdict::NotMeasured, |found| limit.verdict(found)),
            })
        };
        scenario.results.iter().filter_map(goal).collect()
    }

    /// What is asked of a backend, if anything is: nothing is of peers.
    fn limit(&self, wanted: &Wanted, id: &str) -> Option<Limit> {
        match self.ours().find(|backend| backend.id == id) {
            Some(backend) => (wanted.limit)(backend),
            None => wanted.front_end.filter(|_| id == "noop"),
        }
    }
}

/// What tells scenarios of one id apart.
pub(super) fn key(scenario: &ScenarioResults) -> (&str, u64, &str, &str, &str) {
    let parameters = &scenario.parameters;
    (&scenario.id, parameters.contenders, &parameters.clients, &parameters.name, &parameters.machine)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::samples;

    #[test]
    fn a_verdict_knows_the_noise() {
        let limit = Limit::most(1.15);
        assert_eq!(limit.verdict(&Estimate::new(1.1, 1.0, 1.14)), Verdict::Reached);
        assert_eq!(limit.verdict(&Estimate::new(1.1, 1.0, 1.2)), Verdict::ReachedUnsure);
        assert_eq!(limit.verdict(&Estimate::new(1.2, 1.1, 1.3)), Verdict::MissedUnsure);
        assert_eq!(limit.verdict(&Estimate::new(1.3, 1.2, 1.4)), Verdict::Missed);
        assert_eq!(Limit::least(0.8).verdict(&Estimate::new(0.9, 0.85, 1.0)), Verdict::Reached);
        assert_eq!(Limit::least(0.8).verdict(&Estimate::new(0.7, 0.6, 0.75)), Verdict::Missed);
    }

    #[test]
    fn the_far_end_of_an_interval_may_have_a_limit_of_its_own() {
        let limit = Limit::AtMost(1.05, 1.10);
        assert_eq!(limit.verdict(&Estimate::new(1.04, 1.0, 1.09)), Verdict::Reached);
        assert_eq!(limit.verdict(&Estimate::new(1.04, 1.0, 1.2)), Verdict::ReachedUnsure);
        assert_eq!(limit.verdict(&Estimate::new(1.06, 1.0, 1.09)), Verdict::MissedUnsure);
        let limit = Limit::Within(0.97, 1.03);
        assert_eq!(limit.verdict(&Estimate::new(1.0, 0.8, 1.2)), Verdict::Reached);
        assert_eq!(limit.verdict(&Estimate::new(0.9, 0.8, 1.2)), Verdict::MissedUnsure);
        assert_eq!(limit.verdict(&Estimate::new(0.9, 0.8, 0.95)), Verdict::Missed);
    }

    #[test]
    fn nothing_is_asked_of_peers() {
        let mut report = samples::report(300.0, 4000.0);
        report.backends = vec![samples::backend("redis"), samples::backend("peer:other")];
        let asked = report.goals();
        assert!(asked.iter().any(|goal| goal.backend == "redis"), "{asked:?}");
        for scenario in &mut report.scenarios {
            let mut other = scenario.results[0].clone();
            other.backend = "peer:other".to_owned();
            scenario.results.push(other);
        }
        assert_eq!(report.goals(), asked);
    }
}
