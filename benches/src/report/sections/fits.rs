//! Which backend fits: each answer leads to what shows it.

use super::capabilities::tone;
use super::evidence::{Finding, finding};
use crate::report::anchors;
use crate::report::model::{Backend, Report, ScenarioResult, ScenarioResults};
use crate::report::table::{Cell, Section, Table, Tone};
use crate::report::text;

const NOT_MEASURED: &str = "not measured";

type Answer = fn(&Report, &Backend) -> Cell;

/// The questions in the order in which readers ask them.
const QUESTIONS: &[(&str, Answer)] = &[
    ("What has to run already?", runs),
    ("A holder hangs: does the next one get in?", |report, backend| {
        promise(report, backend, "expires_hung", &["hung::holder_loses"])
    }),
    ("A paused holder writes late: do tokens refuse it?", late_write),
    ("The server restarts: are holds kept?", |report, backend| {
        promise(report, backend, "restart_safe", &["lease::kept_over_restart", "loss::restart_is_told"])
    }),
    ("The server fails over: are holds kept?", |_, backend| stated(backend, "failover_safe")),
    ("How long a gap after a holder is killed, of what is promised?", |report, backend| gap(report, backend, "killed")),
    ("How long a gap after a holder is cut off, of what is promised?", |report, backend| {
        gap(report, backend, "cut_off")
    }),
    ("What does one lock cost?", |report, backend| {
        let value = |result: &ScenarioResult| Some(text::micros(result.p50_us?.est));
        figure(backend, report.find("uncontended", 1, "one", "same"), value)
    }),
    ("How fast does it pass to a waiter?", |report, backend| {
        let value = |result: &ScenarioResult| Some(text::micros(result.p50_us?.est));
        figure(backend, report.find("handoff", 2, "own", "same"), value)
    }),
    ("How often a second can 8 clients hand one name over?", |report, backend| {
        let value = |result: &ScenarioResult| Some(text::digits(result.per_second?.est));
        figure(backend, report.find("contended", 8, "own", "same"), value)
    }),
    ("In which order do waiters get it?", |report, backend| promise(report, backend, "queue", &["fifo::order"])),
    ("Requests a second for 50 waiters", |report, backend| {
        let value = |result: &ScenarioResult| Some(format!("{:.1}", result.server_commands_per_second?));
        figure(backend, report.find("waiting_cost", 50, "own", "same"), value)
    }),
    ("Many held names: renewals a second", |report, backend| {
        let value = |result: &ScenarioResult| {
            let cost = result.hold_cost?;
            Some(format!("{:.1} for {}", cost.renewals_per_second, cost.held))
        };
        figure(backend, last(report, "hold_cost"), value)
    }),
    ("Connections for many held names", |report, backend| {
        let value = |result: &ScenarioResult| {
            let found = result.connections.as_ref()?;
            Some(format!("{} for {}", found.held_connections, found.held))
        };
        figure(backend, last(report, "connections"), value)
    }),
];

pub(super) fn fits(report: &Report) -> Section {
    let text = "One column a backend. Each answer leads to the figure, the check or the statement behind it. There is no overall \
                score: which question matters is yours to say.";
    let columns = std::iter::once("question").chain(report.ours().map(|backend| backend.id.as_str()));
    let mut table = Table::new("Question × backend", columns).at("questions");
    let mut unanswered = Vec::new();
    for (question, answer) in QUESTIONS {
        let cells: Vec<Cell> = report.ours().map(|backend| answer(report, backend)).collect();
        if cells.iter().all(|cell| cell.text == NOT_MEASURED) {
            unanswered.push(*question);
        } else {
            table.row(*question, cells);
        }
    }
    let mut section = Section::new("fits", "Which one fits", text).with([table]);
    if !unanswered.is_empty() {
        section.text.push(format!("Not measured in this run (suite {}): {}", report.suite, unanswered.join(" · ")));
    }
    section
}

fn runs(_: &Report, backend: &Backend) -> Cell {
    let what = match backend.kind.as_str() {
        "memory" => "nothing: one process",
        "file" => "nothing: one host",
        "redis" => "Redis",
        "postgres" => "Postgres",
        "etcd" => "etcd",
        "zookeeper" => "ZooKeeper",
        other => other,
    };
    Cell::new(what).shown_by(anchors::server(backend))
}

/// What a backend states, with the check that holds it to that, where one ran.
fn promise(report: &Report, backend: &Backend, capability: &str, checks: &[&str]) -> Cell {
    match finding(report, backend, checks) {
        found @ Finding::Broken(_) => found.cell("promise broken"),
        found @ Finding::Kept(_) => {
            let stated = stated(backend, capability);
            found.anchor().map_or_else(|| stated.clone(), |anchor| stated.clone().shown_by(anchor))
        }
        Finding::NotApplicable(_) | Finding::NotTested(_) => stated(backend, capability),
    }
}

fn stated(backend: &Backend, capability: &str) -> Cell {
    let value = backend.capabilities.get(capability).map(String::as_str);
    let cell = Cell::toned(value.unwrap_or("–"), tone(capability, value));
    if value.is_some() { cell.shown_by(anchors::capability(capability)) } else { cell }
}

/// Whether the resource can refuse what comes too late.
fn late_write(report: &Report, backend: &Backend) -> Cell {
    let found = finding(report, backend, &["register::paused_holder_is_refused"]);
    match (found, backend.capabilities.get("fencing").map(String::as_str)) {
        (Finding::Broken(_), _) => found.cell("no: promise broken"),
        (Finding::Kept(_), Some(fencing)) => {
            let cell = Cell::toned(format!("yes ({fencing})"), Tone::Good);
            found.anchor().map_or_else(|| cell.clone(), |anchor| cell.clone().shown_by(anchor))
        }
        (_, Some("none") | None) => Cell::toned("no", Tone::Bad).shown_by(anchors::capability("fencing")),
        (Finding::NotApplicable(_), Some(fencing)) => Cell::new(fencing).shown_by(anchors::capability("fencing")),
        (_, Some(fencing)) => Cell::new(format!("{fencing}, not tested")).shown_by(anchors::capability("fencing")),
    }
}

/// What was measured, or else what is promised.
fn gap(report: &Report, backend: &Backend, fault: &str) -> Cell {
    let takeover = report
        .scenarios
        .iter()
        .find(|scenario| scenario.id == "takeover" && scenario.parameters.fault.as_deref() == Some(fault));
    figure(backend, takeover, |result| {
        let takeover = result.takeover.as_ref()?;
        Some(format!("{} of {}", text::seconds(takeover.seconds.est), text::seconds(takeover.bound_seconds)))
    })
}

fn last<'a>(report: &'a Report, id: &str) -> Option<&'a ScenarioResults> {
    report.scenarios.iter().rfind(|scenario| scenario.id == id)
}

/// A figure of a scenario, with its link; or why there is none.
fn figure(
    backend: &Backend,
    scenario: Option<&ScenarioResults>,
    value: impl Fn(&ScenarioResult) -> Option<String>,
) -> Cell {
    let missing = || Cell::toned(NOT_MEASURED, Tone::Faint);
    let Some(scenario) = scenario else { return missing() };
    let Some(result) = scenario.results.iter().find(|result| result.backend == backend.id) else {
        return Cell::toned("n.a.", Tone::Faint);
    };
    let cell = value(result).map_or_else(missing, Cell::new);
    cell.shown_by(anchors::figure(scenario, &backend.id))
}
