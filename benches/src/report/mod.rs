//! The report: data, and what is rendered from it.

mod build;
mod model;

pub use model::{
    Backend, Beside, Check, Conformance, Estimate, FloorFigures, Parameters, Report, ScenarioResult, ScenarioResults,
    Skipped, Tool,
};
