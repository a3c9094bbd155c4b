//! The report: data, and what is rendered from it.

mod anchors;
mod baseline;
mod build;
mod csv;
mod draw;
mod figures;
mod findings;
mod goals;
mod hdr;
mod html;
mod markdown;
mod model;
#[cfg(test)]
mod samples;
mod sections;
mod table;
mod text;
mod threshold;
mod verdict;

pub use baseline::{Change, Comparison, Direction};
pub use findings::{Connections, Failover, HoldCost, Takeover};
pub use goals::{Goal, Verdict};
pub use model::{
    Backend, Beside, Check, Conformance, Estimate, FloorFigures, Parameters, Report, ScenarioResult, ScenarioResults,
    Skipped, Tool,
};
pub use threshold::Threshold;
