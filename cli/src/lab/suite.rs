//! The conformance suite on one backend.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

use lockyard::ErrorKind;
use lockyard_conformance::{Check, CheckOutcome, CheckResult, NoHarness, Suite};

use super::interrupt::Interrupt;
use super::progress::Progress;
use super::subject::Subject;
use super::targets::Candidate;

/// How long the removal of what was left may take.
const CLEANING: Duration = Duration::from_secs(10);

/// What the suite found on one backend.
pub(super) struct Findings {
    pub(super) id: String,
    pub(super) results: Vec<CheckResult>,
    /// Why there are none, or not all.
    pub(super) trouble: Option<Trouble>,
}

/// Why a backend was not checked.
pub(super) enum Trouble {
    /// It is not here.
    Absent(String),
    /// It should be here and does not work.
    Broken(String),
    /// A signal came.
    Interrupted,
}

impl Findings {
    pub(super) fn count(&self, outcome: CheckOutcome) -> usize {
        self.results.iter().filter(|result| result.outcome == outcome).count()
    }

    /// Whether the backend is known to break a promise, or does not work at all.
    pub(super) fn failed(&self) -> bool {
        self.count(CheckOutcome::Failed) > 0 || matches!(self.trouble, Some(Trouble::Broken(_)))
    }
}

/// Which checks are wanted: those whose full name has one of the texts in it, all when there are none.
#[derive(Debug, Clone)]
pub(super) struct Selection(pub(super) Vec<String>);

impl Selection {
    pub(super) fn has(&self, backend: &str, check: &Check) -> bool {
        let name = format!("{backend}::{}", check.name);
        self.0.is_empty() || self.0.iter().any(|text| name.contains(text))
    }

    /// How many of the suite's checks are wanted on a backend.
    pub(super) fn count(&self, backend: &str, suite: &Suite) -> usize {
        suite.checks().iter().filter(|check| self.has(backend, check)).count()
    }
}

/// Runs the wanted checks on a backend, started for them or joined. `told` hears of each as it ends.
pub(super) async fn check(
    candidate: &Candidate,
    selection: &Selection,
    interrupt: &Interrupt,
    progress: &Progress,
    told: impl Fn(&CheckResult) + Send + Sync,
) -> Findings {
    let id = candidate.id.clone();
    let ended = |results, trouble| Findings { id: id.clone(), results, trouble: Some(trouble) };
    let suite = Suite::latest();
    let of = selection.count(&id, &suite);
    progress.step(0, of, "starting");
    let subject = match interrupt.unless(Subject::of(candidate)).await {
        Some(Ok(subject)) => subject,
        Some(Err(NoHarness::Skip(reason))) if is_required(candidate) => {
            let reason = format!("LOCKYARD_REQUIRE names it, and it is not here: {reason}");
            return ended(Vec::new(), Trouble::Broken(reason));
        }
        Some(Err(NoHarness::Skip(reason))) => return ended(Vec::new(), Trouble::Absent(reason)),
        Some(Err(NoHarness::Failed(reason))) => return ended(Vec::new(), Trouble::Broken(reason)),
        Some(Err(_)) => return ended(Vec::new(), Trouble::Broken("there is no harness".to_owned())),
        None => return ended(Vec::new(), Trouble::Interrupted),
    };
    // Kept here too, since an interrupted run answers nothing.
    let found = Mutex::new(Vec::new());
    let on_result = |result: &CheckResult| {
        told(result);
        let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
        found.push(result.clone());
        progress.step(found.len(), of, result.name);
    };
    let run = suite.run(subject.harness(), |check| selection.has(&candidate.id, check), on_result);
    let outcome = interrupt.unless(run).await;
    clean(&subject, &id, progress).await;
    match outcome {
        Some(Ok(results)) => Findings { id, results, trouble: None },
        Some(Err(error)) if error.kind() == ErrorKind::Unsupported => {
            ended(Vec::new(), Trouble::Absent(error.to_string()))
        }
        Some(Err(error)) => ended(Vec::new(), Trouble::Broken(error.to_string())),
        None => ended(found.into_inner().unwrap_or_else(PoisonError::into_inner), Trouble::Interrupted),
    }
}

async fn clean(subject: &Subject, id: &str, progress: &Progress) {
    let failed = match tokio::time::timeout(CLEANING, subject.clean()).await {
        Ok(Ok(())) => return,
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no answer within {CLEANING:?}"),
    };
    progress.say(&format!("{id}: what the checks left could not be removed: {failed}"));
}

fn is_required(candidate: &Candidate) -> bool {
    candidate.kind.server().parse().is_ok_and(lockyard_testbed::require::required)
}
