//! Limits that a comparison has to keep, for pipelines that should fail.

use std::fmt;
use std::str::FromStr;

use super::figures::{FIGURES, Figure};
use super::model::{Parameters, Report, ScenarioResults};
use super::text;
use crate::Scenario;

/// A limit of one figure: `BACKEND.SCENARIO.FIGURE<LIMIT`, such as `redis.handoff.p99_us<5000`.
///
/// The comparison is `<`, `<=`, `>` or `>=`, of the estimate (the median over the trials). A scenario that was measured with several
/// parameters keeps it with each of them, unless some are named: `redis.contended[contenders=8,clients=own].per_second>=2000`. The
/// figures are those of the report's data, in their units: `p50_us`, `p99_us`, `per_second`, `floor_ratio`, `jain`, `max_wait_ms`, ….
///
/// ```
/// use lockyard_benches::report::Threshold;
/// let threshold: Threshold = "etcd.uncontended.floor_ratio<=1.15".parse().expect("a threshold");
/// assert_eq!(threshold.to_string(), "etcd.uncontended.floor_ratio<=1.15");
/// assert!("etcd.uncontended.speed<1".parse::<Threshold>().expect_err("no such figure").contains("p50_us"));
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Threshold {
    text: String,
    backend: String,
    scenario: String,
    parameters: Parts,
    figure: &'static str,
    comparison: Comparison,
    limit: f64,
}

/// Parameters by name.
type Parts = Vec<(String, String)>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Less,
    AtMost,
    More,
    AtLeast,
}

impl Comparison {
    /// The longer sign first: `<` begins both.
    const SIGNS: [(&'static str, Self); 4] =
        [("<=", Self::AtMost), (">=", Self::AtLeast), ("<", Self::Less), (">", Self::More)];

    fn holds(self, value: f64, limit: f64) -> bool {
        match self {
            Self::Less => value < limit,
            Self::AtMost => value <= limit,
            Self::More => value > limit,
            Self::AtLeast => value >= limit,
        }
    }
}

/// The parameters that can be named, with their values.
const PARAMETERS: [(&str, &str); 8] = [
    ("contenders", "N"),
    ("clients", "own|one"),
    ("name", "same|fresh|each"),
    ("machine", "idle|awake"),
    ("processes", "N"),
    ("local_queue", "on|off|cohort"),
    ("fault", "killed|frozen|cut_off|restart"),
    ("rate", "N"),
];

impl FromStr for Threshold {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let shape =
            || format!("{text:?} is no threshold: write it as BACKEND.SCENARIO.FIGURE<LIMIT, with < <= > or >=");
        let at = text.find(['<', '>']).ok_or_else(shape)?;
        let (subject, rest) = text.split_at(at);
        let signs = Comparison::SIGNS.iter();
        let (sign, comparison) = *signs.clone().find(|(sign, _)| rest.starts_with(sign)).ok_or_else(shape)?;
        let number = rest[sign.len()..].trim();
        let limit = number.parse().ok().filter(|limit: &f64| limit.is_finite());
        let limit = limit.ok_or_else(|| format!("{number:?} in the threshold {text:?} is no number"))?;
        let (backend, rest) = subject.trim().split_once('.').ok_or_else(shape)?;
        let (scenario, figure) = rest.rsplit_once('.').ok_or_else(shape)?;
        let (scenario, parameters) = scenario_of(scenario, text)?;
        let known = || FIGURES.map(|figure| figure.name).join(", ");
        let figure = Figure::named(figure).ok_or_else(|| {
            format!("there is no figure {figure:?} (in the threshold {text:?}); there are {}", known())
        })?;
        let (text, backend, scenario) = (text.to_owned(), backend.to_owned(), scenario.to_owned());
        Ok(Self { text, backend, scenario, parameters, figure: figure.name, comparison, limit })
    }
}

/// `contended[contenders=8,clients=own]`.
fn scenario_of<'a>(scenario: &'a str, text: &str) -> Result<(&'a str, Parts), String> {
    let (id, inside) = match scenario.split_once('[') {
        None => (scenario, None),
        Some((id, rest)) => match rest.strip_suffix(']') {
            Some(inside) => (id, Some(inside)),
            None => return Err(format!("a bracket is not closed in the threshold {text:?}")),
        },
    };
    if !Scenario::IDS.contains(&id) {
        return Err(format!(
            "there is no scenario {id:?} (in the threshold {text:?}); there are {}",
            Scenario::IDS.join(", ")
        ));
    }
    let pair = |pair: &str| match pair.split_once('=') {
        Some((key, value)) if PARAMETERS.iter().any(|(known, _)| *known == key) => {
            Ok((key.to_owned(), value.to_owned()))
        }
        _ => {
            let known = PARAMETERS.map(|(name, values)| format!("{name}={values}")).join(" ");
            Err(format!("{pair:?} in the threshold {text:?} is no parameter: there are {known}"))
        }
    };
    Ok((id, inside.into_iter().flat_map(|inside| inside.split(',')).map(pair).collect::<Result<_, _>>()?))
}

