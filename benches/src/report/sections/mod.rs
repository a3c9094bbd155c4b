//! The parts of the report below the verdict, in the order in which a reader asks.

mod circumstances;
mod numbers;
mod promises;

use super::model::Report;
use super::table::Section;

pub(super) fn all(report: &Report) -> Vec<Section> {
    vec![
        promises::capabilities(report),
        promises::conformance(report),
        numbers::numbers(report),
        numbers::goals(report),
        circumstances::method(report),
        circumstances::environment(report),
        circumstances::noise(report),
        circumstances::not_measured(report),
    ]
}
