//! The goals themselves.

use super::{Limit, key};
use crate::report::model::{Backend, Report, ScenarioResult, ScenarioResults};
use crate::report::text;
use crate::stats::Estimate;

type Figure = fn(&Report, &ScenarioResults, &ScenarioResult) -> Option<Estimate>;

/// What is wanted of which backends in which scenario.
pub(super) struct Wanted {
    pub(super) what: &'static str,
    pub(super) of: fn(&ScenarioResults) -> bool,
    /// The limit for a backend, or nothing where nothing is asked.
    pub(super) limit: fn(&Backend) -> Option<Limit>,
    /// The limit for the front end over a backend that does nothing.
    pub(super) front_end: Option<Limit>,
    pub(super) figure: Figure,
    pub(super) show: fn(&Estimate) -> String,
}

const fn wanted(
    what: &'static str,
    of: fn(&ScenarioResults) -> bool,
    limit: fn(&Backend) -> Option<Limit>,
    figure: Figure,
    show: fn(&Estimate) -> String,
) -> Wanted {
    Wanted { what, of, limit, front_end: None, figure, show }
}

pub(super) const WANTED: &[Wanted] = &[
    Wanted {
        what: "front end ≤ 0.6 µs of processor time a cycle",
        of: |scenario| scenario.id == "noop",
        limit: |_| None,
        front_end: Some(Limit::most(600.0)),
        figure: |_, _, result| result.cpu_ns,
        show: |cpu| format!("{} ns", text::spread(cpu)),
    },
    wanted(
        "uncontended p50 ≤ 1.05 × floor, surely ≤ 1.10 (ZooKeeper ≤ 1.0)",
        is_headline,
        |backend| match backend.kind.as_str() {
            "zookeeper" => Some(Limit::most(1.0)),
            _ => served(backend, Limit::AtMost(1.05, 1.10)),
        },
        ratio,
        text::ratio,
    ),
    wanted(
        "A/A of the floor within 0.97 and 1.03",
        is_headline,
        |backend| served(backend, Limit::Within(0.97, 1.03)),
        |_, _, result| result.aa_ratio,
        text::ratio,
    ),
    wanted(
        "cycles/s ≥ 0.9 × floor, 64 tasks",
        |scenario| scenario.id == "parallel" && scenario.parameters.contenders == 64,
        |backend| served(backend, Limit::least(0.9)),
        ratio,
        text::ratio,
    ),
    wanted(
        "hand-off p50 ≤ 1.1 × floor (etcd ≤ 0.9)",
        |scenario| scenario.id == "handoff",
        |backend| served(backend, Limit::most(if backend.kind == "etcd" { 0.9 } else { 1.1 })),
        ratio,
        text::ratio,
    ),
    wanted(
        "hand-overs/s ≥ 0.95 × floor (etcd ≥ 1.3), 8 clients",
        is_contended_8,
        |backend| served(backend, Limit::least(if backend.kind == "etcd" { 1.3 } else { 0.95 })),
        ratio,
        text::ratio,
    ),
    wanted(
        "fairness ≥ 0.99 where an order is promised, 8 clients",
        is_contended_8,
        |backend| (backend.capabilities.get("queue").map(String::as_str) == Some("fifo")).then_some(Limit::least(0.99)),
        |_, _, result| result.jain.map(exact),
        |jain| format!("{:.3}", jain.est),
    ),
    wanted(
        "hand-overs/s ≥ 0.9 × those of 8 clients, 64 clients in 8 processes",
        is_spread,
        |backend| served(backend, Limit::least(0.9)),
        of_eight,
        text::ratio,
    ),
    wanted(
        "longest wait ≤ 4 mean rounds, 64 clients in 8 processes",
        is_spread,
        |backend| served(backend, Limit::most(4.0)),
        |_, _, result| Some(exact(result.max_wait_ms? / result.mean_round_ms.filter(|round| *round > 0.0)?)),
        |rounds| format!("{:.1}", rounds.est),
    ),
    wanted(
        "hand-overs/s ≥ 20 × the floor of 8 clients, 8 tasks of a cohort",
        is_cohort,
        |backend| served(backend, Limit::least(20.0)),
        of_the_floor,
        text::ratio,
    ),
    wanted(
        "fairness ≥ 0.95, 8 tasks of a cohort",
        is_cohort,
        |backend| served(backend, Limit::least(0.95)),
        |_, _, result| result.jain.map(exact),
        |jain| format!("{:.3}", jain.est),
    ),
    wanted(
        "fewer than 5 requests/s for 50 waiters",
        |scenario| scenario.id == "waiting_cost" && scenario.parameters.contenders == 50,
        |backend| served(backend, Limit::most(5.0)),
        requests,
        |rate| format!("{:.1}/s", rate.est),
    ),
    wanted(
        "fewer than 20 requests/s for 1,000 waiters",
        |scenario| scenario.id == "waiting_cost" && scenario.parameters.contenders == 1000,
        |backend| served(backend, Limit::most(20.0)),
        requests,
        |rate| format!("{:.1}/s", rate.est),
    ),
    wanted(
        "no deadline missed, 10,000 held locks",
        is_ten_thousand,
        |backend| served(backend, Limit::most(0.0)),
        |_, _, result| Some(exact(count(result.hold_cost?.missed_deadlines))),
        |missed| format!("{:.0}", missed.est),
    ),
    wanted(
        "< 2 % of a core, 10,000 held locks on Redis",
        is_ten_thousand,
        |backend| (backend.kind == "redis").then_some(Limit::most(0.02)),
        |_, _, result| Some(exact(result.hold_cost?.client_cpu)),
        |cpu| format!("{:.2} %", cpu.est * 100.0),
    ),
    wanted(
        "< 1 kB of client memory a lock, 10,000 held locks",
        is_ten_thousand,
        |backend| served(backend, Limit::most(1000.0)),
        |_, _, result| Some(exact(result.hold_cost?.bytes_per_lock)),
        |bytes| format!("{} bytes", text::digits(bytes.est)),
    ),
    wanted(
        "connections: Redis and lease table ≤ 2, etcd and ZooKeeper 1",
        |scenario| scenario.id == "connections",
        |backend| match (backend.kind.as_str(), backend.mode.as_str()) {
            ("redis", _) | ("postgres", "lease") => Some(Limit::most(2.0)),
            ("etcd" | "zookeeper", _) => Some(Limit::most(1.0)),
            _ => None,
        },
        |_, _, result| {
            let found = result.connections.as_ref()?;
            Some(exact(count(found.held_connections.max(found.waited_connections))))
        },
        |connections| format!("{:.0}", connections.est),
    ),
    wanted(
        "next grant within what is promised",
        |scenario| scenario.id == "takeover",
        |backend| served(backend, Limit::most(1.0)),
        |_, _, result| {
            let takeover = result.takeover.as_ref().filter(|takeover| takeover.bound_seconds > 0.0)?;
            let Estimate { est, lo, hi } = takeover.seconds;
            let bound = takeover.bound_seconds;
            Some(Estimate::new(est / bound, lo / bound, hi / bound))
        },
        |share| format!("{:.2} of it", share.est),
    ),
];

