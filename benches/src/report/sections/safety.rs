//! What faults do: from the suite, and from what was seen while it was measured.

use std::collections::BTreeMap;

use super::evidence::finding;
use super::faults::FAULTS;
use crate::report::anchors;
use crate::report::model::{Check, Conformance, Report, ScenarioResult};
use crate::report::table::{Cell, Section, Table, Tone};

pub(super) fn safety(report: &Report) -> Section {
    let text = "Work × fault on real servers. ok: every check that applies passed; overlap seen: one failed that shows two holders; \
                not tested: the fault could not be made here, or the suite was not run; n.a.: what is asked is not promised, or \
                cannot happen there. Each cell leads to the check behind it.";
    let mut section = Section::new("safety", "Is it safe under faults", text);
    if report.conformance.is_empty() {
        section.text.push("The conformance suite was not part of this run: nothing below was tested.".to_owned());
    }
    section.text.push(again(report));
    section.tables.push(faults(report));
    section.tables.extend(seen(report));
    if report.conformance.is_empty() {
        return section;
    }
    section.tables.push(clauses(&report.conformance));
    section.tables.extend(failures(&report.conformance));
    section.tables.push(checks(&report.conformance).folded());
    section.tables.extend(reasons(&report.conformance).map(Table::folded));
    section
}

/// How to see it again.
fn again(report: &Report) -> String {
    let backend =
        report.ours().find(|backend| !backend.version.is_empty()).map_or("redis", |backend| backend.id.as_str());
    format!(
        "One check again: lockyard conformance --backend {backend} hung::holder_loses. The random runs (history::…) draw a seed of \
         their own; a failure names it, and LOCKYARD_SEED=… decides the same again. What was measured has the seed {}.",
        report.seed
    )
}

fn faults(report: &Report) -> Table {
    let backends: Vec<_> = report.ours().collect();
    let heads = ["work", "fault"].into_iter().chain(backends.iter().map(|backend| backend.id.as_str()));
    let mut table = Table::new("Work × fault", heads).at("faults");
    for fault in FAULTS {
        let cells = backends.iter().map(|backend| finding(report, backend, fault.checks).cell(fault.failure.words()));
        table.row(fault.work, std::iter::once(fault.fault.into()).chain(cells).collect());
    }
    table
}

/// Overlaps that were counted while it was measured, and what fencing makes of them.
fn seen(report: &Report) -> Option<Table> {
    let columns = ["backend", "two at once while contended", "after a restart of the server", "with fencing"];
    let mut table = Table::new("Overlaps counted while it was measured", columns).at("overlaps");
    for backend in report.ours() {
        let of = |id: &str| {
            let scenarios = report.scenarios.iter().filter(move |scenario| scenario.id == id);
            let results = scenarios.flat_map(|scenario| scenario.results.iter().map(move |result| (scenario, result)));
            results.filter(|(_, result)| result.backend == backend.id && result.trials > 0).collect::<Vec<_>>()
        };
        let contended = of("contended");
        let overlaps: u64 = contended.iter().map(|(_, result)| result.overlaps).sum();
        let counted = contended.first().map(|(scenario, _)| {
            let tone = if overlaps == 0 { Tone::Good } else { Tone::Bad };
            Cell::toned(overlaps.to_string(), tone).shown_by(anchors::figure(scenario, &backend.id))
        });
        let restarted = of("failover").into_iter().find(|(_, result)| result.failover.is_some());
        if counted.is_none() && restarted.is_none() {
            continue;
        }
        let (after, fenced) = match restarted {
            Some((scenario, result)) => {
                let anchor = anchors::figure(scenario, &backend.id);
                let (after, fenced) = restart(result);
                (after.shown_by(anchor.clone()), fenced.shown_by(anchor))
            }
            None => (Cell::toned("not tested", Tone::Faint), Cell::toned("not tested", Tone::Faint)),
        };
        table.row(backend.id.as_str(), vec![counted.unwrap_or_else(|| Cell::or_dash(None)), after, fenced]);
    }
    (!table.rows.is_empty()).then_some(table)
}

/// Without fencing, and with it.
fn restart(result: &ScenarioResult) -> (Cell, Cell) {
    let Some(failover) = &result.failover else { return (Cell::or_dash(None), Cell::or_dash(None)) };
    match (failover.overlap, failover.tokens.as_str()) {
        (false, _) => (Cell::toned("ok", Tone::Good), Cell::toned("ok", Tone::Good)),
        (true, "rise") => (Cell::toned("overlap seen", Tone::Bad), Cell::toned("the late one is refused", Tone::Good)),
        (true, _) => (Cell::toned("overlap seen", Tone::Bad), Cell::toned("overlap seen", Tone::Bad)),
    }
}

