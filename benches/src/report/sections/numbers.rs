//! The figures, the charts, and the goals.

use crate::report::goals::{Verdict, key};
use crate::report::model::{Report, ScenarioResult, ScenarioResults};
use crate::report::svg::{Chart, Mark};
use crate::report::table::{Cell, Drawing, Section, Table, Tone};
use crate::report::text;
use crate::stats::Estimate;

/// Beyond this share the trials differ so much that the figure is marked.
const UNSTEADY: f64 = 0.10;

pub(super) fn numbers(report: &Report) -> Section {
    let text = "Medians over the trials, in brackets the 95 % interval. The floor is the bare driver of the same server doing the \
                least that locks there, in the same trials; ÷ floor is lockyard over it, and ≈ says that the interval holds 1: no \
                difference was seen. † marks a figure that varies by more than 10 % between the trials.";
    let mut section = Section::new("numbers", "What it costs", text).with(report.scenarios.iter().map(table));
    section.charts.extend(report.find("uncontended", 1, "one", "same").and_then(|scenario| {
        let desc = "Median of one acquire and release by one client, on a logarithmic axis: further left is faster. \
                    The filled dot is lockyard with its 95 % interval, the hollow diamond the bare driver.";
        chart("Uncontended cycle", "µs", desc, scenario, |result| result.p50_us, |floor| floor.p50_us)
    }));
    section.charts.extend(report.find("contended", 8, "own", "same").and_then(|scenario| {
        let desc = "How often a second one name goes from one of 8 clients to another, on a logarithmic axis: further right is \
                    more. The filled dot is lockyard with its 95 % interval, the hollow diamond the bare driver.";
        chart("Hand-overs a second, 8 clients", "a second", desc, scenario, |result| result.per_second, |floor| floor.per_second)
    }));
    section
}

fn chart(
    title: &str,
    unit: &str,
    desc: &str,
    scenario: &ScenarioResults,
    figure: impl Fn(&ScenarioResult) -> Option<Estimate>,
    floor: impl Fn(&crate::report::model::FloorFigures) -> f64,
) -> Option<Drawing> {
    let marks = scenario.results.iter().filter_map(|result| {
        let value = figure(result)?;
        Some(Mark { label: result.backend.clone(), value, floor: result.floor.as_ref().map(&floor) })
    });
    let marks: Vec<Mark> = marks.filter(|mark| mark.value.lo > 0.0).collect();
    (!marks.is_empty()).then(|| Chart { title, unit, desc, marks }.draw())
}

fn table(scenario: &ScenarioResults) -> Table {
    let columns: &[&str] = match scenario.id.as_str() {
        "noop" => &["backend", "processor time, ns", "cycle", "cycles/s", "note"],
        "waiting_cost" => &["backend", "requests/s", "to keep sessions alive/s", "note"],
        "contended" if scenario.parameters.contenders == 1 => {
            &["backend", "acquisitions/s", "floor", "÷ floor", "fairness", "p50", "p99", "longest", "note"]
        }
        "contended" => {
            &["backend", "hand-overs/s", "floor", "÷ floor", "fairness", "wait p50", "wait p99", "longest wait", "note"]
        }
        "parallel" => &["backend", "cycles/s", "floor", "÷ floor", "p50", "p99", "note"],
        "handoff" => &["backend", "p50", "floor", "÷ floor", "p99", "longest", "note"],
        _ => &["backend", "p50", "floor", "÷ floor", "p99", "cycles/s", "note"],
    };
    let mut table = Table::new(caption(scenario), columns.iter().copied());
    for result in &scenario.results {
        let mut cells = match scenario.id.as_str() {
            "noop" => vec![rate(result.cpu_ns), latency(result.p50_us), rate(result.per_second)],
            "waiting_cost" => {
                vec![per_second(result.server_commands_per_second), per_second(result.housekeeping_per_second)]
            }
            "contended" => contended(result),
            "parallel" => parallel(result),
            "handoff" => handoff(result),
            _ => uncontended(result),
        };
        cells.push(note(result));
        table.row(result.backend.as_str(), cells);
    }
    table.without_empty_columns()
}