fn is_headline(scenario: &ScenarioResults) -> bool {
    matches!(key(scenario), ("uncontended", _, _, "same", "idle"))
}

fn is_contended_8(scenario: &ScenarioResults) -> bool {
    matches!(key(scenario), ("contended", 8, "own", ..)) && scenario.parameters.processes == 1
}

fn is_spread(scenario: &ScenarioResults) -> bool {
    scenario.id == "contended" && scenario.parameters.contenders == 64 && scenario.parameters.processes == 8
}

fn is_cohort(scenario: &ScenarioResults) -> bool {
    scenario.id == "contended" && scenario.parameters.contenders == 8 && scenario.parameters.local_queue == "cohort"
}

fn is_ten_thousand(scenario: &ScenarioResults) -> bool {
    scenario.id == "hold_cost" && scenario.parameters.contenders == 10_000
}

/// The limit for backends with a server.
fn served(backend: &Backend, limit: Limit) -> Option<Limit> {
    (!matches!(backend.kind.as_str(), "memory" | "file")).then_some(limit)
}

fn ratio(_: &Report, _: &ScenarioResults, result: &ScenarioResult) -> Option<Estimate> {
    result.floor_ratio
}

fn requests(_: &Report, _: &ScenarioResults, result: &ScenarioResult) -> Option<Estimate> {
    result.server_commands_per_second.map(exact)
}

/// The rate over that of 8 clients. The trials are not paired, so the interval is the widest that both allow.
fn of_eight(report: &Report, _: &ScenarioResults, result: &ScenarioResult) -> Option<Estimate> {
    let eight = report.find("contended", 8, "own", "same")?;
    let eight = eight.results.iter().find(|other| other.backend == result.backend)?.per_second?;
    result.per_second.and_then(|rate| rate.over(&eight))
}

/// The rate over that of the driver with 8 clients, as [`of_eight`].
fn of_the_floor(report: &Report, _: &ScenarioResults, result: &ScenarioResult) -> Option<Estimate> {
    let eight = report.find("contended", 8, "own", "same")?;
    let floor = eight.results.iter().find(|other| other.backend == result.backend)?.floor.as_ref()?.per_second;
    result.per_second.and_then(|rate| rate.over(&exact(floor)))
}

const fn exact(value: f64) -> Estimate {
    Estimate::new(value, value, value)
}

#[expect(clippy::cast_precision_loss, reason = "a count of what should be few")]
const fn count(of: u64) -> f64 {
    of as f64
}
