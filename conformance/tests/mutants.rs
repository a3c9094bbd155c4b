//! Test of the tests: backends that are wrong in one way each, which must fail exactly the checks that name their fault.

#[path = "mutants/cases.rs"]
mod cases;
#[path = "mutants/fault.rs"]
mod fault;
#[path = "mutants/harness.rs"]
mod harness;
#[path = "mutants/mutant.rs"]
mod mutant;
#[path = "mutants/page.rs"]
mod page;
#[path = "mutants/recall.rs"]
mod recall;
#[path = "mutants/register.rs"]
mod register;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use cases::Case;
use harness::MutantHarness;
use lockyard_conformance::{Check, CheckOutcome, CheckResult, Suite};
use tokio::task::JoinSet;

/// A suite is busy for as long when it starts and mostly waits from then on.
const APART: Duration = Duration::from_millis(500);
/// A random run lasts for a time, and meets little on a machine that is busy: so many are given to meet a fault.
const RANDOM_RUNS: usize = 6;

/// Runs the whole suite on each wrong backend; all that fails must be named, and all that is named must fail.
async fn each_fails_exactly(cases: &[Case]) {
    let mut running = JoinSet::new();
    let mut start = tokio::time::interval(APART);
    for case in cases.iter().copied() {
        start.tick().await;
        running.spawn(mismatch(case));
    }
    let mut wrong = Vec::new();
    while let Some(ended) = running.join_next().await {
        wrong.extend(ended.expect("no panic"));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

async fn mismatch((fault, queue, liveness, named): Case) -> Option<String> {
    let harness = Arc::new(MutantHarness::new(fault, queue, liveness));
    let named: BTreeSet<&str> = named.iter().copied().collect();
    // A random run meets a fault or does not: it is made where it has to, and where nothing is wrong.
    let is_random = |check: &Check| check.name.starts_with("history::");
    let wanted = |check: &Check| {
        let left_out = is_random(check) && fault != fault::Fault::None;
        named.contains(&check.name) || !(left_out || fault.leaves_to_chance().contains(&check.name))
    };
    let mut failures = failures_of(&harness, wanted).await;
    for _ in 1..RANDOM_RUNS {
        let missed = |check: &Check| {
            is_random(check) && named.contains(&check.name) && failures.iter().all(|one| one.name != check.name)
        };
        let more = failures_of(&harness, missed).await;
        failures.extend(more);
    }
    let failed: BTreeSet<&str> = failures.iter().map(|result| result.name).collect();
    if failed == named {
        return None;
    }
    let reasons: Vec<_> = failures.iter().map(|result| (result.name, &result.reason)).collect();
    let missed: Vec<_> = named.difference(&failed).collect();
    let more: Vec<_> = failed.difference(&named).collect();
    Some(format!("{fault:?}: not failed {missed:?}, failed without being named {more:?}\n{reasons:#?}"))
}

async fn failures_of(harness: &Arc<MutantHarness>, wanted: impl Fn(&Check) -> bool + Send) -> Vec<CheckResult> {
    let results =
        Suite::latest().run(Arc::<MutantHarness>::clone(harness), wanted, |_| {}).await.expect("memory connects");
    results.into_iter().filter(|result| result.outcome == CheckOutcome::Failed).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_of_ownership() {
    each_fails_exactly(cases::OWNERSHIP).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_of_tokens_and_names() {
    each_fails_exactly(cases::TOKENS_AND_NAMES).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_of_time() {
    each_fails_exactly(cases::TIME).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_of_waiting() {
    each_fails_exactly(cases::WAITING).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_of_answers_and_sessions() {
    each_fails_exactly(cases::ANSWERS_AND_SESSIONS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_of_registers() {
    each_fails_exactly(cases::REGISTERS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_that_only_a_random_run_meets() {
    each_fails_exactly(cases::RANDOM_RUNS).await;
}

/// A check that no wrong backend fails proves nothing.
#[test]
fn every_check_is_failed_by_a_wrong_backend() {
    let named: BTreeSet<&str> =
        cases::ALL.iter().flat_map(|(_, cases)| cases.iter()).flat_map(|case| case.3).copied().collect();
    let suite = Suite::latest();
    let checks: BTreeSet<&str> = suite.checks().iter().map(|check| check.name).collect();
    let unproved: Vec<_> = checks.difference(&named).collect();
    assert!(unproved.is_empty(), "no wrong backend fails {unproved:?}");
    let unknown: Vec<_> = named.difference(&checks).collect();
    assert!(unknown.is_empty(), "the suite has no check {unknown:?}");
}
