//! The parts of the report below the verdict, in the order in which a reader asks.

mod capabilities;
mod charts;
mod circumstances;
mod evidence;
mod faults;
mod fits;
mod numbers;
mod peers;
mod raw;
mod rows;
mod safety;

use super::model::Report;
use super::table::Section;

pub(super) fn all(report: &Report) -> Vec<Section> {
    vec![
        fits::fits(report),
        numbers::numbers(report),
        charts::charts(report),
        safety::safety(report),
        capabilities::capabilities(report),
        circumstances::method(report),
        circumstances::environment(report),
        circumstances::noise(report),
        circumstances::not_measured(report),
        raw::raw(report),
    ]
}