fn caption(scenario: &ScenarioResults) -> String {
    match key(scenario) {
        ("noop", ..) => "noop: the front end over a backend that does nothing".to_owned(),
        ("uncontended", _, _, "fresh", _) => "uncontended: acquire and release, a new name each time".to_owned(),
        ("uncontended", _, _, _, "awake") => "uncontended: the same name, on a machine that is kept awake".to_owned(),
        ("uncontended", ..) => "uncontended: acquire and release, one client, the same name".to_owned(),
        ("parallel", n, ..) => format!("parallel: {n} tasks of one client, a name each"),
        ("contended", 1, ..) => "contended: one contender alone (acquisitions)".to_owned(),
        ("contended", n, "own", ..) => format!("contended: {n} clients on one name"),
        ("contended", n, ..) => format!("contended: {n} tasks of one client on one name, through its local queue"),
        ("handoff", ..) => "handoff: from the call of release to the waiting client that holds".to_owned(),
        ("waiting_cost", n, ..) => format!("waiting_cost: requests the server executes while {n} clients wait"),
        (id, n, clients, name, _) => format!("{id}: {n} contenders, {clients} clients, {name} name"),
    }
}

fn uncontended(result: &ScenarioResult) -> Vec<Cell> {
    let floor = result.floor.map(|floor| text::micros(floor.p50_us));
    let p50 = mark(latency(result.p50_us), result);
    vec![p50, Cell::or_dash(floor), ratio(result), latency(result.p99_us), rate(result.per_second)]
}

fn handoff(result: &ScenarioResult) -> Vec<Cell> {
    let mut cells = uncontended(result);
    cells.truncate(4);
    cells.push(Cell::or_dash(result.max_wait_ms.map(text::millis)));
    cells
}

fn parallel(result: &ScenarioResult) -> Vec<Cell> {
    let floor = result.floor.map(|floor| text::digits(floor.per_second));
    let rate = mark(rate(result.per_second), result);
    vec![rate, Cell::or_dash(floor), ratio(result), latency(result.p50_us), latency(result.p99_us)]
}

fn contended(result: &ScenarioResult) -> Vec<Cell> {
    let floor = result.floor.map(|floor| text::digits(floor.per_second));
    let jain = Cell::or_dash(result.jain.map(|jain| format!("{jain:.3}")));
    let longest = Cell::or_dash(result.max_wait_ms.map(text::millis));
    let rate = mark(rate(result.per_second), result);
    vec![rate, Cell::or_dash(floor), ratio(result), jain, latency(result.p50_us), latency(result.p99_us), longest]
}

fn latency(value: Option<Estimate>) -> Cell {
    Cell::or_dash(value.as_ref().map(text::micros_spread))
}

fn rate(value: Option<Estimate>) -> Cell {
    Cell::or_dash(value.as_ref().map(text::spread))
}

fn per_second(value: Option<f64>) -> Cell {
    Cell::or_dash(value.map(|value| format!("{value:.1}")))
}

fn ratio(result: &ScenarioResult) -> Cell {
    Cell::or_dash(result.floor_ratio.as_ref().map(text::ratio))
}

fn mark(mut cell: Cell, result: &ScenarioResult) -> Cell {
    if result.variation.is_some_and(|variation| variation > UNSTEADY) {
        cell.text.push_str(" †");
    }
    cell
}

fn note(result: &ScenarioResult) -> Cell {
    let mut notes: Vec<String> = result.missing.iter().cloned().collect();
    let beside = result.beside.iter();
    notes.extend(beside.map(|other| {
        format!("{}: {}, ratio to it {}", other.what, text::micros(other.p50_us), text::ratio(&other.ratio))
    }));
    if result.overlaps > 0 {
        notes.insert(0, format!("two held it at once: {} times", result.overlaps));
        return Cell::toned(notes.join("; "), Tone::Bad);
    }
    Cell::toned(notes.join("; "), if result.trials == 0 { Tone::Faint } else { Tone::Plain })
}

pub(super) fn goals(report: &Report) -> Section {
    let mut table = Table::new("Goals", ["goal", "backend", "figure", "verdict"]);
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
    let text = "What lockyard sets itself, and what this run says about it. Where the interval reaches over the limit, the noise of \
                this machine is too large to be sure.";
    Section::new("goals", "Goals", text).with([table])
}
