//! The suite as a test binary: `harness = false`, one trial per check.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

use libtest_mimic::{Arguments, Failed};
use tokio::runtime::{Builder, Runtime};

use crate::bench::Bench;
use crate::{Harness, Suite, report};

/// Why there is no harness to run the suite on.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoHarness {
    /// The server is not here: the trials are ignored and say why, unless `LOCKYARD_REQUIRE` names it.
    Skip(String),
    /// The server should be here and does not work: the trials fail.
    Failed(String),
}

impl NoHarness {
    /// The server is not here, for this reason.
    pub fn skip(reason: impl fmt::Display) -> Self {
        Self::Skip(reason.to_string())
    }

    /// The server does not work, for this reason.
    pub fn failed(reason: impl fmt::Display) -> Self {
        Self::Failed(reason.to_string())
    }
}

impl From<lockyard_api::Error> for NoHarness {
    fn from(error: lockyard_api::Error) -> Self {
        Self::failed(error)
    }
}

pub(crate) type Made = Pin<Box<dyn Future<Output = Result<Arc<dyn Harness>, NoHarness>> + Send>>;

/// Runs the suite on one backend.
#[must_use]
pub struct Runner {
    pub(crate) id: String,
    pub(crate) word: String,
    pub(crate) make: Box<dyn Fn() -> Made + Send + Sync>,
    pub(crate) expected: BTreeMap<String, String>,
}

impl Runner {
    /// The suite on the backend of this id (it begins the trials' names), with the harness that `make` makes: once, when
    /// the first trial runs.
    pub fn new<H, F>(id: impl Into<String>, make: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        H: Harness,
        F: Future<Output = Result<H, NoHarness>> + Send + 'static,
    {
        let id = id.into();
        let word = id.split('-').next().unwrap_or_default().to_owned();
        let make = move || -> Made {
            let made = make();
            Box::pin(async move { made.await.map(|harness| -> Arc<dyn Harness> { Arc::new(harness) }) })
        };
        Self { id, word, make: Box::new(make), expected: BTreeMap::new() }
    }

    /// The word of `LOCKYARD_REQUIRE` (comma-separated) that makes a missing server a failure. Unless given, the id up to
    /// its first `-`.
    pub fn requires(mut self, word: impl Into<String>) -> Self {
        self.word = word.into();
        self
    }

    /// This check (`clause::name`) is known to fail here, for this reason: it shows as ignored, and fails when it passes.
    pub fn expect_failure(mut self, check: impl Into<String>, reason: impl Into<String>) -> Self {
        self.expected.insert(check.into(), reason.into());
        self
    }

    /// Runs the suite as the test binary that the arguments ask for. See [`main`].
    pub fn run(self) -> ExitCode {
        main([self])
    }
}

impl fmt::Debug for Runner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runner").field("id", &self.id).field("expected", &self.expected).finish_non_exhaustive()
    }
}

/// Runs the suite on several backends in one test binary: the whole of `fn main` in a test with `harness = false`.
///
/// The arguments are those of `cargo test`. Each backend has one harness for all its trials. `LOCKYARD_JSON` and
/// `LOCKYARD_JUNIT` name files to write the results to.
pub fn main(runners: impl IntoIterator<Item = Runner>) -> ExitCode {
    let mut args = Arguments::from_args();
    // Checks mostly wait: many more than the machine has cores run at once.
    args.test_threads.get_or_insert(32);
    let stage = Arc::new(Stage::default());
    let required = std::env::var("LOCKYARD_REQUIRE").unwrap_or_default();
    let benches: Vec<_> = runners.into_iter().map(|runner| Arc::new(Bench::new(runner, &required))).collect();
    let suite = Suite::latest();
    let unknown = benches.iter().find_map(|bench| bench.unknown(&suite));
    if let Some(unknown) = unknown {
        eprintln!("{unknown}");
        return ExitCode::from(2);
    }
    let trials = benches.iter().flat_map(|bench| bench.trials(&suite, &stage)).collect();
    let conclusion = libtest_mimic::run(&args, trials);
    let results: Vec<_> = benches.iter().map(|bench| (bench.id(), bench.take_results())).collect();
    let written = report::write(suite.version(), &results);
    stage.end(&benches);
    match written {
        Ok(()) => conclusion.exit_code(),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// The runtime that all trials share, made by the first.
#[derive(Default)]
pub(crate) struct Stage {
    runtime: OnceLock<Result<Runtime, String>>,
}

impl Stage {
    pub(crate) fn runtime(&self) -> Result<&Runtime, Failed> {
        let runtime =
            self.runtime.get_or_init(|| Builder::new_multi_thread().enable_all().build().map_err(|e| e.to_string()));
        runtime.as_ref().map_err(|error| Failed::from(format!("no runtime: {error}")))
    }

    /// Ends the servers: the process is about to exit, and nobody else would.
    fn end(&self, benches: &[Arc<Bench>]) {
        let Some(Ok(runtime)) = self.runtime.get() else { return };
        runtime.block_on(async {
            for bench in benches {
                bench.end().await;
            }
        });
    }
}
