//! A report in which every scenario has results: what was measured, with invented figures for what short suites leave out. It shows
//! how the page carries them, and nothing about locks.

use lockyard_benches::report::Report;
use serde_json::{Value, json};

/// The report with every scenario and two peers added.
pub(crate) fn grown(measured: &str) -> Report {
    let mut report: Value = serde_json::from_str(measured).expect("JSON");
    let ids: Vec<String> =
        list(&report["backends"]).iter().filter_map(|it| it["id"].as_str()).map(str::to_owned).collect();
    for (id, kind) in [("peer:distributed-lock", "redis"), ("peer:etcd-client", "etcd")] {
        add_peer(&mut report, id, kind);
    }
    let mut scenarios = vec![
        scenario(
            "contended",
            64,
            json!({}),
            &ids,
            |at| json!({ "per_second": around(4000.0 / at), "jain": 0.5 + at / 20.0, "max_wait_ms": 700.0 * at, "mean_round_ms": 160.0 }),
        ),
        scenario(
            "contended",
            64,
            json!({ "processes": 8, "clients": "one" }),
            &ids,
            |at| json!({ "per_second": around(3000.0 / at) }),
        ),
        scenario(
            "parallel",
            64,
            json!({ "clients": "one", "name": "each" }),
            &ids,
            |at| json!({ "per_second": around(90_000.0 / at) }),
        ),
        scenario(
            "waiting_cost",
            1000,
            json!({ "processes": 20 }),
            &ids,
            |at| json!({ "server_commands_per_second": at, "housekeeping_per_second": 1.5 }),
        ),
        scenario(
            "hold_cost",
            1000,
            json!({}),
            &ids,
            |at| json!({ "hold_cost": { "held": 1000, "ttl_seconds": 30.0, "renewals_per_second": 100.0, "client_cpu": 0.003 * at, "bytes_per_lock": 640.0, "missed_deadlines": 0 } }),
        ),
        scenario(
            "connections",
            1000,
            json!({}),
            &ids,
            |_| json!({ "connections": { "held": 1000, "waited": 80, "held_connections": 2, "waited_connections": 80, "note": "the rest: Capacity" } }),
        ),
        scenario(
            "failover",
            2,
            json!({ "fault": "restart" }),
            &ids,
            |at| json!({ "failover": { "fault": "restart", "gap_seconds": 0.4 * at, "overlap": at < 2.0, "kept": at > 5.0, "tokens": "rise" } }),
        ),
        scenario(
            "open_loop",
            64,
            json!({ "rate": 500 }),
            &ids,
            |at| json!({ "p50_us": around(400.0 * at), "p99_us": around(9000.0 * at) }),
        ),
    ];
    for fault in ["killed", "frozen", "cut_off"] {
        scenarios.push(scenario("takeover", 2, json!({ "fault": fault }), &ids, |at| {
            json!({ "takeover": { "fault": fault, "seconds": around(0.05 + 2.3 * (at - 1.0)), "bound_seconds": 2.5 + 3.0 * at } })
        }));
    }
    let all = report["scenarios"].as_array_mut().expect("a list");
    // Six tails, so that a line has all its points.
    for result in all
        .iter_mut()
        .filter(|it| it["id"] == "uncontended" || it["id"] == "handoff")
        .flat_map(|it| it["results"].as_array_mut().expect("a list"))
    {
        let p50 = result["p50_us"]["est"].as_f64().unwrap_or(1.0);
        (result["p90_us"], result["p999_us"]) = (json!(p50 * 1.4), json!(p50 * 9.0));
    }
    all.extend(scenarios);
    serde_json::from_value(report).expect("a report")
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// A peer with the results of the backend of its kind, twice as slow.
fn add_peer(report: &mut Value, id: &str, kind: &str) {
    let mut backend = list(&report["backends"]).iter().find(|it| it["id"] == kind).expect("a backend").clone();
    (backend["id"], backend["mode"], backend["version"]) = (json!(id), json!("peer"), json!("0.1.0"));
    backend["notes"] = json!(["asks every 50 ms", "no order among waiters"]);
    report["backends"].as_array_mut().expect("a list").push(backend);
    for results in report["scenarios"].as_array_mut().expect("a list").iter_mut().map(|it| it["results"].as_array_mut())
    {
        let results = results.expect("a list");
        let Some(mut result) = results.iter().find(|it| it["backend"] == kind).cloned() else { continue };
        result["backend"] = json!(id);
        for figure in ["p50_us", "p99_us", "per_second"] {
            if let Some(est) = result[figure]["est"].as_f64() {
                result[figure] = around(est * if figure == "per_second" { 0.5 } else { 2.0 });
            }
        }
        results.push(result);
    }
}

fn around(est: f64) -> Value {
    json!({ "est": est, "lo": est * 0.9, "hi": est * 1.15 })
}

/// A scenario with a result for each backend; `figures` of the place of the backend, from 1.
fn scenario(
    id: &str,
    contenders: u64,
    parameters: Value,
    backends: &[String],
    figures: impl Fn(f64) -> Value,
) -> Value {
    let mut all = json!({ "contenders": contenders, "clients": "own", "name": "same", "machine": "idle" });
    merge(&mut all, parameters);
    let results = (1_u32..).zip(backends).map(|(at, backend)| {
        let mut result = json!({ "backend": backend, "trials": 10 });
        merge(&mut result, figures(f64::from(at)));
        result
    });
    json!({ "id": id, "parameters": all, "results": results.collect::<Vec<_>>() })
}

fn merge(into: &mut Value, more: Value) {
    if let (Value::Object(into), Value::Object(more)) = (into, more) {
        into.extend(more);
    }
}
