//! From targets to a report that its schema accepts, on real servers where there are some.

use std::sync::Arc;
use std::time::Duration;

use lockyard_benches::report::{Check, Conformance, Report, Skipped, Tool};
use lockyard_benches::{Connect, Plan, Progress, Silent, Suite, Target, run};
use lockyard_testbed::{Server, Service};

#[path = "../support/targets.rs"]
mod targets;

async fn started(ids: &[&str]) -> Vec<Target> {
    let ids: Vec<String> = ids.iter().map(|id| (*id).to_owned()).collect();
    targets::start(&ids, false).await.targets
}

fn short() -> Plan {
    // Long enough for a turn on a machine that has much else to do.
    Plan::new(Suite::Quick, 7).with_trials(2).with_slice(Duration::from_millis(40))
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
    let targets = started(&["memory", "redis"]).await;
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
            let compared =
                result.backend == "redis" && (scenario.id != "contended" || scenario.parameters.clients == "own");
            assert_eq!(result.floor_ratio.is_some_and(|ratio| ratio.est > 0.0), compared, "{cell}");
        }
    }
    let json = report.to_json();
    let again = Report::from_json(&json).expect("a report reads back");
    assert_eq!((&again, again.to_json()), (&report, json), "the same report gives the same bytes");
    check_page(&again);
    assert!(again.to_markdown().contains("| memory |"));
}

/// Self-contained, the same each time, and no text of a result breaks out of its place.
fn check_page(report: &Report) {
    let page = report.to_html().expect("a page");
    assert_eq!(page, report.to_html().expect("a page"), "the same report gives the same bytes");
    for outside in ["http://", "https://", "src=", "url(", "@import", "<link"] {
        assert!(!page.contains(outside), "the page asks for something outside: {outside}");
    }
    assert_eq!(page.matches("</script>").count(), 1, "a reason ended the data");
    assert!(page.contains("freeze &#60;x&#62; &#38; &#34;y&#34;") && page.contains("default-src 'none'"));
    let data = page.split_once("id=\"report-data\">").expect("the data").1.split_once("</script>").expect("its end").0;
    assert_eq!(Report::from_json(data).expect("the data in the page").to_json(), report.to_json());
    for (open, close) in [("<table>", "</table>"), ("<section ", "</section>"), ("<svg ", "</svg>"), ("<tr", "</tr>")] {
        assert_eq!(page.matches(open).count(), page.matches(close).count(), "{open}");
    }
    assert_eq!(page.matches("<caption>").count(), page.matches("<table>").count());
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
    let target = Target::new("redis", "redis", "single", &url, targets::connect(&url)).with_counted(
        server,
        &url,
        targets::connect(&url),
    );
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
    let measured = run(&plan, &started(&["memory"]).await, &Impatient(0.into())).await;
    let report = Report::new(Tool::default(), "", &plan, &measured);
    assert!(report.cancelled);
    assert_eq!(report.scenarios[0].results[0].trials, 1);
    let handoff = report.scenarios.iter().find(|scenario| scenario.id == "handoff").expect("a row");
    assert!(handoff.results[0].missing.as_deref().is_some_and(|reason| reason.contains("ended")));
    check_schema(&report);
}
