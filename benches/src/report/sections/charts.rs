//! The charts, each with its data as a table.

mod contention;
mod latency;
mod recovery;

use crate::report::draw::Series;
use crate::report::model::{Report, ScenarioResult, ScenarioResults};
use crate::report::table::{Drawing, Section};

pub(super) fn charts(report: &Report) -> Section {
    let text = "Each backend has the same colour, marker and dash in every chart. Times and rates stand on logarithmic axes: a step \
                of the grid is ten times as much. The data of each chart stand under it.";
    let mut section = Section::new("charts", "Charts", text);
    let wanted: [(&str, Vec<Drawing>); 5] = [
        ("latency by percentile", latency::all(report)),
        ("throughput by contenders", contention::throughput(report).into_iter().collect()),
        ("fairness", contention::fairness(report).into_iter().collect()),
        ("the time line after a crash", recovery::lanes(report)),
        ("the gap against the work of the server", recovery::gap_against_work(report).into_iter().collect()),
    ];
    for (what, drawings) in wanted {
        if drawings.is_empty() {
            section.text.push(format!("No chart of {what}: this run (suite {}) did not measure it.", report.suite));
        }
        section.charts.extend(drawings);
    }
    section
}

/// The results of a scenario with their series, in the order of the report.
fn series<'a>(
    report: &'a Report,
    scenario: &'a ScenarioResults,
) -> impl Iterator<Item = (Series, &'a ScenarioResult)> + use<'a> {
    let result = |id: &str| scenario.results.iter().find(|result| result.backend == id);
    report
        .backends
        .iter()
        .enumerate()
        .filter_map(move |(place, backend)| Some((Series::new(&report.name(&backend.id), place), result(&backend.id)?)))
}
