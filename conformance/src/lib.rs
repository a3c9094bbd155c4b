//! The conformance suite: one named check per clause of the contract, for any backend.
//!
//! A backend implements [`Harness`] (only [`Harness::connect`] is needed to begin with) and runs the suite as a test with
//! `harness = false` in its `Cargo.toml`:
//!
//! ```no_run
//! # use lockyard_api::{Result, async_trait};
//! # use lockyard_conformance::{Client, Harness, Runner};
//! # #[derive(Debug)] struct MyHarness;
//! # #[async_trait] impl Harness for MyHarness { async fn connect(&self) -> Result<Client> { Err(lockyard_api::Error::config("no server")) } }
//! # impl MyHarness { async fn start() -> std::result::Result<Self, lockyard_conformance::NoHarness> { Ok(Self) } }
//! fn main() -> std::process::ExitCode {
//!     Runner::new("mine", || async {
//!         // No server here? Err(NoHarness::skip("why")): the trials show as ignored and say so.
//!         MyHarness::start().await
//!     })
//!     .expect_failure("fifo::order", "the server has no queue yet")
//!     .run()
//! }
//! ```
//!
//! One binary runs it on several backends with [`main`]; a program runs it with [`Suite::run`]. Capabilities choose the
//! checks: what does not apply shows as ignored, with the reason, and a capability that is claimed and not kept is a
//! failure. Trials are named `backend::clause::check`.
//!
//! | variable | meaning |
//! |---|---|
//! | `LOCKYARD_REQUIRE` | comma-separated; a server named here that is absent makes the trials fail |
//! | `LOCKYARD_TIME_FACTOR` | multiplies every upper bound (default 1) |
//! | `LOCKYARD_SEED` | what the random runs (`history::…`) decide; a failure names the one it had |
//! | `LOCKYARD_JSON`, `LOCKYARD_JUNIT` | files to write the results to |

mod bench;
mod check;
mod checks;
mod context;
mod harness;
pub mod history;
pub mod report;
mod result;
mod runner;
mod steps;
mod stop;
mod suite;
mod timing;

pub use check::{Check, CheckFuture, Reach};
pub use context::Context;
pub use harness::{Client, Fault, Harness, Link, RegisterClient};
pub use result::{CheckOutcome, CheckResult};
pub use runner::{NoHarness, Runner, main};
pub use stop::{Checked, Stop};
pub use suite::Suite;
pub use timing::scaled;
