//! Results for machines: JSON and JUnit.

use std::fs;
use std::path::Path;
use std::time::Duration;

use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};
use serde_json::json;

use crate::{CheckOutcome, CheckResult};

/// The results of each backend, by its id.
pub type Results<'a> = [(&'a str, Vec<CheckResult>)];

/// Writes the files that `LOCKYARD_JSON` and `LOCKYARD_JUNIT` name.
pub(crate) fn write(version: u32, results: &Results<'_>) -> Result<(), String> {
    write_to("LOCKYARD_JSON", || Ok(to_json(version, results)))?;
    write_to("LOCKYARD_JUNIT", || to_junit(results))
}

fn write_to(variable: &str, text: impl FnOnce() -> Result<String, String>) -> Result<(), String> {
    let Some(path) = std::env::var_os(variable).filter(|path| !path.is_empty()) else { return Ok(()) };
    let path = Path::new(&path);
    fs::write(path, text()?).map_err(|error| format!("cannot write {} ({variable}): {error}", path.display()))
}

/// The results of a version of the suite as JSON.
#[must_use]
pub fn to_json(version: u32, results: &Results<'_>) -> String {
    let backends: Vec<_> = results.iter().map(|(id, checks)| json!({ "backend": id, "checks": checks })).collect();
    format!("{:#}\n", json!({ "schema": 1, "suite": version, "backends": backends }))
}

/// The results as JUnit XML.
///
/// # Errors
/// When a text cannot be written as XML.
pub fn to_junit(results: &Results<'_>) -> Result<String, String> {
    let mut report = Report::new("lockyard-conformance");
    for (id, checks) in results {
        let mut suite = TestSuite::new(*id);
        suite.add_test_cases(checks.iter().map(|check| case(id, check)));
        report.add_test_suite(suite);
    }
    report.to_string().map_err(|error| format!("cannot write JUnit: {error}"))
}

fn case(id: &str, check: &CheckResult) -> TestCase {
    let reason = check.reason.clone().unwrap_or_default();
    let status = match check.outcome {
        CheckOutcome::Passed => TestCaseStatus::success(),
        CheckOutcome::Ignored => {
            let mut status = TestCaseStatus::skipped();
            status.set_message(reason);
            status
        }
        CheckOutcome::Failed => {
            let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
            status.set_message(reason);
            status
        }
    };
    let mut case = TestCase::new(check.name, status);
    case.set_classname(id);
    case.set_time(Duration::try_from_secs_f64(check.seconds).unwrap_or_default());
    case
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results() -> Vec<(&'static str, Vec<CheckResult>)> {
        let result = |outcome, reason: Option<&str>| CheckResult {
            name: "release::only_owner",
            clause: 5,
            outcome,
            reason: reason.map(ToOwned::to_owned),
            seconds: 0.5,
        };
        let failed = result(CheckOutcome::Failed, Some("a <b> & \"c\""));
        vec![(
            "redis",
            vec![result(CheckOutcome::Passed, None), failed, result(CheckOutcome::Ignored, Some("no link"))],
        )]
    }

    #[test]
    fn junit_has_every_outcome_and_is_escaped() {
        let junit = to_junit(&results()).expect("written");
        assert!(junit.contains("tests=\"3\" skipped=\"1\""), "{junit}");
        assert!(junit.contains("a &lt;b&gt; &amp;"), "{junit}");
        assert!(junit.contains("no link"), "{junit}");
    }

    #[test]
    fn json_reads_back() {
        let json: serde_json::Value = serde_json::from_str(&to_json(1, &results())).expect("JSON");
        assert_eq!(json["backends"][0]["checks"][1]["outcome"], "failed");
        assert_eq!(json["backends"][0]["checks"][1]["clause"], 5);
    }
}
