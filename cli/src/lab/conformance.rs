//! `lockyard conformance`: the suite alone.

use std::fs;
use std::path::Path;

use lockyard::Clock;
use lockyard_conformance::{CheckOutcome, CheckResult, Suite, report};

use super::interrupt::Interrupt;
use super::progress::Progress;
use super::suite::{self, Findings, Selection, Trouble};
use super::targets::{self, Candidate};
use crate::args::ConformanceArgs;
use crate::exit::{Exit, Failure};
use crate::output::{print, say};

pub(crate) async fn conformance(args: ConformanceArgs) -> Result<Exit, Failure> {
    let mut candidates = targets::chosen(&args.targets)?;
    let selection = Selection(args.filters.clone());
    let version = Suite::latest();
    candidates.retain(|candidate| selection.count(&candidate.id, &version) > 0);
    if candidates.is_empty() {
        say(format_args!("no check has one of these texts in its name: {}", args.filters.join(" ")));
        return Ok(Exit::NothingSelected);
    }
    if args.list {
        list(&candidates, &selection, &version);
        return Ok(Exit::Success);
    }
    let interrupt = Interrupt::listen()?;
    let began = Clock::system().now();
    let mut all = Vec::new();
    for candidate in &candidates {
        if interrupt.signal().is_none() {
            all.push(check(candidate, &selection, &interrupt).await);
        }
    }
    let took = Clock::system().now().since(began);
    say(format_args!("{} in {:.1} s", summary(&all), took.as_secs_f64()));
    write(&args, &all)?;
    match interrupt.signal() {
        Some(signal) => Ok(signal.into()),
        None => verdict(&candidates, &all),
    }
}

fn list(candidates: &[Candidate], selection: &Selection, version: &Suite) {
    for candidate in candidates {
        let wanted = version.checks().iter().filter(|check| selection.has(&candidate.id, check));
        wanted.for_each(|check| print(format_args!("{}::{}", candidate.id, check.name)));
    }
}

async fn check(candidate: &Candidate, selection: &Selection, interrupt: &Interrupt) -> Findings {
    let progress = Progress::beside_lines(&candidate.id);
    let findings = suite::check(candidate, selection, interrupt, &progress, |result| {
        progress.print(&line(&candidate.id, result));
    });
    let findings = findings.await;
    progress.finish();
    match &findings.trouble {
        Some(Trouble::Absent(reason)) => print(format_args!("SKIP {} ({reason})", candidate.id)),
        Some(Trouble::Broken(reason)) => print(format_args!("FAIL {} ({reason})", candidate.id)),
        Some(Trouble::Interrupted) | None => {}
    }
    findings
}

/// `PASS [0.4s] redis::release::only_owner`.
pub(super) fn line(id: &str, result: &CheckResult) -> String {
    let word = match result.outcome {
        CheckOutcome::Passed => "PASS",
        CheckOutcome::Failed => "FAIL",
        _ => "SKIP",
    };
    let reason = result.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
    format!("{word} [{:.1}s] {id}::{}{reason}", result.seconds, result.name)
}

/// `77 passed, 0 failed, 12 do not apply on 3 backends`.
fn summary(all: &[Findings]) -> String {
    let count = |outcome| all.iter().map(|findings| findings.count(outcome)).sum::<usize>();
    let (passed, failed, ignored) =
        (count(CheckOutcome::Passed), count(CheckOutcome::Failed), count(CheckOutcome::Ignored));
    let checked = all.iter().filter(|findings| !findings.results.is_empty()).count();
    let backends = if checked == 1 { "backend" } else { "backends" };
    let mut text = format!("{passed} passed, {failed} failed, {ignored} do not apply, on {checked} {backends}");
    let broken = all.iter().filter(|findings| matches!(findings.trouble, Some(Trouble::Broken(_)))).count();
    let absent = all.iter().filter(|findings| matches!(findings.trouble, Some(Trouble::Absent(_)))).count();
    if broken > 0 {
        text += &format!("; {broken} do not work");
    }
    if absent > 0 {
        text += &format!("; {absent} not here");
    }
    text
}

fn verdict(candidates: &[Candidate], all: &[Findings]) -> Result<Exit, Failure> {
    if all.iter().any(Findings::failed) {
        return Ok(Exit::CheckFailed);
    }
    let missing = |(candidate, findings): &(&Candidate, &Findings)| candidate.asked_for && findings.results.is_empty();
    if let Some((candidate, _)) = candidates.iter().zip(all).find(missing) {
        return Err(Failure::new(Exit::Unreachable, format!("{} was asked for and is not here", candidate.id)));
    }
    Ok(Exit::Success)
}

fn write(args: &ConformanceArgs, all: &[Findings]) -> Result<(), Failure> {
    if let Some(path) = &args.export_json {
        write_file(path, &report::to_json(Suite::latest().version(), &by_backend(all)))?;
    }
    args.export_junit.as_deref().map_or(Ok(()), |path| write_junit(path, all))
}

/// What was found, as JUnit XML.
pub(super) fn write_junit(path: &Path, all: &[Findings]) -> Result<(), Failure> {
    write_file(path, &report::to_junit(&by_backend(all)).map_err(Failure::internal)?)
}

fn by_backend(all: &[Findings]) -> Vec<(&str, Vec<CheckResult>)> {
    all.iter().map(|findings| (findings.id.as_str(), findings.results.clone())).collect()
}

pub(super) fn write_file(path: &Path, text: &str) -> Result<(), Failure> {
    fs::write(path, text).map_err(|error| Failure::internal(format!("cannot write {}: {error}", path.display())))
}
