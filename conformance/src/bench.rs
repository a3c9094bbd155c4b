//! One backend on the bench: its harness, made by the first trial, and what became of the checks.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use libtest_mimic::{Completion, Failed, Trial};
use tokio::sync::RwLock;

use crate::runner::{NoHarness, Runner, Stage};
use crate::suite::run_gated;
use crate::{Check, CheckOutcome, CheckResult, Context, Suite};

/// One backend, its harness and the results so far.
pub(crate) struct Bench {
    runner: Runner,
    is_required: bool,
    ready: tokio::sync::Mutex<Option<Result<Context, NoHarness>>>,
    gate: RwLock<()>,
    results: Mutex<Vec<CheckResult>>,
}

impl Bench {
    /// A bench whose server has to be there when `required`, a comma-separated list, names it.
    pub(crate) fn new(runner: Runner, required: &str) -> Self {
        let is_required = required.split(',').any(|word| word.trim() == runner.word);
        Self {
            runner,
            is_required,
            ready: tokio::sync::Mutex::new(None),
            gate: RwLock::new(()),
            results: Mutex::default(),
        }
    }

    pub(crate) fn id(&self) -> &str {
        &self.runner.id
    }

    /// An expected failure of a check that the suite does not have.
    pub(crate) fn unknown(&self, suite: &Suite) -> Option<String> {
        let known = |name: &String| suite.checks().iter().any(|check| check.name == name);
        let unknown = self.runner.expected.keys().find(|name| !known(name))?;
        Some(format!("{}: the suite has no check {unknown:?} that could be expected to fail", self.runner.id))
    }

    pub(crate) fn trials(self: &Arc<Self>, suite: &Suite, stage: &Arc<Stage>) -> Vec<Trial> {
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
            Err(NoHarness::Skip(reason)) if self.is_required => Err(NoHarness::Failed(format!(
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

    /// Ends the harness, and its server with it.
    pub(crate) async fn end(&self) {
        self.ready.lock().await.take();
    }

    pub(crate) fn take_results(&self) -> Vec<CheckResult> {
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

#[cfg(test)]
mod tests {
    use lockyard_api::async_trait;

    use super::*;
    use crate::{Client, Harness, Stop};

    /// A backend whose first connection fails: enough for what happens before the first check.
    #[derive(Debug)]
    struct Unreachable;

    #[async_trait]
    impl Harness for Unreachable {
        async fn connect(&self) -> lockyard_api::Result<Client> {
            Err(lockyard_api::Error::config("no address"))
        }
    }

    async fn first(runner: Runner, required: &str) -> CheckResult {
        let check = Check::new("release::absent", 5, |_| Box::pin(async { Err(Stop::failed("never runs")) }));
        Bench::new(runner, required).run(check).await
    }

    fn absent(id: &str) -> Runner {
        Runner::new(id, || async { Err::<Unreachable, _>(NoHarness::skip("no server, install it")) })
    }

    #[tokio::test]
    async fn an_absent_server_is_ignored_with_its_reason_unless_it_is_required() {
        let result = first(absent("redis-fair"), "postgres, etcd").await;
        assert_eq!(result.outcome, CheckOutcome::Ignored);
        assert_eq!(result.reason.as_deref(), Some("no server, install it"));
        let result = first(absent("redis-fair"), "postgres, redis").await;
        assert_eq!(result.outcome, CheckOutcome::Failed);
        assert!(result.reason.is_some_and(|reason| reason.contains("names redis") && reason.contains("install it")));
        let result = first(absent("zk").requires("zookeeper"), "zookeeper").await;
        assert_eq!(result.outcome, CheckOutcome::Failed);
    }

    #[tokio::test]
    async fn a_server_that_does_not_connect_is_a_failure() {
        let result = first(Runner::new("x", || async { Ok(Unreachable) }), "").await;
        assert_eq!((result.outcome, result.reason.as_deref()), (CheckOutcome::Failed, Some("no address")));
    }

    #[test]
    fn an_expected_failure_is_ignored_and_an_unexpected_success_is_not() {
        let check = Check::new("fifo::order", 10, |_| Box::pin(async { Ok(()) }));
        let result = |outcome| CheckResult::new(&check, outcome, None, Duration::ZERO);
        let known = expected(result(CheckOutcome::Failed), "issue 12");
        assert_eq!(known.outcome, CheckOutcome::Ignored);
        let gone = expected(result(CheckOutcome::Passed), "issue 12");
        assert_eq!(gone.outcome, CheckOutcome::Failed);
        assert!(gone.reason.is_some_and(|reason| reason.contains("remove expect_failure")));
        assert!(Bench::new(absent("x").expect_failure("fifo::ordre", "typo"), "").unknown(&Suite::latest()).is_some());
    }
}
