//! The data themselves, and how to make them again.

use crate::report::model::Report;
use crate::report::table::Section;

pub(super) fn raw(report: &Report) -> Section {
    let text = "The data of this report as JSON stand in the page itself, in the element report-data (without what is null), and beside it in report.json; \
                everything here is rendered from them. Below: every figure as CSV, and the command that makes the report again.";
    let mut section = Section::new("raw", "Raw data, and how to make them again", text);
    section.commands.push(report.command.clone());
    section.csv = report.to_csv();
    section
}
