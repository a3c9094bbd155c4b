//! The suite as a test binary: `harness = false`, one trial per check.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::RwLock;

use crate::suite::run_gated;
use crate::{Check, CheckOutcome, CheckResult, Context, Harness, Suite, report};

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

type Made = Pin<Box<dyn Future<Output = Result<Arc<dyn Harness>, NoHarness>> + Send>>;

/// Runs the suite on one backend.
#[must_use]
pub struct Runner {
    id: String,
    word: String,
    make: Box<dyn Fn() -> Made + Send + Sync>,
    expected: BTreeMap<String, String>,
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
    let benches: Vec<Arc<Bench>> = runners.into_iter().map(|runner| Arc::new(Bench::new(runner))).collect();
    let suite = Suite::v1();
    let unknown = benches.iter().find_map(|bench| bench.unknown(&suite));
    if let Some(unknown) = unknown {
        eprintln!("{unknown}");
        return ExitCode::from(2);
    }
    let trials = benches.iter().flat_map(|bench| bench.trials(&suite, &stage)).collect();
    let conclusion = libtest_mimic::run(&args, trials);
    let results: Vec<_> = benches.iter().map(|bench| (bench.runner.id.as_str(), bench.take_results())).collect();
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
struct Stage {
    runtime: OnceLock<Result<Runtime, String>>,
}

impl Stage {
    fn runtime(&self) -> Result<&Runtime, Failed> {
        let runtime =
            self.runtime.get_or_init(|| Builder::new_multi_thread().enable_all().build().map_err(|e| e.to_string()));
        runtime.as_ref().map_err(|error| Failed::from(format!("no runtime: {error}")))
    }

    /// Ends the servers: the process is about to exit, and nobody else would.
    fn end(&self, benches: &[Arc<Bench>]) {
        let Some(Ok(runtime)) = self.runtime.get() else { return };
        runtime.block_on(async {
            for bench in benches {
                bench.ready.lock().await.take();
            }
        });
    }
}

/// One backend, its harness and the results so far.
struct Bench {
    runner: Runner,
    ready: tokio::sync::Mutex<Option<Result<Context, NoHarness>>>,
    gate: RwLock<()>,
    results: Mutex<Vec<CheckResult>>,
}

impl Bench {
    fn new(runner: Runner) -> Self {
        Self { runner, ready: tokio::sync::Mutex::new(None), gate: RwLock::new(()), results: Mutex::default() }
    }

    fn unknown(&self, suite: &Suite) -> Option<String> {
        let known = |name: &String| suite.checks().iter().any(|check| check.name == name);
        let unknown = self.runner.expected.keys().find(|name| !known(name))?;
        Some(format!("{}: the suite has no check {unknown:?} that could be expected to fail", self.runner.id))
    }

    fn trials(self: &Arc<Self>, suite: &Suite, stage: &Arc<Stage>) -> Vec<Trial> {
        let trial = |check: &Check| {
            let (bench, stage, check) = (Arc::clone(self), Arc::clone(stage), *check);
            Trial::ignorable_test(format!("{}::{}", bench.runner.id, check.name), move || {
                let result = stage.runtime()?.block_on(bench.run(check));
                let completion = completion(&result);
                bench.results.lock().unwrap_or_else(PoisonError::into_inner).push(result);
                completion
            })
        };
        suite.checks().iter().map(trial).collect()
    }

    async fn run(&self, check: Check) -> CheckResult {
        let ended = |outcome, reason| CheckResult::new(&check, outcome, Some(reason), Duration::ZERO);
        let result = match self.context().await {
            Ok(ctx) => run_gated(check, ctx, &self.gate).await,
            Err(NoHarness::Skip(reason)) => return ended(CheckOutcome::Ignored, reason),
            Err(NoHarness::Failed(reason)) => return ended(CheckOutcome::Failed, reason),
        };
        match self.runner.expected.get(check.name) {
            Some(reason) => expected(result, reason),
            None => result,
        }
    }

    /// The harness, made by the first trial that asks.
    async fn context(&self) -> Result<Context, NoHarness> {
        let mut ready = self.ready.lock().await;
        if let Some(ready) = &*ready {
            return ready.clone();
        }
        let made = match (self.runner.make)().await {
            Ok(harness) => Context::new(harness).await.map_err(NoHarness::from),
            Err(NoHarness::Skip(reason)) if self.is_required() => Err(NoHarness::Failed(format!(
                "LOCKYARD_REQUIRE names {}, which is not here: {reason}",
                self.runner.word
            ))),
            Err(no) => Err(no),
        };
        if let Err(NoHarness::Skip(reason)) = &made {
            eprintln!("{}: skipped: {reason}", self.runner.id);
        }
        ready.insert(made).clone()
    }

    fn is_required(&self) -> bool {
        let required = std::env::var("LOCKYARD_REQUIRE").unwrap_or_default();
        required.split(',').any(|word| word.trim() == self.runner.word)
    }

    fn take_results(&self) -> Vec<CheckResult> {
        std::mem::take(&mut self.results.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A failure that is known is no news; a known failure that is gone is.
fn expected(mut result: CheckResult, reason: &str) -> CheckResult {
    match result.outcome {
        CheckOutcome::Failed => {
            let found = result.reason.take().unwrap_or_default();
            result.reason = Some(format!("expected failure ({reason}): {found}"));
            result.outcome = CheckOutcome::Ignored;
        }
        CheckOutcome::Passed => {
            result.reason = Some(format!("passes although it is expected to fail ({reason}): remove expect_failure"));
            result.outcome = CheckOutcome::Failed;
        }
        CheckOutcome::Ignored => {}
    }
    result
}

fn completion(result: &CheckResult) -> Result<Completion, Failed> {
    let reason = result.reason.clone().unwrap_or_default();
    match result.outcome {
        CheckOutcome::Passed => Ok(Completion::Completed),
        CheckOutcome::Ignored => Ok(Completion::ignored_with(reason)),
        CheckOutcome::Failed => Err(Failed::from(reason)),
    }
}
