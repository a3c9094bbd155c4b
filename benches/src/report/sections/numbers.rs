//! The figures of every scenario, and the goals.

use super::{peers, rows};
use crate::report::anchors;
use crate::report::goals::{Verdict, key};
use crate::report::model::{Report, ScenarioResults};
use crate::report::table::{Cell, Section, Table, Tone};

pub(super) fn numbers(report: &Report) -> Section {
    let text = "Medians over the trials, in brackets the 95 % interval. The floor is the bare driver of the same server doing the \
                least that locks there, in the same trials; ÷ floor is lockyard over it, and ≈ says that the interval holds 1: no \
                difference was seen. † marks a figure that varies by more than 10 % between the trials.";
    let mut section = Section::new("numbers", "What it costs", text);
    section.tables.extend(report.scenarios.iter().map(|scenario| table(report, scenario)));
    let missing: Vec<&str> = MEASURES.iter().filter(|(id, _)| !has(report, id)).map(|(_, what)| *what).collect();
    if !missing.is_empty() {
        section.text.push(format!("Not measured in this run (suite {}): {}.", report.suite, missing.join("; ")));
    }
    section.tables.extend(peers::known(report));
    section.tables.extend(peers::compared(report));
    section.tables.push(goals(report));
    section
}

/// Scenarios that short suites leave out.
const MEASURES: &[(&str, &str)] = &[
    ("uncontended", "what one lock costs"),
    ("parallel", "many names at once"),
    ("contended", "contention"),
    ("handoff", "the hand-off to a waiter"),
    ("open_loop", "cycles due at a fixed rate"),
    ("waiting_cost", "what waiters cost the server"),
    ("hold_cost", "what held locks cost the client"),
    ("connections", "connections"),
    ("takeover", "the gap after a holder is gone"),
    ("failover", "a restart of the server"),
];

fn has(report: &Report, id: &str) -> bool {
    report.scenarios.iter().any(|scenario| scenario.id == id)
}

fn table(report: &Report, scenario: &ScenarioResults) -> Table {
    let mut table = Table::new(caption(scenario), rows::columns(scenario)).at(anchors::scenario(scenario));
    for result in &scenario.results {
        let mut cells = rows::cells(scenario, result);
        cells.push(note(result));
        table.row_at(anchors::figure(scenario, &result.backend), report.name(&result.backend), cells);
    }
    table.without_empty_columns()
}

/// What a scenario measures, in a line.
pub(super) fn caption(scenario: &ScenarioResults) -> String {
    let parameters = &scenario.parameters;
    let fault = parameters.fault.as_deref().unwrap_or_default();
    match key(scenario) {
        ("noop", ..) => "noop: the front end over a backend that does nothing".to_owned(),
        ("uncontended", _, _, "fresh", _) => "uncontended: acquire and release, a new name each time".to_owned(),
        ("uncontended", _, _, _, "awake") => "uncontended: the same name, on a machine that is kept awake".to_owned(),
        ("uncontended", ..) => "uncontended: acquire and release, one client, the same name".to_owned(),
        ("parallel", n, ..) => format!("parallel: {n} tasks of one client, a name each"),
        ("contended", n, ..) if parameters.processes > 1 => {
            format!("contended: {n} clients in {} processes on one name", parameters.processes)
        }
        ("contended", 1, ..) => "contended: one contender alone (acquisitions)".to_owned(),
        ("contended", n, "own", ..) => format!("contended: {n} clients on one name"),
        ("contended", n, ..) if parameters.local_queue == "off" => {
            format!("contended: {n} tasks of one client on one name, without its local queue")
        }
        ("contended", n, ..) if parameters.local_queue == "cohort" => {
            format!("contended: {n} tasks of one client on one name, handed on 32 times for one grant of the server")
        }
        ("contended", n, ..) => format!("contended: {n} tasks of one client on one name, through its local queue"),
        ("handoff", ..) => "handoff: from the call of release to the waiting client that holds".to_owned(),
        ("open_loop", ..) => {
            let rate = parameters.rate.unwrap_or_default();
            format!("open_loop: {rate} cycles a second are due, timed from when each was due")
        }
        ("waiting_cost", n, ..) if parameters.processes > 1 => {
            format!(
                "waiting_cost: requests the server executes while {n} tasks of {} processes wait",
                parameters.processes
            )
        }
        ("waiting_cost", n, ..) => format!("waiting_cost: requests the server executes while {n} clients wait"),
        ("hold_cost", n, ..) => format!("hold_cost: what {n} held locks cost the client that holds them"),
        ("connections", n, ..) => {
            format!("connections: of one client that holds {n} names, and of one that waits for {n}")
        }
        ("takeover", ..) => {
            format!("takeover: from the moment the holder is {} to the next grant", fault.replace('_', " "))
        }
        ("failover", ..) => "failover: the server is killed and starts again with its data".to_owned(),
        (id, n, clients, name, _) => format!("{id}: {n} contenders, {clients} clients, {name} name"),
    }
}

fn note(result: &crate::report::ScenarioResult) -> Cell {
    let mut notes: Vec<String> = result.missing.iter().cloned().collect();
    notes.extend(rows::notes(result));
    if result.overlaps > 0 {
        notes.insert(0, format!("two held it at once: {} times", result.overlaps));
        return Cell::toned(notes.join("; "), Tone::Bad);
    }
    Cell::toned(notes.join("; "), if result.trials == 0 { Tone::Faint } else { Tone::Plain })
}

fn goals(report: &Report) -> Table {
    let mut table =
        Table::new("Goals: what lockyard sets itself", ["goal", "backend", "figure", "verdict"]).at("goals");
    for goal in report.goals() {
        let tone = match goal.verdict {
            Verdict::Reached => Tone::Good,
            Verdict::Missed => Tone::Bad,
            Verdict::NotMeasured => Tone::Faint,
            Verdict::ReachedUnsure | Verdict::MissedUnsure => Tone::Plain,
        };
        let verdict = Cell::toned(goal.verdict.as_str(), tone);
        table.row(goal.what, vec![goal.backend.into(), goal.figure.into(), verdict]);
    }
    table
}
