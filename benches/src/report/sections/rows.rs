//! The columns of each scenario, and the cells of a result under them.

use crate::report::model::{ScenarioResult, ScenarioResults};
use crate::report::table::{Cell, Tone};
use crate::report::text;
use crate::stats::Estimate;

/// Beyond this share the trials differ so much that the figure is marked.
pub(super) const UNSTEADY: f64 = 0.10;

/// The heads of the columns; a note comes last.
pub(super) fn columns(scenario: &ScenarioResults) -> impl Iterator<Item = &'static str> {
    let columns: &[&str] = match scenario.id.as_str() {
        "noop" => &["processor time, ns", "cycle", "cycles/s"],
        "waiting_cost" => &["requests/s", "to keep sessions alive/s"],
        "contended" if scenario.parameters.contenders == 1 => {
            &["acquisitions/s", "floor", "÷ floor", "fairness", "p50", "p99", "longest", "mean round"]
        }
        "contended" => {
            &["hand-overs/s", "floor", "÷ floor", "fairness", "wait p50", "wait p99", "longest wait", "mean round"]
        }
        "parallel" => &["cycles/s", "floor", "÷ floor", "p50", "p99"],
        "handoff" => &["p50", "floor", "÷ floor", "p99", "longest"],
        "hold_cost" => &["held", "ttl", "renewals/s", "client, % of a core", "bytes a lock", "deadlines missed"],
        "connections" => &["held", "connections", "waited for", "connections waiting"],
        "takeover" => &["next grant after", "promised within", "kept"],
        "failover" => &["next grant after", "hold", "overlap", "tokens"],
        _ => &["p50", "floor", "÷ floor", "p99", "cycles/s"],
    };
    std::iter::once("backend").chain(columns.iter().copied()).chain(std::iter::once("note"))
}

/// The cells of a result, without the note.
pub(super) fn cells(scenario: &ScenarioResults, result: &ScenarioResult) -> Vec<Cell> {
    match scenario.id.as_str() {
        "noop" => vec![rate(result.cpu_ns), latency(result.p50_us), rate(result.per_second)],
        "waiting_cost" => {
            vec![per_second(result.server_commands_per_second), per_second(result.housekeeping_per_second)]
        }
        "contended" => contended(result),
        "parallel" => parallel(result),
        "handoff" => handoff(result),
        "hold_cost" => hold_cost(result),
        "connections" => connections(result),
        "takeover" => takeover(result),
        "failover" => failover(result),
        _ => uncontended(result),
    }
}

/// What is said beside the figures.
pub(super) fn notes(result: &ScenarioResult) -> impl Iterator<Item = String> {
    let beside = result.beside.iter().map(|other| {
        format!("{}: {}, ratio to it {}", other.what, text::micros(other.p50_us), text::ratio(&other.ratio))
    });
    let connections = result.connections.as_ref().map(|found| found.note.clone());
    beside.chain(connections.filter(|note| !note.is_empty()))
}

fn uncontended(result: &ScenarioResult) -> Vec<Cell> {
    let floor = result.floor.map(|floor| text::micros(floor.p50_us));
    let p50 = mark(latency(result.p50_us), result);
    vec![p50, Cell::or_dash(floor), ratio(result), latency(result.p99_us), rate(result.per_second)]
}

fn handoff(result: &ScenarioResult) -> Vec<Cell> {
    let mut cells = uncontended(result);
    cells.truncate(4);
    cells.push(millis(result.max_wait_ms));
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
    let rate = mark(rate(result.per_second), result);
    let waits =
        [latency(result.p50_us), latency(result.p99_us), millis(result.max_wait_ms), millis(result.mean_round_ms)];
    [rate, Cell::or_dash(floor), ratio(result), jain].into_iter().chain(waits).collect()
}

fn hold_cost(result: &ScenarioResult) -> Vec<Cell> {
    let Some(cost) = &result.hold_cost else { return vec![Cell::or_dash(None); 6] };
    let missed = if cost.missed_deadlines == 0 { Tone::Good } else { Tone::Bad };
    vec![
        cost.held.to_string().into(),
        text::seconds(cost.ttl_seconds).into(),
        format!("{:.1}", cost.renewals_per_second).into(),
        format!("{:.2} %", cost.client_cpu * 100.0).into(),
        text::digits(cost.bytes_per_lock).into(),
        Cell::toned(cost.missed_deadlines.to_string(), missed),
    ]
}

fn connections(result: &ScenarioResult) -> Vec<Cell> {
    let Some(found) = &result.connections else { return vec![Cell::or_dash(None); 4] };
    [found.held, found.held_connections, found.waited, found.waited_connections].map(|n| n.to_string().into()).into()
}

fn takeover(result: &ScenarioResult) -> Vec<Cell> {
    let Some(takeover) = &result.takeover else { return vec![Cell::or_dash(None); 3] };
    let kept = if takeover.seconds.hi <= takeover.bound_seconds {
        Cell::toned("yes", Tone::Good)
    } else {
        Cell::toned("no", Tone::Bad)
    };
    vec![text::seconds_spread(&takeover.seconds).into(), text::seconds(takeover.bound_seconds).into(), kept]
}

fn failover(result: &ScenarioResult) -> Vec<Cell> {
    let Some(failover) = &result.failover else { return vec![Cell::or_dash(None); 4] };
    let overlap = if failover.overlap { Cell::toned("seen", Tone::Bad) } else { Cell::toned("none seen", Tone::Good) };
    let kept = if failover.kept { Cell::toned("kept", Tone::Good) } else { "lost".into() };
    let tokens = match failover.tokens.as_str() {
        "rise" => Cell::toned("rise", Tone::Good),
        "fall" => Cell::toned("fall", Tone::Bad),
        other => Cell::toned(other, Tone::Faint),
    };
    vec![text::seconds(failover.gap_seconds).into(), kept, overlap, tokens]
}

fn latency(value: Option<Estimate>) -> Cell {
    Cell::or_dash(value.as_ref().map(text::micros_spread))
}

fn millis(value: Option<f64>) -> Cell {
    Cell::or_dash(value.map(text::millis))
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