fn clause(check: &Check) -> &str {
    check.name.split_once("::").map_or(check.name.as_str(), |(clause, _)| clause)
}

fn columns<'a>(first: &'a str, suites: &'a [Conformance]) -> impl Iterator<Item = &'a str> {
    std::iter::once(first).chain(suites.iter().map(|suite| suite.backend.as_str()))
}

fn clauses(suites: &[Conformance]) -> Table {
    let mut table = Table::new("Conformance: passed of applicable checks, by clause", columns("clause", suites));
    let mut names: Vec<&str> = Vec::new();
    for check in suites.iter().flat_map(|suite| &suite.checks) {
        if !names.contains(&clause(check)) {
            names.push(clause(check));
        }
    }
    for name in names {
        let cells = suites.iter().map(|suite| kept(suite.checks.iter().filter(|check| clause(check) == name)));
        table.row(name, cells.collect());
    }
    table.row("all", suites.iter().map(|suite| kept(suite.checks.iter())).collect());
    table.at("conformance")
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

/// Each check with what it said of each backend: what cells elsewhere link to.
fn checks(suites: &[Conformance]) -> Table {
    let mut table = Table::new("Every check", columns("check", suites)).at("checks");
    let mut names: Vec<&str> = Vec::new();
    for check in suites.iter().flat_map(|suite| &suite.checks) {
        if !names.contains(&check.name.as_str()) {
            names.push(&check.name);
        }
    }
    for name in names {
        let cells = suites.iter().map(|suite| {
            let outcome = suite.checks.iter().find(|check| check.name == name).map(|check| check.outcome.as_str());
            match outcome {
                Some("passed") => Cell::toned("✓", Tone::Good),
                Some("failed") => Cell::toned("✗", Tone::Bad),
                Some(_) => Cell::toned("n.a.", Tone::Faint),
                None => Cell::or_dash(None),
            }
        });
        table.row_at(anchors::check(name), name, cells.collect());
    }
    table
}

/// The checks that failed, with the line that runs each again.
fn failures(suites: &[Conformance]) -> Option<Table> {
    let mut table = Table::new("Checks that failed", ["check", "backend", "reason", "again"]).at("failed");
    for suite in suites {
        for check in suite.checks.iter().filter(|check| check.outcome == "failed") {
            let reason = check.reason.as_deref().unwrap_or("no reason given");
            let line = format!("{}lockyard conformance --backend {} {}", seed(reason), suite.backend, check.name);
            let cells = vec![suite.backend.as_str().into(), reason.into(), line.into()];
            table.row(check.name.as_str(), cells);
        }
    }
    (!table.rows.is_empty()).then_some(table)
}

/// The seed that a reason names, as it stands before a command.
fn seed(reason: &str) -> String {
    let digits = reason.split_once("LOCKYARD_SEED=").map(|(_, rest)| rest.chars().take_while(char::is_ascii_digit));
    let seed = digits.map(Iterator::collect::<String>).filter(|seed| !seed.is_empty());
    seed.map(|seed| format!("LOCKYARD_SEED={seed} ")).unwrap_or_default()
}

/// The checks that did not apply, those with the same reason together.
fn reasons(suites: &[Conformance]) -> Option<Table> {
    let mut grouped: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for suite in suites {
        for check in suite.checks.iter().filter(|check| check.outcome == "ignored") {
            let reason = check.reason.as_deref().unwrap_or("no reason given");
            grouped.entry((check.name.as_str(), reason)).or_default().push(&suite.backend);
        }
    }
    let mut table = Table::new("Checks that did not apply, with the reason", ["check", "backends", "reason"]);
    for ((name, reason), backends) in grouped {
        table.row(name, vec![backends.join(", ").into(), reason.into()]);
    }
    (!table.rows.is_empty()).then(|| table.at("ignored"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_says_how_to_see_it_again() {
        let reason = "two held it [LOCKYARD_SEED=42 decides the same again]".to_owned();
        let check = Check::new("history::random_links", "failed", Some(reason), 0.0);
        let table = failures(&[Conformance::new("redis", vec![check])]).expect("a failure");
        let line = &table.rows[0].cells[2].text;
        assert_eq!(line, "LOCKYARD_SEED=42 lockyard conformance --backend redis history::random_links");
    }
}
