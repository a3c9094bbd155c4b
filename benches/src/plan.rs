//! What is measured, how often and for how long.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::{Clients, Fault, Machine, Names, Scenario, Target};

/// How many cycles of `open_loop` are due a second unless told otherwise: what every server can do with ease.
const RATE: u64 = 200;

/// How thorough a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Suite {
    /// 5 short trials: minutes. Enough to see what is slow, not to tell 1.05 from 1.15.
    Quick,
    /// 10 longer trials, also with 64 contenders, clients in several processes, on a machine that is kept awake, and with what
    /// breaks.
    Standard,
    /// 20 of the longer trials, and 10,000 held locks.
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
    /// How long the locks of `hold_cost` are held while their cost is taken: 20 s, in which each is renewed twice. Shorter:
    /// some renewals are missed. Longer: steadier.
    pub holding: Duration,
    /// How many cycles of `open_loop` are due a second; `None`: the suite's choice.
    pub rate: Option<u64>,
    /// Whether hundreds and thousands are a handful: for tests.
    tiny: bool,
}

impl Plan {
    /// The plan of a suite.
    #[must_use]
    pub const fn new(suite: Suite, seed: u64) -> Self {
        let slice = match suite {
            Suite::Quick => Duration::from_millis(160),
            Suite::Standard => Duration::from_millis(350),
            Suite::Full => Duration::from_millis(600),
        };
        Self {
            suite,
            seed,
            trials: suite.trials(),
            filter: Vec::new(),
            slice,
            waiting: Duration::from_secs(15),
            holding: Duration::from_secs(20),
            rate: None,
            tiny: false,
        }
    }

    /// The plan with so many trials.
    #[must_use]
    pub const fn with_trials(mut self, trials: usize) -> Self {
        self.trials = trials;
        self
    }

    /// The plan with these scenarios only, by id, of [`Scenario::IDS`].
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

    /// The plan with so many cycles of `open_loop` a second, in any suite.
    #[must_use]
    pub const fn with_rate(mut self, rate: u64) -> Self {
        self.rate = Some(rate);
        self
    }

    /// The plan with a handful of clients, processes and names instead of hundreds: shows that it works, and no figure.
    #[must_use]
    pub const fn tiny(mut self) -> Self {
        self.tiny = true;
        self
    }

    /// The scenarios, in the order of the report.
    #[must_use]
    pub fn scenarios(&self) -> Vec<Scenario> {
        let thorough = self.suite != Suite::Quick;
        let full = self.suite == Suite::Full;
        let uncontended = |names, machine| Scenario::Uncontended(names, machine);
        let mut all = vec![Scenario::Noop, uncontended(Names::Same, Machine::Idle)];
        let mut add = |wanted: bool, scenarios: &[Scenario]| all.extend(scenarios.iter().filter(|_| wanted).copied());
        add(true, &[uncontended(Names::Fresh, Machine::Idle)]);
        add(thorough, &[uncontended(Names::Same, Machine::Awake)]);
        add(true, &[Scenario::Parallel(8)]);
        add(thorough, &[Scenario::Parallel(64)]);
        add(true, &[Scenario::Contended(1, Clients::Own), Scenario::Contended(8, Clients::Own)]);
        add(thorough, &[Scenario::Contended(64, Clients::Own)]);
        add(thorough, &[Scenario::Contended(64, Clients::Spread(8))]);
        add(true, &[Scenario::Contended(8, Clients::One)]);
        add(thorough, &[Scenario::Contended(8, Clients::Unqueued), Scenario::Contended(8, Clients::Cohort)]);
        add(true, &[Scenario::Handoff]);
        add(thorough || self.rate.is_some(), &[Scenario::OpenLoop(self.rate.unwrap_or(RATE))]);
        add(true, &[Scenario::WaitingCost(50, 1)]);
        add(thorough, &[Scenario::WaitingCost(1000, 20), Scenario::HoldCost(1000)]);
        add(full, &[Scenario::HoldCost(10_000)]);
        add(thorough, &[Scenario::Connections(1000)]);
        add(thorough, &[Fault::Killed, Fault::Frozen, Fault::CutOff].map(Scenario::Takeover));
        add(thorough, &[Scenario::Failover]);
        if self.tiny {
            all.iter_mut().for_each(|scenario| *scenario = scenario.tiny());
        }
        all.retain(|scenario| self.filter.is_empty() || self.filter.iter().any(|id| id == scenario.id()));
        all
    }

