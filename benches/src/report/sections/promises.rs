//! What each backend promises, and what of it the suite found kept.

use std::collections::BTreeMap;

use crate::report::model::{Check, Conformance, Report};
use crate::report::table::{Cell, Section, Table, Tone};

/// The capabilities with the question that each answers.
const QUESTIONS: &[(&str, &str)] = &[
    ("liveness", "What keeps a hold alive?"),
    ("expires_hung", "Does a holder that hangs lose the lock?"),
    ("fencing", "Fencing tokens?"),
    ("restart_safe", "Kept across a restart of the server?"),
    ("failover_safe", "Kept across a failover?"),
    ("queue", "In which order do waiters get it?"),
    ("wake", "How do waiters learn that it is free?"),
    ("recheck", "Longest wait after a lost wake-up"),
    ("ttl_min", "Shortest ttl"),
    ("slack", "Blocks others after its ttl for at most"),
    ("kinds", "Kinds of locks"),
    ("fixed_lease", "Leases without renewal?"),
    ("inspect", "Tells who holds it?"),
];

pub(super) fn capabilities(report: &Report) -> Section {
    let columns = std::iter::once("question").chain(report.backends.iter().map(|backend| backend.id.as_str()));
    let mut table = Table::new("Capabilities as each backend states them", columns);
    for (capability, question) in QUESTIONS {
        let cells = report.backends.iter().map(|backend| {
            let value = backend.capabilities.get(*capability);
            let tone = match (*capability, value.map(String::as_str)) {
                (_, None) => Tone::Faint,
                ("fencing", Some("none")) | ("expires_hung", Some("no")) => Tone::Bad,
                ("fencing", Some("durable")) | ("expires_hung" | "restart_safe" | "failover_safe", Some("yes")) => {
                    Tone::Good
                }
                _ => Tone::Plain,
            };
            Cell::toned(value.map_or("–", String::as_str), tone)
        });
        table.row(*question, cells.collect());
    }
    let text = "No lock alone makes an effect happen once: a holder that was paused past its lease acts late all the same, and \
                only a resource that checks the fencing token refuses it. Durable tokens rise across a crash of the server too.";
    Section::new("capabilities", "What each one promises", text).with([table])
}

pub(super) fn conformance(report: &Report) -> Section {
    let text = "One column a backend, one row a clause of the contract: checks passed of those that apply. \
                A check that does not apply is listed below with its reason; a promise that is claimed and not kept has failed.";
    if report.conformance.is_empty() {
        return Section::new("conformance", "Promises kept", "The conformance suite was not part of this run.");
    }
    let mut section = Section::new("conformance", "Promises kept", text).with([matrix(&report.conformance)]);
    let details = [("failed", "Checks that failed"), ("ignored", "Checks that did not apply, with the reason")];
    section
        .tables
        .extend(details.into_iter().filter_map(|(outcome, caption)| reasons(&report.conformance, outcome, caption)));
    section
}

fn clause(check: &Check) -> &str {
    check.name.split_once("::").map_or(check.name.as_str(), |(clause, _)| clause)
}

fn matrix(suites: &[Conformance]) -> Table {
    let columns = std::iter::once("clause").chain(suites.iter().map(|suite| suite.backend.as_str()));
    let mut table = Table::new("Conformance: passed of applicable checks", columns);
    let mut clauses: Vec<&str> = Vec::new();
    for check in suites.iter().flat_map(|suite| &suite.checks) {
        if !clauses.contains(&clause(check)) {
            clauses.push(clause(check));
        }
    }
    for name in clauses {
        table.row(
            name,
            suites.iter().map(|suite| kept(suite.checks.iter().filter(|check| clause(check) == name))).collect(),
        );
    }
    table.row("all", suites.iter().map(|suite| kept(suite.checks.iter())).collect());
    table
}

fn kept<'a>(checks: impl Iterator<Item = &'a Check>) -> Cell {
    let (mut passed, mut failed, mut ignored) = (0, 0, 0);
    for check in checks {
        match check.outcome.as_str() {
            "passed" => passed += 1,
            "failed" => failed += 1,
            _ => ignored += 1,
        }
    }
    match (passed, failed, ignored) {
        (0, 0, 0) => Cell::toned("–", Tone::Faint),
        (0, 0, _) => Cell::toned("n.a.", Tone::Faint),
        (_, 0, _) => Cell::toned(format!("✓ {passed}/{passed}"), Tone::Good),
        _ => Cell::toned(format!("✗ {passed}/{}", passed + failed), Tone::Bad),
    }
}

/// The checks of an outcome, those with the same reason together.
fn reasons(suites: &[Conformance], outcome: &str, caption: &str) -> Option<Table> {
    let mut grouped: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for suite in suites {
        for check in suite.checks.iter().filter(|check| check.outcome == outcome) {
            let reason = check.reason.as_deref().unwrap_or("no reason given");
            grouped.entry((check.name.as_str(), reason)).or_default().push(&suite.backend);
        }
    }
    let mut table = Table::new(caption, ["check", "backends", "reason"]);
    for ((name, reason), backends) in grouped {
        table.row(name, vec![backends.join(", ").into(), reason.into()]);
    }
    (!table.rows.is_empty()).then_some(table)
}
