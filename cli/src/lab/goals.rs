//! The few figures that are shown at the end of a comparison.

use comfy_table::{Table, presets};
use lockyard_benches::report::Report;

/// A line for each goal and backend.
pub(super) fn table(report: &Report) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["GOAL", "BACKEND", "FIGURE", "VERDICT"]);
    for goal in report.goals() {
        table.add_row([goal.what.as_str(), &goal.backend, &goal.figure, goal.verdict.as_str()]);
    }
    table.lines().map(|line| line.trim().to_owned()).collect::<Vec<_>>().join("\n")
}
