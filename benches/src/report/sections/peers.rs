//! The locks of others, measured in the same trials.

use crate::report::anchors;
use crate::report::model::{Backend, Report, ScenarioResult, ScenarioResults};
use crate::report::table::{Cell, Table, Tone};
use crate::report::text;
use crate::stats::Estimate;

/// What one has to know of each.
pub(super) fn known(report: &Report) -> Option<Table> {
    let columns = ["peer", "server", "version", "to know"];
    let mut table = Table::new("Peers: locks of others, measured in the same trials", columns).at("peers");
    for peer in peers(report) {
        let cells = vec![peer.kind.as_str().into(), peer.version.as_str().into(), peer.notes.join("; ").into()];
        table.row_at(anchors::server(peer), report.name(&peer.id), cells);
    }
    (!table.rows.is_empty()).then_some(table)
}

/// Each peer beside ours on the same server: of Postgres the advisory mode, for that is what the peers use.
pub(super) fn compared(report: &Report) -> Option<Table> {
    let columns = ["scenario", "peer", "ours", "peer's", "ours ÷ peer's", "verdict"];
    let mut table = Table::new("Ours against peers", columns).at("against-peers");
    for scenario in &report.scenarios {
        let Some(measure) = Measure::of(scenario) else { continue };
        for peer in peers(report) {
            let ours = report.ours().find(|backend| backend.kind == peer.kind);
            let figure = |id: &str| {
                let result = scenario.results.iter().find(|result| result.backend == id)?;
                (measure.figure)(result)
            };
            let Some((ours, theirs)) = ours.and_then(|ours| figure(&ours.id)).zip(figure(&peer.id)) else { continue };
            let Some(ratio) = ours.over(&theirs) else { continue };
            let peers = Cell::new(report.name(&peer.id)).shown_by(anchors::figure(scenario, &peer.id));
            let figures = [ours, theirs].map(|figure| Cell::new((measure.show)(&figure)));
            let cells =
                std::iter::once(peers).chain(figures).chain([text::ratio(&ratio).into(), measure.verdict(&ratio)]);
            table.row(anchors::scenario(scenario), cells.collect());
        }
    }
    (!table.rows.is_empty()).then_some(table)
}

fn peers(report: &Report) -> impl Iterator<Item = &Backend> {
    report.backends.iter().filter(|backend| backend.is_peer())
}

/// What two locks are compared by.
struct Measure {
    figure: fn(&ScenarioResult) -> Option<Estimate>,
    show: fn(&Estimate) -> String,
    less_is_better: bool,
}

impl Measure {
    fn of(scenario: &ScenarioResults) -> Option<Self> {
        let latency = Self { figure: |result| result.p50_us, show: text::micros_spread, less_is_better: true };
        let rate = Self { figure: |result| result.per_second, show: text::spread, less_is_better: false };
        match scenario.id.as_str() {
            "uncontended" | "handoff" | "open_loop" => Some(latency),
            "parallel" | "contended" => Some(rate),
            _ => None,
        }
    }

    /// No winner inside a tie.
    fn verdict(&self, ratio: &Estimate) -> Cell {
        if ratio.contains(1.0) {
            Cell::new("tie")
        } else if (ratio.est < 1.0) == self.less_is_better {
            Cell::toned("ahead", Tone::Good)
        } else {
            Cell::toned("behind", Tone::Bad)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::samples;

    #[test]
    fn who_is_ahead_depends_on_what_is_measured_and_ties_have_no_winner() {
        let mut report = samples::report(300.0, 4000.0);
        let mut peer = samples::backend("peer:other");
        "redis".clone_into(&mut peer.kind);
        report.backends = vec![samples::backend("redis"), peer];
        let spread = |value: f64| Some(Estimate::new(value, value * 0.95, value * 1.05));
        for (scenario, (p50_us, per_second)) in
            report.scenarios.iter_mut().zip([(spread(900.0), None), (None, spread(400.0)), (None, spread(4100.0))])
        {
            let backend = "peer:other".to_owned();
            scenario.results.push(ScenarioResult {
                backend,
                trials: 5,
                p50_us,
                per_second,
                ..ScenarioResult::default()
            });
        }
        let table = compared(&report).expect("a table");
        let verdicts: Vec<&str> = table.rows.iter().map(|row| row.cells[4].text.as_str()).collect();
        assert_eq!(verdicts, ["ahead", "ahead", "tie"]);
        assert_eq!(table.rows[0].cells[0].text, "other (peer)");
    }
}
