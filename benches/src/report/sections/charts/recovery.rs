//! What happens when a holder is gone, and what being ready for it costs the server.

use super::series;
use crate::report::draw::{Frame, Lane, LaneChart, Point, ScatterChart, Unit};
use crate::report::model::{Report, ScenarioResults};
use crate::report::table::{Cell, Drawing, Table};
use crate::report::text;

/// A time line for each way in which a holder goes.
pub(super) fn lanes(report: &Report) -> Vec<Drawing> {
    report
        .scenarios
        .iter()
        .filter(|scenario| scenario.id == "takeover")
        .filter_map(|run| lane_chart(report, run))
        .collect()
}

fn lane_chart(report: &Report, run: &ScenarioResults) -> Option<Drawing> {
    let fault = run.parameters.fault.as_deref().unwrap_or("gone").replace('_', " ");
    let title = format!("Crash time line: the holder is {fault}");
    let mut data = Table::new(title.as_str(), ["backend", "next grant after", "promised within"]);
    let mut lanes = Vec::new();
    for (series, result) in series(report, run) {
        let Some(takeover) = &result.takeover else { continue };
        let (gap, bound) = (takeover.seconds, takeover.bound_seconds);
        let bound = (bound > 0.0).then_some(bound);
        let promised = bound.map(text::seconds);
        data.row(series.label.as_str(), vec![text::seconds_spread(&gap).into(), Cell::or_dash(promised.clone())]);
        let after = text::seconds(gap.est);
        let value = promised.map_or_else(|| after.clone(), |bound| format!("{after} of {bound}"));
        lanes.push(Lane { series, value, gap, bound });
    }
    let reading = "Each lane: the holder until the fault at 0, then nobody, then the next holder. The thin line is the 95 % interval of \
                   the moment, the bar across it what is promised: the granted ttl and the slack of the backend.";
    let frame = Frame { title: &title, reading, unit: Unit::Seconds, data };
    (!lanes.is_empty()).then(|| LaneChart { frame, lanes }.draw())
}

/// Whoever asks often notices soon: this shows who notices soon without asking.
pub(super) fn gap_against_work(report: &Report) -> Option<Drawing> {
    let waiting = report.find("waiting_cost", 50, "own", "same")?;
    let takeover = report
        .scenarios
        .iter()
        .find(|scenario| scenario.id == "takeover" && scenario.parameters.fault.as_deref() == Some("killed"))?;
    let title = "Gap after a kill against the work of the server";
    let mut data = Table::new(title, ["backend", "requests a second for 50 waiters", "next grant after"]);
    let mut points = Vec::new();
    for (series, result) in series(report, waiting) {
        let gap = takeover.results.iter().find(|other| other.backend == result.backend);
        let gap = gap.and_then(|other| other.takeover.as_ref()).map(|takeover| takeover.seconds.est);
        let Some((work, gap)) = result.server_commands_per_second.zip(gap) else { continue };
        data.row(series.label.as_str(), vec![format!("{work:.1}").into(), text::seconds(gap).into()]);
        points.push(Point { series, x: work, y: gap });
    }
    let reading = "Further down: the next holder comes sooner after the holder was killed. Further left: less work for the server while \
                   50 clients wait. Down and left is good.";
    let frame = Frame { title, reading, unit: Unit::Seconds, data };
    let x_is = "requests a second for 50 waiters";
    (!points.is_empty()).then(|| ScatterChart { frame, x_is, points }.draw())
}
