//! From targets to a report that its schema accepts, on real servers where there are some.

use std::sync::Arc;
use std::time::Duration;

use lockyard_api::{DistributedLock, Namespace};
use lockyard_benches::report::{Check, Conformance, Report, Skipped, Tool};
use lockyard_benches::{Connect, Plan, Progress, Silent, Suite, Target, run};
use lockyard_memory::MemoryConfig;
use lockyard_redis::{RedisConfig, RedisLock};
use lockyard_testbed::{Server, Service};

fn memory() -> Target {
    let server = MemoryConfig::from_url("memory:").expect("a URL").server();
    let connect: Connect = Arc::new(move || {
        let lock: Arc<dyn DistributedLock> = Arc::new(server.connect(Namespace::default()));
        Box::pin(async move { Ok(lock) })
    });
    Target::new("memory", "memory", "fifo", "memory:", connect)
}

fn redis_at(url: &str) -> Connect {
    let url = url.to_owned();
    Arc::new(move || {
        let url = url.clone();
        Box::pin(async move {
            let lock = RedisLock::connect(RedisConfig::from_url(&url)?).await?;
            Ok(Arc::new(lock) as Arc<dyn DistributedLock>)
        })
    })
}

async fn redis() -> Option<Target> {
    let server = Arc::new(Server::start_or_skip(Service::Redis).await.expect("a server that is there starts")?);
    let url = format!("{}?namespace=pipeline-{}", server.lock_url(), std::process::id());
    Some(Target::new("redis", "redis", "single", &url, redis_at(&url)).with_server(server))
}

fn short() -> Plan {
    Plan::new(Suite::Quick, 7).with_trials(2).with_slice(Duration::from_millis(10))
}

fn check_schema(report: &Report) {
    let schema = include_str!("../../docs/report.schema.json");
    let schema = serde_json::from_str(schema).expect("the schema is JSON");
    let validator = jsonschema::validator_for(&schema).expect("the schema is one");
    let json = serde_json::from_str(&report.to_json()).expect("a report is JSON");
    let errors: Vec<String> = validator.iter_errors(&json).map(|e| format!("{}: {e}", e.instance_path())).collect();
    assert!(errors.is_empty(), "{errors:#?}");
    let mut broken = json;
    broken["scenarios"][0]["results"][0]["p50_us"] = "fast".into();
    assert!(!validator.is_valid(&broken), "the schema accepts anything");
}

fn completed(mut report: Report) -> Report {
    report.skipped.push(Skipped::new("etcd", "no etcd on the PATH", "apt-get install etcd-server"));
    let checks = vec![
        Check::new("exclusion::one", "passed", None, 0.123_456_789),
        Check::new("hung::frozen", "ignored", Some("no fault: freeze <x> & \"y\"".to_owned()), 0.0),
        Check::new("fifo::order", "failed", Some("</script> came first".to_owned()), 1.5),
    ];
    report.conformance.push(Conformance::new("memory", checks));
    report
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_report_of_memory_and_redis_is_complete_and_valid() {
    let targets: Vec<Target> = [Some(memory()), redis().await].into_iter().flatten().collect();
    let measured = run(&short(), &targets, &Silent::new()).await;
    let tool = Tool::new(env!("CARGO_PKG_VERSION"), "0123abc");
    let report = completed(Report::new(tool, "lockyard compare --seed 7", &short(), &measured));
    check_schema(&report);
    let ids: Vec<&str> = report.backends.iter().map(|backend| backend.id.as_str()).collect();
    assert_eq!(ids.first(), Some(&"memory"));
    for scenario in report.scenarios.iter().filter(|scenario| scenario.id != "waiting_cost") {
        for result in &scenario.results {
            let cell = format!("{} {:?} {}", scenario.id, scenario.parameters, result.backend);
            assert_eq!((result.missing.as_deref(), result.trials, result.overlaps), (None, 2, 0), "{cell}");
            assert!(result.p50_us.is_some_and(|p50| p50.est > 0.0), "{cell}");
            let compared = result.backend == "redis" && (scenario.id != "contended" || scenario.parameters.clients == "own");
            assert_eq!(result.floor_ratio.is_some_and(|ratio| ratio.est > 0.0), compared, "{cell}");
        }
    }
    let json = report.to_json();
    let again = Report::from_json(&json).expect("a report reads back");
    assert_eq!((&again, again.to_json()), (&report, json), "the same report gives the same bytes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_cost_a_counting_redis_next_to_nothing() {
    let options = lockyard_testbed::Options::new().native_only().counting();
    let Ok(server) = Server::start_with(Service::Redis, options).await else {
        assert!(!lockyard_testbed::require::required(Service::Redis), "a required server is there");
        return;
    };
    let server = Arc::new(server);
    let url = server.lock_url();
    let target = Target::new("redis", "redis", "single", &url, redis_at(&url)).with_counted(server, redis_at(&url));
    let mut plan = short().only(["waiting_cost"]);
    plan.waiting = Duration::from_millis(500);
    let report = Report::new(Tool::default(), "", &plan, &run(&plan, &[target], &Silent::new()).await);
    let result = &report.scenarios[0].results[0];
    assert_eq!(result.missing, None);
    assert!(result.server_commands_per_second.is_some_and(|rate| rate < 50.0), "{result:?}");
}

#[tokio::test]
async fn a_backend_that_cannot_be_reached_is_said_to_be_so() {
    let connect: Connect = Arc::new(|| Box::pin(async { Err(lockyard_api::Error::config("nobody there")) }));
    let target = Target::new("redis", "redis", "single", "redis://127.0.0.1:1", connect);
    let plan = short().only(["handoff"]);
    let report = Report::new(Tool::default(), "", &plan, &run(&plan, &[target], &Silent::new()).await);
    assert_eq!((report.skipped[0].id.as_str(), report.backends.len()), ("redis", 0));
    assert!(report.skipped[0].reason.contains("nobody there"));
}

/// Ends the run when the third step begins.
struct Impatient(std::sync::atomic::AtomicUsize);

impl Progress for Impatient {
    fn step(&self, done: usize, _of: usize, _what: &str) {
        self.0.store(done, std::sync::atomic::Ordering::SeqCst);
    }

    fn trouble(&self, _what: &str) {}

    fn cancelled(&self) -> bool {
        self.0.load(std::sync::atomic::Ordering::SeqCst) >= 2
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_is_ended_keeps_what_it_measured() {
    let plan = short().only(["uncontended", "handoff"]).with_slice(Duration::from_millis(300));
    let measured = run(&plan, &[memory()], &Impatient(0.into())).await;
    let report = Report::new(Tool::default(), "", &plan, &measured);
    assert!(report.cancelled);
    assert_eq!(report.scenarios[0].results[0].trials, 1);
    let handoff = report.scenarios.iter().find(|scenario| scenario.id == "handoff").expect("a row");
    assert!(handoff.results[0].missing.as_deref().is_some_and(|reason| reason.contains("ended")));
    check_schema(&report);
}
