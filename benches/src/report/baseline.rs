//! What changed from one report to another.

use super::figures::{Better, FIGURES};
use super::model::{Report, ScenarioResult, ScenarioResults};
use crate::stats::Estimate;

/// Which way a figure went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Direction {
    /// The intervals do not meet, for the better.
    Better,
    /// The intervals do not meet, for the worse.
    Worse,
}

impl Direction {
    /// The direction in words.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
        }
    }
}

/// A figure that is not what it was.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Change {
    /// The scenario with its parameters.
    pub scenario: String,
    /// The backend.
    pub backend: String,
    /// The figure, as in the data.
    pub figure: &'static str,
    /// What it was.
    pub before: Estimate,
    /// What it is.
    pub after: Estimate,
    /// Which way it went.
    pub direction: Direction,
}

/// Two reports side by side.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Comparison {
    /// What changed: the 95 % intervals of the two do not meet.
    pub changes: Vec<Change>,
    /// How many figures with an interval both have whose intervals meet.
    pub unchanged: usize,
    /// Why the two should not be compared; empty when nothing speaks against it.
    pub doubts: Vec<String>,
}

impl Report {
    /// Compares this report with an earlier one: the figures that both have, with an interval, of which more or less is better.
    #[must_use]
    pub fn since(&self, before: &Self) -> Comparison {
        let mut comparison = Comparison { changes: Vec::new(), unchanged: 0, doubts: self.doubts(before) };
        for scenario in &self.scenarios {
            let is_same = |other: &&ScenarioResults| other.id == scenario.id && other.parameters == scenario.parameters;
            let Some(old) = before.scenarios.iter().find(is_same) else { continue };
            for result in &scenario.results {
                if let Some(old) = old.results.iter().find(|old| old.backend == result.backend) {
                    comparison.compare(scenario, old, result);
                }
            }
        }
        comparison
    }

    fn doubts(&self, before: &Self) -> Vec<String> {
        let mut doubts = Vec::new();
        let mut differ = |what: &str, now: &str, then: &str| {
            if now != then {
                doubts.push(format!("{what}: {now:?} now, {then:?} then"));
            }
        };
        differ("the processor", &self.env.cpu, &before.env.cpu);
        differ("the number of processors", &self.env.cores.to_string(), &before.env.cores.to_string());
        differ("the kernel", &self.env.kernel, &before.env.kernel);
        differ("the build", &self.env.profile, &before.env.profile);
        for backend in &self.backends {
            if let Some(old) = before.backends.iter().find(|old| old.id == backend.id) {
                differ(&format!("the version of {}", backend.id), &backend.version, &old.version);
            }
        }
        doubts
    }
}

impl Comparison {
    fn compare(&mut self, scenario: &ScenarioResults, old: &ScenarioResult, new: &ScenarioResult) {
        for figure in &FIGURES {
            let better = figure.better(scenario);
            let (Some(before), Some(after)) = ((figure.of)(old), (figure.of)(new)) else { continue };
            // Without an interval there is no telling a change from noise.
            if better == Better::Neither || before.lo >= before.hi || after.lo >= after.hi {
                continue;
            }
            let direction = match (after.hi < before.lo, after.lo > before.hi, better) {
                (true, _, Better::Less) | (_, true, Better::More) => Direction::Better,
                (true, _, _) | (_, true, _) => Direction::Worse,
                _ => {
                    self.unchanged += 1;
                    continue;
                }
            };
            self.changes.push(Change {
                scenario: format!("{} ({})", scenario.id, super::threshold::parameters(&scenario.parameters)),
                backend: new.backend.clone(),
                figure: figure.name,
                before,
                after,
                direction,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples;
    use super::*;

    #[test]
    fn only_what_the_intervals_tell_apart_has_changed() {
        let before = samples::report(200.0, 5000.0);
        let same = samples::report(205.0, 5100.0).since(&before);
        assert_eq!((same.changes.len(), same.unchanged, same.doubts.len()), (0, 3, 0));
        let changed = samples::report(250.0, 8000.0).since(&before);
        let found: Vec<_> = changed.changes.iter().map(|change| (change.figure, change.direction)).collect();
        let expected =
            [("p50_us", Direction::Worse), ("per_second", Direction::Better), ("per_second", Direction::Better)];
        assert_eq!((found.as_slice(), changed.unchanged), (expected.as_slice(), 0));
        assert_eq!(changed.changes[0].backend, "redis");
        assert!(changed.changes[0].scenario.starts_with("handoff (contenders=2"));
    }

    #[test]
    fn another_machine_is_a_doubt() {
        let mut before = samples::report(200.0, 5000.0);
        before.env.cpu = "another".to_owned();
        let comparison = samples::report(200.0, 5000.0).since(&before);
        assert_eq!(comparison.doubts, ["the processor: \"\" now, \"another\" then"]);
    }
}