impl Threshold {
    /// What of a report does not keep it, a line each; also that nothing was measured of what it is about.
    #[must_use]
    pub fn breaches(&self, report: &Report) -> Vec<String> {
        let Some(figure) = Figure::named(self.figure) else { return Vec::new() };
        let mut breaches = Vec::new();
        let mut measured = false;
        for scenario in report.scenarios.iter().filter(|scenario| self.is_about(scenario)) {
            let results = scenario.results.iter().filter(|result| result.backend == self.backend);
            for value in results.filter_map(figure.of) {
                measured = true;
                if !self.comparison.holds(value.est, self.limit) {
                    let parameters = parameters(&scenario.parameters);
                    breaches.push(format!("{self} is not kept: {} ({parameters})", text::spread(&value)));
                }
            }
        }
        if !measured {
            breaches.push(format!("{self} is not kept: it was not measured"));
        }
        breaches
    }

    fn is_about(&self, scenario: &ScenarioResults) -> bool {
        let is = |(name, value): &(String, String)| scenario.parameters.is(name, value);
        scenario.id == self.scenario && self.parameters.iter().all(is)
    }
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The parameters as a threshold names them.
pub(super) fn parameters(of: &Parameters) -> String {
    of.pairs().into_iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::super::samples;
    use super::*;

    fn breaches(threshold: &str) -> Vec<String> {
        threshold.parse::<Threshold>().expect(threshold).breaches(&samples::report(200.0, 5000.0))
    }

    #[test]
    fn a_limit_is_kept_or_named() {
        assert!(breaches("redis.handoff.p50_us<200.5").is_empty());
        assert!(breaches("redis.handoff.p50_us <= 200").is_empty());
        let line =
            "redis.handoff.p50_us<200 is not kept: 200 [190, 210] (contenders=2 clients=own name=same machine=idle)";
        assert_eq!(breaches("redis.handoff.p50_us<200"), [line]);
        assert_eq!(breaches("redis.contended.per_second>=5001").len(), 2, "each of its parameters");
        assert_eq!(breaches("redis.contended[clients=own,contenders=8].per_second>5000").len(), 1);
        assert!(breaches("redis.contended[contenders=8].per_second>=5000").is_empty());
        assert!(breaches("redis.contended[local_queue=on,processes=1].per_second>=5000").is_empty());
        assert!(breaches("redis.contended[processes=8].per_second>=1")[0].ends_with("it was not measured"));
    }

    #[test]
    fn what_was_not_measured_is_not_kept() {
        for threshold in ["etcd.handoff.p50_us<1", "redis.handoff.jain>0", "redis.contended[contenders=64].p50_us<1"] {
            assert!(breaches(threshold)[0].ends_with("it was not measured"), "{threshold}");
        }
    }

    #[test]
    fn what_is_no_threshold_is_explained() {
        let cases = [
            ("redis.handoff.p50_us", "BACKEND.SCENARIO.FIGURE"),
            ("redis<5", "BACKEND.SCENARIO.FIGURE"),
            ("redis.handoff.p50_us<fast", "no number"),
            ("redis.handoff.p50_us<inf", "no number"),
            ("redis.sleeping.p50_us<5", "waiting_cost"),
            ("redis.handoff.p51_us<5", "p50_us"),
            ("redis.contended[8].p50_us<5", "contenders=N"),
            ("redis.contended[contenders=8.p50_us<5", "not closed"),
        ];
        for (text, word) in cases {
            let error = text.parse::<Threshold>().expect_err(text);
            assert!(error.contains(word) && error.contains(text), "{text}: {error}");
        }
    }
}
