//! How long a cycle and a hand-off take, and how much longer the slow ones.

use super::series;
use crate::report::draw::{Dot, DotChart, DotRow, Frame, Line, LineChart, Unit};
use crate::report::model::{Report, ScenarioResult, ScenarioResults};
use crate::report::table::{Cell, Drawing, Table};
use crate::report::text;

type Read = fn(&ScenarioResult) -> Option<f64>;

/// The percentiles with what they are read from.
const PERCENTILES: &[(&str, Read)] = &[
    ("p50", |result| Some(result.p50_us?.est)),
    ("p90", |result| result.p90_us),
    ("p99", |result| Some(result.p99_us?.est)),
    ("p99.9", |result| result.p999_us),
];

pub(super) fn all(report: &Report) -> Vec<Drawing> {
    let uncontended = report.find("uncontended", 1, "one", "same");
    let handoff = report.find("handoff", 2, "own", "same");
    let by_percentile = [(uncontended, "Uncontended cycle by percentile"), (handoff, "Hand-off by percentile")];
    let lines = by_percentile.into_iter().filter_map(|(scenario, title)| percentiles(report, scenario?, title));
    uncontended.and_then(|scenario| against_floor(report, scenario)).into_iter().chain(lines).collect()
}

/// The median beside the bare driver.
fn against_floor(report: &Report, scenario: &ScenarioResults) -> Option<Drawing> {
    let mut data = Table::new("Uncontended cycle, median", ["backend", "lockyard", "bare driver"]);
    let mut rows = Vec::new();
    for (series, result) in series(report, scenario) {
        let Some(value) = result.p50_us.filter(|value| value.lo > 0.0) else { continue };
        let floor = result.floor.map(|floor| floor.p50_us);
        data.row(
            series.label.as_str(),
            vec![text::micros_spread(&value).into(), Cell::or_dash(floor.map(text::micros))],
        );
        let label = series.label.clone();
        rows.push(DotRow { label, value: text::micros(value.est), dots: vec![Dot { series, value }], floor });
    }
    let reading = "Median of one acquire and release by one client: further left is faster. The marker is the lock with its 95 % \
                   interval, the hollow diamond the bare driver of the same server.";
    let frame = Frame { title: "Uncontended cycle", reading, unit: Unit::Micros, data };
    (!rows.is_empty()).then(|| DotChart { frame, linear: None, rows }.draw())
}

fn percentiles(report: &Report, scenario: &ScenarioResults, title: &str) -> Option<Drawing> {
    let has = |of: &Read| scenario.results.iter().any(|result| of(result).is_some());
    let steps: Vec<_> = PERCENTILES.iter().filter(|(_, of)| has(of)).collect();
    let heads = std::iter::once("backend").chain(steps.iter().map(|(name, _)| *name));
    let mut data = Table::new(title, heads);
    let mut lines = Vec::new();
    for (series, result) in series(report, scenario) {
        let values: Vec<Option<f64>> = steps.iter().map(|(_, of)| of(result).filter(|value| *value > 0.0)).collect();
        if values.iter().all(Option::is_none) {
            continue;
        }
        let cells = values.iter().map(|value| Cell::or_dash(value.map(text::micros)));
        data.row(series.label.as_str(), cells.collect());
        // The labels of all peers have no room at the end of the lines; their figures stand in the table.
        if report.ours().any(|backend| backend.id == result.backend) {
            lines.push(Line { series, values });
        }
    }
    let reading = "Half of all took no longer than p50, one in a hundred longer than p99; medians over the trials. Lower is faster, \
                   and a flat line is steady.";
    let frame = Frame { title, reading, unit: Unit::Micros, data };
    let steps: Vec<String> = steps.iter().map(|(name, _)| (*name).to_owned()).collect();
    (!lines.is_empty()).then(|| LineChart { frame, steps, steps_are: "percentile", lines }.draw())
}