    /// How often a scenario is measured.
    pub(crate) fn trials_of(&self, scenario: Scenario) -> usize {
        let trials = self.trials.max(1);
        match scenario {
            Scenario::WaitingCost(..) | Scenario::HoldCost(_) | Scenario::Connections(_) => 1,
            // Each takes a lease: the intervals of fewer trials are wide enough to say so.
            Scenario::Takeover(_) => trials.div_ceil(2),
            Scenario::Failover => trials.div_ceil(4),
            _ => trials,
        }
    }

    /// How long the run takes, conformance not included.
    #[must_use]
    pub fn estimate(&self, targets: &[Target]) -> Duration {
        let mut one_by_one = Duration::ZERO;
        // What mostly waits is measured on all servers at once, on each for one backend after the other.
        let mut lines: BTreeMap<&str, Duration> = BTreeMap::new();
        let scenarios = self.scenarios();
        for target in targets {
            let line = lines.entry(&target.kind).or_default();
            let runs = |scenario: Scenario| target.runs(scenario) && target.refusal(scenario).is_none();
            let ours = scenarios.iter().copied().filter(|scenario| runs(*scenario));
            for scenario in ours.chain(self.of_rivals(target, &scenarios)) {
                let trials = u32::try_from(self.trials_of(scenario)).unwrap_or(u32::MAX);
                let time = self.time_of(scenario, target.has_server()) * trials;
                *if scenario.mostly_waits() { &mut *line } else { &mut one_by_one } += time;
            }
        }
        one_by_one + lines.into_values().max().unwrap_or_default()
    }

    /// What is measured of the peers on the server of a target, once for each of them.
    #[cfg(feature = "peers")]
    fn of_rivals(&self, target: &Target, scenarios: &[Scenario]) -> Vec<Scenario> {
        let peers = if self.suite == Suite::Quick { 0 } else { crate::peer::of(target).count() };
        let theirs = || scenarios.iter().copied().filter(|scenario| crate::peer::Peer::runs(*scenario));
        std::iter::repeat_with(theirs).take(peers).flatten().collect()
    }

    #[cfg(not(feature = "peers"))]
    #[expect(clippy::unused_self, reason = "the other one uses it")]
    const fn of_rivals(&self, _target: &Target, _scenarios: &[Scenario]) -> Vec<Scenario> {
        Vec::new()
    }

    /// How long one side is measured in one trial.
    pub(crate) fn slice_of(&self, scenario: Scenario) -> Duration {
        match scenario {
            Scenario::Contended(1, _) => self.slice / 2,
            Scenario::Contended(64, _) | Scenario::Handoff => self.slice * 3 / 2,
            Scenario::Contended(8, Clients::Own) | Scenario::OpenLoop(_) => self.slice * 2,
            Scenario::WaitingCost(..) => self.waiting,
            Scenario::HoldCost(_) => self.holding,
            _ => self.slice,
        }
    }

    /// How long one cell takes in one trial, with opening its clients.
    fn time_of(&self, scenario: Scenario, has_floor: bool) -> Duration {
        let sides = match (scenario, has_floor) {
            (Scenario::Noop, _) | (_, false) => 1,
            (Scenario::Contended(_, Clients::One | Clients::Unqueued | Clients::Cohort | Clients::Spread(_)), _) => 1,
            (Scenario::Uncontended(Names::Same, _), _) => 3,
            _ if scenario.mostly_waits() => 1,
            _ => 2,
        };
        let seconds = Duration::from_secs;
        let beside = match scenario {
            Scenario::WaitingCost(_, 1) => seconds(3),
            // So many clients are opened, have two turns each, and are timed for longer where these are slow.
            Scenario::Contended(64, _) => seconds(4),
            Scenario::WaitingCost(..) | Scenario::Connections(_) | Scenario::HoldCost(..=1000) => seconds(6),
            Scenario::HoldCost(_) => seconds(25),
            Scenario::Takeover(_) | Scenario::Failover => seconds(4),
            _ => Duration::from_millis(if has_floor { 80 } else { 5 }),
        };
        self.slice_of(scenario) * sides + beside
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
        let quick = Plan::new(Suite::Quick, 1).scenarios();
        assert!(!quick.iter().any(|s| s.contenders() == 64 || s.processes() > 1 || s.fault().is_some()));
        let rated = Plan::new(Suite::Quick, 1).with_rate(50).scenarios();
        assert!(rated.contains(&Scenario::OpenLoop(50)) && rated.len() == quick.len() + 1);
        assert!(Plan::new(Suite::Full, 1).scenarios().contains(&Scenario::HoldCost(10_000)));
    }

    #[test]
    fn suites_read_back() {
        for suite in [Suite::Quick, Suite::Standard, Suite::Full] {
            assert_eq!(suite.to_string().parse::<Suite>(), Ok(suite));
        }
        assert!("fast".parse::<Suite>().expect_err("no suite").contains("quick"));
    }
}
