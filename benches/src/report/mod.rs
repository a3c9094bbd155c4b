//! The report: data, and what is rendered from it.

mod build;
mod csv;
mod goals;
mod html;
mod markdown;
mod model;
mod sections;
mod svg;
mod table;
mod text;
mod verdict;

pub use goals::{Goal, Verdict};
pub use model::{
    Backend, Beside, Check, Conformance, Estimate, FloorFigures, Parameters, Report, ScenarioResult, ScenarioResults,
    Skipped, Tool,
};
