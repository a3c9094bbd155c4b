//! What is measured, how often and for how long.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::{Clients, Machine, Names, Scenario, Target};

/// How thorough a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Suite {
    /// 5 short trials: minutes. Enough to see what is slow, not to tell 1.05 from 1.15.
    Quick,
    /// 10 longer trials, also with 64 contenders and on a machine that is kept awake.
    Standard,
    /// 20 of the longer trials.
    Full,
}

impl Suite {
    /// The word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Quick => "quick",
            Self::Standard => "standard",
            Self::Full => "full",
        }
    }

    const fn trials(self) -> usize {
        match self {
            Self::Quick => 5,
            Self::Standard => 10,
            Self::Full => 20,
        }
    }
}

impl fmt::Display for Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Suite {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        [Self::Quick, Self::Standard, Self::Full]
            .into_iter()
            .find(|suite| suite.as_str() == word)
            .ok_or_else(|| format!("unknown suite {word:?}: expected quick, standard or full"))
    }
}

/// What a run measures.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Plan {
    /// The suite it came from.
    pub suite: Suite,
    /// Decides the order of everything, and the resamples of the intervals.
    pub seed: u64,
    /// How often everything is measured. Fewer: wider intervals. More: longer.
    pub trials: usize,
    /// The ids of the scenarios wanted; empty: all of the suite.
    pub filter: Vec<String>,
    /// How long one side of a cell is measured in one trial, times the weight of the cell.
    pub slice: Duration,
    /// How long the requests of `waiting_cost` are counted: 15 s, in which every waiter asks again once, so that what is rare
    /// is not missed. Shorter: it may be missed. Longer: steadier.
    pub waiting: Duration,
}

impl Plan {
    /// The plan of a suite.
    #[must_use]
    pub const fn new(suite: Suite, seed: u64) -> Self {
        let slice = match suite {
            Suite::Quick => Duration::from_millis(200),
            Suite::Standard | Suite::Full => Duration::from_millis(600),
        };
        Self { suite, seed, trials: suite.trials(), filter: Vec::new(), slice, waiting: Duration::from_secs(15) }
    }

    /// The plan with so many trials.
    #[must_use]
    pub const fn with_trials(mut self, trials: usize) -> Self {
        self.trials = trials;
        self
    }

    /// The plan with these scenarios only, by id: `uncontended parallel contended handoff waiting_cost noop`.
    #[must_use]
    pub fn only<S: Into<String>>(mut self, ids: impl IntoIterator<Item = S>) -> Self {
        self.filter = ids.into_iter().map(Into::into).collect();
        self
    }

    /// The plan with this time for one side of a cell in one trial.
    #[must_use]
    pub const fn with_slice(mut self, slice: Duration) -> Self {
        self.slice = slice;
        self
    }

    /// The scenarios, in the order of the report.
    #[must_use]
    pub fn scenarios(&self) -> Vec<Scenario> {
        let mut all = vec![Scenario::Noop, Scenario::Uncontended(Names::Same, Machine::Idle)];
        all.push(Scenario::Uncontended(Names::Fresh, Machine::Idle));
        let thorough = self.suite != Suite::Quick;
        if thorough {
            all.push(Scenario::Uncontended(Names::Same, Machine::Awake));
        }
        all.push(Scenario::Parallel(8));
        if thorough {
            all.push(Scenario::Parallel(64));
        }
        all.extend([Scenario::Contended(1, Clients::Own), Scenario::Contended(8, Clients::Own)]);
        if thorough {
            all.push(Scenario::Contended(64, Clients::Own));
        }
        all.extend([Scenario::Contended(8, Clients::One), Scenario::Handoff, Scenario::WaitingCost(50, 1)]);
        all.retain(|scenario| self.filter.is_empty() || self.filter.iter().any(|id| id == scenario.id()));
        all
    }

    /// How long the run takes, conformance not included.
    #[must_use]
    pub fn estimate(&self, targets: &[Target]) -> Duration {
        let trials = u32::try_from(self.trials).unwrap_or(u32::MAX);
        let scenarios = self.scenarios();
        let of = |target: &Target| -> Duration {
            let here = scenarios.iter().filter(|scenario| target.runs(**scenario) && !scenario.mostly_waits());
            here.map(|scenario| self.time_of(*scenario, target.has_server()) * trials).sum()
        };
        let once = scenarios.iter().any(|scenario| scenario.mostly_waits()) && targets.iter().any(Target::has_server);
        // What is counted is counted on all servers at once.
        targets.iter().map(of).sum::<Duration>()
            + if once { self.waiting + Duration::from_secs(3) } else { Duration::ZERO }
    }

    /// How long one side is measured in one trial.
    pub(crate) fn slice_of(&self, scenario: Scenario) -> Duration {
        match scenario {
            Scenario::Contended(1, _) => self.slice / 2,
            Scenario::Contended(64, _) | Scenario::Handoff => self.slice * 3 / 2,
            Scenario::Contended(8, Clients::Own) => self.slice * 2,
            _ => self.slice,
        }
    }

    /// How long one cell takes in one trial, with opening its clients.
    fn time_of(&self, scenario: Scenario, has_floor: bool) -> Duration {
        let sides = match (scenario, has_floor) {
            (Scenario::Noop, _) | (_, false) | (Scenario::Contended(_, Clients::One), _) => 1,
            (Scenario::Uncontended(Names::Same, _), _) => 3,
            _ => 2,
        };
        let opening = Duration::from_millis(if has_floor { 80 } else { 5 });
        self.slice_of(scenario) * sides + opening
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_keeps_what_it_names() {
        let plan = Plan::new(Suite::Quick, 1).only(["handoff", "uncontended"]);
        let ids: Vec<_> = plan.scenarios().iter().map(|s| s.id()).collect();
        assert_eq!(ids, ["uncontended", "uncontended", "handoff"]);
        assert!(Plan::new(Suite::Standard, 1).scenarios().contains(&Scenario::Contended(64, Clients::Own)));
        assert!(!Plan::new(Suite::Quick, 1).scenarios().iter().any(|s| s.contenders() == 64));
    }

    #[test]
    fn suites_read_back() {
        for suite in [Suite::Quick, Suite::Standard, Suite::Full] {
            assert_eq!(suite.to_string().parse::<Suite>(), Ok(suite));
        }
        assert!("fast".parse::<Suite>().expect_err("no suite").contains("quick"));
    }
}
