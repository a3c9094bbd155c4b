//! Scenarios of several processes, of what breaks, and of what a client uses: on real servers, with tiny counts. This program is
//! also the client that they start.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};
use lockyard_benches::report::{Report, ScenarioResult, Tool};
use lockyard_benches::{Plan, Progress, Spawn, Suite, Target, run, serve};
use lockyard_testbed::timing::scaled;
use tokio::process::Command;

#[path = "../support/targets.rs"]
mod targets;

/// Set in the environment of a client: the URL of its backend.
const URL: &str = "LOCKYARD_BENCH_WORKER_URL";

fn main() -> ExitCode {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    if let Ok(url) = std::env::var(URL) {
        runtime.block_on(serve(targets::connect(&url))).expect("it serves");
        return ExitCode::SUCCESS;
    }
    let runtime = Arc::new(runtime);
    let backends = ["file", "redis", "postgres-advisory", "postgres-lease", "etcd", "zookeeper"];
    let mut trials: Vec<Trial> = Vec::new();
    for backend in backends {
        let runtime = Arc::clone(&runtime);
        trials.push(Trial::test(backend, move || {
            runtime.block_on(every_scenario(backend));
            Ok::<_, Failed>(())
        }));
    }
    let other = Arc::clone(&runtime);
    trials.push(Trial::test("postgres-row", move || {
        other.block_on(row());
        Ok::<_, Failed>(())
    }));
    #[cfg(feature = "peers")]
    for backend in ["redis", "postgres-advisory", "etcd", "zookeeper"] {
        let runtime = Arc::clone(&runtime);
        let peers = move || {
            runtime.block_on(peers(backend));
            Ok::<_, Failed>(())
        };
        trials.push(Trial::test(format!("peers beside {backend}"), peers));
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn worker() -> Spawn {
    Arc::new(|url| {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.env(URL, url);
        command
    })
}

async fn started(id: &str) -> Option<(targets::Started, Target)> {
    let started = targets::start(&[id.to_owned()], true).await;
    let target = started.targets.first()?.clone().with_worker(worker());
    Some((started, target))
}

fn plan(trials: usize) -> Plan {
    let mut plan = Plan::new(Suite::Standard, 7).with_trials(trials).with_slice(Duration::from_millis(100)).tiny();
    plan.waiting = Duration::from_millis(300);
    plan.holding = Duration::from_millis(300);
    plan
}

async fn measured(target: Target, plan: &Plan) -> Vec<(String, ScenarioResult)> {
    let report = Report::new(Tool::default(), "", plan, &run(plan, &[target], &Steps).await);
    let named = |scenario: lockyard_benches::report::ScenarioResults| {
        let name = match &scenario.parameters.fault {
            Some(fault) => format!("{} {fault}", scenario.id),
            None => format!("{} {}", scenario.id, scenario.parameters.processes),
        };
        scenario.results.into_iter().map(move |result| (name.clone(), result)).collect::<Vec<_>>()
    };
    report.scenarios.into_iter().flat_map(named).collect()
}

/// Says what goes wrong, so that a cell that is missing is understood.
struct Steps;

impl Progress for Steps {
    fn step(&self, _done: usize, _of: usize, _what: &str) {}

    fn trouble(&self, what: &str) {
        eprintln!("{what}");
    }

    fn cancelled(&self) -> bool {
        false
    }
}

async fn every_scenario(id: &'static str) {
    let Some((_started, target)) = started(id).await else { return };
    let plan =
        plan(1).only(["contended", "open_loop", "waiting_cost", "hold_cost", "connections", "takeover", "failover"]);
    for (name, result) in measured(target, &plan).await {
        check(id, &name, &result);
    }
}

fn check(id: &str, name: &str, result: &ScenarioResult) {
    let cell = format!("{id} {name}: {result:?}");
    let refused =
        id == "file" && matches!(name, "connections 1" | "takeover frozen" | "takeover cut_off" | "failover restart");
    assert_eq!(result.missing.as_ref().is_some_and(|missing| missing.starts_with("n.a.")), refused, "{cell}");
    if refused {
        return;
    }
    assert_eq!(result.missing, None, "{cell}");
    assert_eq!(result.overlaps, 0, "{cell}");
    match name {
        "contended 2" => assert!(result.mean_round_ms.is_some_and(|round| round > 0.0), "{cell}"),
        "open_loop 1" => assert!(result.p99_us.is_some_and(|p99| p99.est > 0.0), "{cell}"),
        "waiting_cost 2" => assert!(result.server_commands_per_second.is_some(), "{cell}"),
        "hold_cost 1" => {
            let cost = result.hold_cost.expect("a cost");
            assert_eq!((cost.held, cost.missed_deadlines), (20, 0), "{cell}");
        }
        "connections 1" => {
            let found = result.connections.as_ref().expect("connections");
            assert_eq!((found.held, found.waited), (6, 6), "{cell}");
            assert!(found.held_connections >= 1 && found.waited_connections >= 1, "{cell}");
            let few = if id.starts_with("postgres") { 4 + 1 + 6 } else { 2 };
            assert!(found.held_connections.max(found.waited_connections) <= few, "{cell}");
        }
        "takeover killed" | "takeover frozen" | "takeover cut_off" => {
            let takeover = result.takeover.as_ref().expect("a takeover");
            // A machine that is busy with other things may be late; what is promised is measured, not tested, here.
            let late = takeover.bound_seconds + scaled(Duration::from_secs(10)).as_secs_f64();
            assert!(takeover.seconds.est > 0.0 && takeover.seconds.est < late, "{cell}");
            assert!(takeover.bound_seconds >= 2.0 || id == "file", "{cell}");
        }
        "failover restart" => {
            let failover = result.failover.as_ref().expect("a failover");
            assert!(failover.gap_seconds > 0.0, "{cell}");
            assert!(matches!(failover.tokens.as_str(), "rise" | "fall"), "{cell}");
        }
        _ => {}
    }
}

/// Every peer is measured in the same trials, against the floor of its server.
#[cfg(feature = "peers")]
async fn peers(id: &'static str) {
    let Some((_started, target)) = started(id).await else { return };
    let plan = plan(1).only(["uncontended", "parallel", "contended", "handoff", "waiting_cost"]);
    let measured = measured(target, &plan).await;
    let theirs: Vec<_> = measured.iter().filter(|(_, result)| result.backend.starts_with("peer:")).collect();
    assert!(!theirs.is_empty(), "no peers beside {id}");
    for (name, result) in theirs {
        let cell = format!("{name}: {result:?}");
        assert_eq!((result.missing.as_deref(), result.overlaps), (None, 0), "{cell}");
        let compared = result.floor_ratio.is_some_and(|ratio| ratio.est > 0.0);
        assert!(compared || result.server_commands_per_second.is_some(), "{cell}");
    }
}

async fn row() {
    let Some((_started, target)) = started("postgres-row").await else { return };
    let plan = plan(1).only(["hold_cost", "connections"]);
    for (name, result) in measured(target, &plan).await {
        match name.as_str() {
            "hold_cost 1" => assert!(result.missing.is_some_and(|missing| missing.starts_with("n.a.: a session"))),
            _ => {
                let found = result.connections.expect("connections");
                assert_eq!((found.held, found.waited), (6, 6), "{found:?}");
                assert!(found.held_connections >= 6 && found.waited_connections >= 6, "{found:?}");
            }
        }
    }
}
