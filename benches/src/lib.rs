//! Scenarios, floors, statistics and the report of the comparison.
//!
//! ```no_run
//! use lockyard_benches::report::{Report, Tool};
//! use lockyard_benches::{Plan, Silent, Suite, Target, run};
//!
//! # async fn example(targets: Vec<Target>) {
//! let plan = Plan::new(Suite::Quick, 7);
//! println!("takes about {:?}", plan.estimate(&targets));
//! let measured = run(&plan, &targets, &Silent::new()).await;
//! let report = Report::new(Tool::new("0.1.0", "abc"), "lockyard compare --seed 7", &plan, &measured);
//! println!("{}", report.to_json());
//! # }
//! ```
//!
//! A [`Target`] is a backend that can be connected to. A [`Plan`] says what is measured; [`run`] measures it and tells a
//! [`Progress`]; a [`report::Report`] is made of what was [`Measured`], completed with the results of the conformance suite and
//! with what could not be started, and rendered as JSON, Markdown and HTML.
//!
//! Every scenario is measured twice in each trial: through lockyard, and through the bare driver of the same server, the
//! floor. Both take turns in short blocks, because a machine is not the same from one second to the next: only the ratio inside
//! a trial means anything.

mod environment;
mod floor;
mod measure;
#[cfg(feature = "peers")]
mod peer;
mod plan;
mod progress;
pub mod report;
mod run;
mod scenario;
mod side;
mod spinners;
pub mod stats;
mod target;
mod worker;

pub use environment::Environment;
pub use measure::NoopLock;
pub use plan::{Plan, Suite};
pub use progress::{Progress, Silent};
pub use run::{Measured, run};
pub use scenario::{Clients, Fault, Machine, Names, Scenario};
pub use target::{Connect, Connecting, Counted, Target};
pub use worker::{Spawn, serve};
