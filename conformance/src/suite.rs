//! The suite: all checks of one version.

use std::sync::Arc;
use std::time::Duration;

use lockyard_api::Clock;
use tokio::sync::{RwLock, Semaphore};
use tokio::task::JoinSet;

use crate::checks;
use crate::timing::scaled;
use crate::{Check, CheckOutcome, CheckResult, Checked, Context, Harness, Reach, Stop};

/// All checks of one version of the suite. Names are stable within a version; new checks come with a new one.
#[derive(Debug, Clone)]
pub struct Suite {
    version: u32,
    checks: Vec<Check>,
}

impl Suite {
    /// The longest that a check may take (times `LOCKYARD_TIME_FACTOR`) before it counts as hung.
    pub const LIMIT: Duration = Duration::from_secs(60);
    /// How many checks [`Suite::run`] runs at once: they mostly wait.
    const TOGETHER: usize = 32;

    /// The first version.
    #[must_use]
    pub fn v1() -> Self {
        Self::of(1)
    }

    /// The second version: the first, with histories, the fenced register and more of what goes wrong.
    #[must_use]
    pub fn v2() -> Self {
        Self::of(2)
    }

    /// The newest version, which the runner and the command line use.
    #[must_use]
    pub fn latest() -> Self {
        Self::v2()
    }

    fn of(version: u32) -> Self {
        Self { version, checks: checks::up_to(version) }
    }

    /// The version.
    #[must_use]
    pub const fn version(&self) -> u32 {
        self.version
    }

    /// The checks, in the order of the clauses.
    #[must_use]
    pub fn checks(&self) -> &[Check] {
        &self.checks
    }

    /// Runs the checks that `filter` wants: many at once, those that disturb the whole server alone and last. `on_result`
    /// is told of each as it ends; the answer has them in the order of the suite.
    ///
    /// # Errors
    /// What the first connection of the harness answered. Checks that fail are results, not errors.
    ///
    /// # Cancel safety
    /// Dropped half-way, the running checks are ended and their claims left to expire.
    pub async fn run(
        &self,
        harness: Arc<dyn Harness>,
        filter: impl Fn(&Check) -> bool + Send,
        mut on_result: impl FnMut(&CheckResult) + Send,
    ) -> lockyard_api::Result<Vec<CheckResult>> {
        let ctx = Context::new(harness).await?;
        let (alone, beside): (Vec<_>, Vec<_>) = self
            .checks
            .iter()
            .copied()
            .enumerate()
            .filter(|(_, c)| filter(c))
            .partition(|(_, c)| c.reach == Reach::Server);
        let mut results = Vec::new();
        let permits = Arc::new(Semaphore::new(Self::TOGETHER));
        let mut running = JoinSet::new();
        for (at, check) in beside {
            let (ctx, permits) = (ctx.clone(), Arc::clone(&permits));
            running.spawn(async move {
                let _permit = permits.acquire_owned().await;
                (at, run_check(check, ctx).await)
            });
        }
        while let Some(Ok((at, result))) = running.join_next().await {
            on_result(&result);
            results.push((at, result));
        }
        for (at, check) in alone {
            let result = run_check(check, ctx.clone()).await;
            on_result(&result);
            results.push((at, result));
        }
        results.sort_by_key(|(at, _)| *at);
        Ok(results.into_iter().map(|(_, result)| result).collect())
    }
}

/// Runs a check when nothing that it disturbs or is disturbed by runs.
pub(crate) async fn run_gated(check: Check, ctx: Context, gate: &RwLock<()>) -> CheckResult {
    if check.reach == Reach::Server {
        let _alone = gate.write().await;
        return run_check(check, ctx).await;
    }
    let _beside = gate.read().await;
    run_check(check, ctx).await
}

async fn run_check(check: Check, ctx: Context) -> CheckResult {
    let clock = Clock::system();
    let start = clock.now();
    let checked = limited(check, ctx).await;
    let took = clock.now().since(start);
    let (outcome, reason) = match checked {
        Ok(()) => (CheckOutcome::Passed, None),
        Err(Stop::Ignored(reason)) => (CheckOutcome::Ignored, Some(reason)),
        Err(Stop::Failed(text)) => (CheckOutcome::Failed, Some(text)),
    };
    CheckResult::new(&check, outcome, reason, took)
}

async fn limited(check: Check, ctx: Context) -> Checked {
    let limit = scaled(Suite::LIMIT);
    // In a task of its own: a panic of the backend fails this check alone.
    let mut task = JoinSet::new();
    task.spawn(async move { (check.run)(&ctx).await });
    match tokio::time::timeout(limit, task.join_next()).await {
        Ok(Some(Ok(checked))) => checked,
        Ok(Some(Err(panic))) => Err(Stop::Failed(format!("the check ended by a panic: {panic}"))),
        Ok(None) => Err(Stop::Failed("the check never ran".to_owned())),
        Err(_) => Err(Stop::Failed(format!("the check hung: no end within {limit:?}"))),
    }
}
