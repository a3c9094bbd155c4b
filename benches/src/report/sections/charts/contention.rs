//! What happens when many want one name.

use super::series;
use crate::report::draw::{Dot, DotChart, DotRow, Frame, Line, LineChart, Series, Unit};
use crate::report::goals::key;
use crate::report::model::{Report, ScenarioResult, ScenarioResults};
use crate::report::table::{Cell, Drawing, Table};
use crate::report::text;
use crate::stats::Estimate;

/// The runs with a client for each contender, in one process, by their number.
fn contended(report: &Report) -> Vec<&ScenarioResults> {
    let own = |scenario: &&ScenarioResults| {
        let (id, _, clients, ..) = key(scenario);
        id == "contended" && clients == "own" && scenario.parameters.processes == 1
    };
    let mut runs: Vec<&ScenarioResults> = report.scenarios.iter().filter(own).collect();
    runs.sort_by_key(|scenario| scenario.parameters.contenders);
    runs
}

fn of<'a>(scenario: &'a ScenarioResults, backend: &str) -> Option<&'a ScenarioResult> {
    scenario.results.iter().find(|result| result.backend == backend)
}

pub(super) fn throughput(report: &Report) -> Option<Drawing> {
    let runs = contended(report);
    let steps: Vec<String> = runs.iter().map(|run| run.parameters.contenders.to_string()).collect();
    let heads = std::iter::once("backend".to_owned()).chain(steps.iter().cloned());
    let mut data = Table::new("Acquisitions (1 contender) and hand-overs a second", heads);
    let mut lines = Vec::new();
    for (place, backend) in report.backends.iter().enumerate() {
        let rate = |run: &&ScenarioResults| of(run, &backend.id)?.per_second.filter(|rate| rate.est > 0.0);
        let rates: Vec<Option<Estimate>> = runs.iter().map(rate).collect();
        if rates.iter().all(Option::is_none) {
            continue;
        }
        let series = Series::new(&report.name(&backend.id), place);
        let cells = rates.iter().map(|rate| Cell::or_dash(rate.as_ref().map(text::spread)));
        data.row(series.label.as_str(), cells.collect());
        // The labels of all peers have no room at the end of the lines; their figures stand in the table.
        if backend.is_peer() {
            continue;
        }
        lines.push(Line { series, values: rates.iter().map(|rate| rate.map(|rate| rate.est)).collect() });
    }
    let reading = "How often a second one name goes to another client (with one contender: is acquired). Higher is more; a line that \
                   stays level carries any number of contenders.";
    let frame = Frame { title: "Throughput by contenders", reading, unit: Unit::Plain, data };
    let steps_are = "clients that contend for one name";
    (!lines.is_empty()).then(|| LineChart { frame, steps, steps_are, lines }.draw())
}

pub(super) fn fairness(report: &Report) -> Option<Drawing> {
    let run = contended(report).into_iter().rfind(|run| run.parameters.contenders > 1)?;
    let mut data = Table::new("Fairness", ["backend", "Jain's index", "longest wait"]);
    let mut rows = Vec::new();
    for (series, result) in series(report, run) {
        let Some(jain) = result.jain else { continue };
        let longest = result.max_wait_ms.map(text::millis);
        data.row(series.label.as_str(), vec![format!("{jain:.3}").into(), Cell::or_dash(longest.clone())]);
        let value =
            longest.map_or_else(|| format!("{jain:.3}"), |longest| format!("{jain:.3}, longest wait {longest}"));
        let label = series.label.clone();
        let dots = vec![Dot { series, value: Estimate::new(jain, jain, jain) }];
        rows.push(DotRow { label, value, dots, floor: None });
    }
    let title = format!("Fairness, {} clients", run.parameters.contenders);
    let reading = "Jain's index of the shares of one name: 1 when all had the same share, and one over the number of clients when one \
                   had everything. Beside the name: the longest wait of all trials.";
    let frame = Frame { title: &title, reading, unit: Unit::Plain, data };
    (!rows.is_empty()).then(|| DotChart { frame, linear: Some(1.0), rows }.draw())
}
