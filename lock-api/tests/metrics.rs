//! The exposition text after real acquisitions, losses and refusals on the memory backend.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use lockyard_api::metrics::{BUCKETS, Groups, Metrics};
use lockyard_api::{
    Clock, ErrorKind, FencedRegister, LockName, Locker, Namespace, ObservedRegister, Outcome, Release, Version,
};
use lockyard_memory::{MemoryOptions, MemoryServer};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusRecorder};

/// Runs `work` with a recorder of its own, and returns what a scrape then shows.
fn scraped<F: Future<Output = ()>>(work: impl FnOnce() -> F) -> String {
    let recorder = recorder();
    let handle = recorder.handle();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    metrics::with_local_recorder(&recorder, || runtime.block_on(work()));
    handle.render()
}

fn recorder() -> PrometheusRecorder {
    let builder = BUCKETS.iter().fold(PrometheusBuilder::new(), |builder, (name, bounds)| {
        builder.set_buckets_for_metric(Matcher::Full((*name).to_owned()), bounds).expect("some buckets")
    });
    builder.build_recorder()
}

fn server() -> MemoryServer {
    MemoryServer::new(MemoryOptions::default())
}

fn locker(server: &MemoryServer, groups: Groups) -> Locker {
    let builder = Locker::builder(server.connect(Namespace::default()));
    let metrics = Metrics::new(builder.capabilities().backend, groups);
    builder.observer(metrics).build().expect("inside a runtime")
}

/// The value of the series with exactly these labels.
fn value(text: &str, series: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {series} in\n{text}")).parse().expect("a number")
}

fn acquisitions(text: &str, outcome: &str) -> f64 {
    let labels = format!(r#"{{backend="memory",group="default",outcome="{outcome}"}}"#);
    let counted = value(text, &format!("lockyard_acquisitions_total{labels}"));
    assert_eq!(value(text, &format!("lockyard_acquire_duration_seconds_count{labels}")), counted, "{outcome}");
    counted
}

fn default(text: &str, series: &str) -> f64 {
    value(text, &format!(r#"{series}{{backend="memory",group="default"}}"#))
}

#[test]
fn all_series_are_there_from_the_start() {
    let text = scraped(async || drop(locker(&server(), Groups::one())));
    for outcome in ["acquired", "contended", "timeout", "cancelled", "error"] {
        assert_eq!(acquisitions(&text, outcome), 0.0);
    }
    for series in ["lockyard_hold_duration_seconds_count", "lockyard_held", "lockyard_waiting"] {
        assert_eq!(default(&text, series), 0.0);
    }
    for outcome in ["renewed", "lost", "unknown"] {
        let series = format!(r#"lockyard_renewals_total{{backend="memory",outcome="{outcome}"}}"#);
        assert_eq!(value(&text, &series), 0.0);
    }
    for reason in ["expired", "revoked", "session", "clock_jump"] {
        let series = format!(r#"lockyard_locks_lost_total{{backend="memory",group="default",reason="{reason}"}}"#);
        assert_eq!(value(&text, &series), 0.0);
    }
    for outcome in ["released", "not_held", "error"] {
        assert_eq!(value(&text, &format!(r#"lockyard_releases_total{{backend="memory",outcome="{outcome}"}}"#)), 0.0);
    }
    assert_eq!(value(&text, r#"lockyard_renewal_remaining_ratio_count{backend="memory"}"#), 0.0);
    assert_eq!(default(&text, "lockyard_fencing_rejections_total"), 0.0);
    assert_eq!(value(&text, r#"lockyard_backend_errors_total{backend="memory",kind="unreachable"}"#), 0.0);
    assert_eq!(value(&text, r#"lockyard_circuit_state{backend="memory"}"#), 0.0);
    for bound in ["0.0005", "60", "+Inf"] {
        let labels = format!(r#"{{backend="memory",group="default",outcome="acquired",le="{bound}"}}"#);
        assert_eq!(value(&text, &format!("lockyard_acquire_duration_seconds_bucket{labels}")), 0.0);
    }
}

#[test]
fn every_acquire_ends_in_one_outcome_and_every_hold_once() {
    let text = scraped(async || {
        let server = server();
        let (locks, other) = (locker(&server, Groups::one()), locker(&server, Groups::one()));
        let guard = locks.acquire("secret-name").await.expect("free");
        assert!(other.try_acquire("secret-name").await.expect("answered").is_none());
        other.lock("secret-name").wait(Duration::from_millis(20)).acquire().await.expect_err("held");
        let waiting = other.acquire("secret-name");
        tokio::time::timeout(Duration::from_millis(20), waiting).await.expect_err("held");
        other
            .lock("x")
            .ttl(Duration::from_secs(3600 * 24 * 3650))
            .acquire()
            .await
            .expect_err("refused before it begins");
        assert_eq!(guard.release().await.expect("answered"), Release::Released);
        drop(other.acquire("dropped").await.expect("free"));
        other.shutdown().await.expect("its release is answered");
    });
    for (outcome, count) in
        [("acquired", 2.0), ("contended", 1.0), ("timeout", 1.0), ("cancelled", 1.0), ("error", 0.0)]
    {
        assert_eq!(acquisitions(&text, outcome), count, "{outcome}");
    }
    assert_eq!(default(&text, "lockyard_held"), 0.0);
    assert_eq!(default(&text, "lockyard_waiting"), 0.0);
    assert_eq!(default(&text, "lockyard_hold_duration_seconds_count"), 2.0);
    assert_eq!(value(&text, r#"lockyard_releases_total{backend="memory",outcome="released"}"#), 2.0, "no undone claim");
    assert!(!text.contains("secret") && !text.contains("dropped"), "no name is a label");
}

#[test]
fn losses_and_failures_are_counted() {
    let clock = Clock::system();
    let text = scraped(async || {
        let server = server();
        let client = server.connect(Namespace::default());
        let builder = Locker::builder(client.clone());
        let metrics = Metrics::new("memory", Groups::one());
        let locks = builder.observer(metrics).ttl(Duration::from_millis(600)).build().expect("inside a runtime");
        let guard = locks.acquire("job").await.expect("free");
        client.link().swallow_reply();
        // Renewed after one of unknown outcome.
        let late = clock.now().plus(Duration::from_secs(20));
        clock.sleep(Duration::from_millis(700)).await;
        assert!(guard.is_held() && clock.now() < late);
        server.revoke(&Namespace::default(), guard.claim());
        guard.lost().await;
        assert_eq!(guard.release().await.expect("answered"), Release::NotHeld);
    });
    let renewals =
        |outcome: &str| value(&text, &format!(r#"lockyard_renewals_total{{backend="memory",outcome="{outcome}"}}"#));
    assert!(renewals("renewed") >= 1.0 && renewals("unknown") >= 1.0, "{text}");
    assert_eq!(renewals("lost"), 1.0);
    assert_eq!(value(&text, r#"lockyard_renewal_remaining_ratio_count{backend="memory"}"#), renewals("renewed"));
    let lost = r#"lockyard_locks_lost_total{backend="memory",group="default",reason="revoked"}"#;
    assert_eq!(value(&text, lost), 1.0);
    assert_eq!(default(&text, "lockyard_held"), 0.0);
    assert_eq!(default(&text, "lockyard_hold_duration_seconds_count"), 1.0, "ended once");
    assert_eq!(value(&text, r#"lockyard_releases_total{backend="memory",outcome="not_held"}"#), 1.0);
    let errors: f64 =
        text.lines().filter(|line| line.starts_with("lockyard_backend_errors_total")).map(last_word).sum();
    assert!(errors >= 1.0, "{text}");
}

fn last_word(line: &str) -> f64 {
    line.rsplit(' ').next().and_then(|word| word.parse().ok()).expect("a number")
}

#[test]
fn groups_are_bounded() {
    let text = scraped(async || {
        let server = server();
        let by_prefix = locker(&server, Groups::by_prefix(["orders"]));
        for name in ["orders:sync", "mail:sync", "plain"] {
            by_prefix.acquire(name).await.expect("free").release().await.expect("answered");
        }
        let by_name = locker(&server, Groups::by(|name| name.to_string()));
        for number in 0..100 {
            by_name.acquire(format!("n{number}")).await.expect("free").release().await.expect("answered");
        }
    });
    let acquired = |group: &str| {
        value(&text, &format!(r#"lockyard_acquisitions_total{{backend="memory",group="{group}",outcome="acquired"}}"#))
    };
    assert_eq!(acquired("orders"), 1.0);
    assert_eq!(acquired("n63"), 1.0);
    assert_eq!(acquired("other"), 2.0 + 36.0, "64 groups of their own, the rest in one");
    assert!(!text.contains(r#"group="n64""#));
}

#[test]
fn a_write_that_fencing_refuses_is_counted() {
    let text = scraped(async || {
        let server = server();
        let locks = locker(&server, Groups::one());
        let register = Arc::new(server.register(Namespace::default()));
        let register = ObservedRegister::new(register, Metrics::new("memory", Groups::one()));
        let name = LockName::new("report").expect("a name");
        let first = locks.acquire("report").await.expect("free");
        let old = first.fencing_token().expect("memory has tokens");
        first.release().await.expect("answered");
        let second = locks.acquire("report").await.expect("free");
        let token = second.fencing_token().expect("memory has tokens");
        let _ = register.write(&name, b"new", token, Version::ABSENT).await.expect("written");
        let _ = register.write(&name, b"late", old, Version::ABSENT).await.expect("refused");
    });
    assert_eq!(default(&text, "lockyard_fencing_rejections_total"), 1.0);
}

/// A service out of reach: acquires fail at once after a few, until it answers again.
#[test]
fn a_circuit_breaker_holds_acquires_back_and_says_so() {
    const CIRCUIT: &str = r#"lockyard_circuit_state{backend="memory"}"#;
    let recorder = recorder();
    let page = recorder.handle();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let work = async {
        let server = MemoryServer::new(MemoryOptions::default().op_timeout(Duration::from_millis(20)));
        let lock = server.connect(Namespace::default());
        let metrics = Metrics::new("memory", Groups::one());
        let locks = Locker::builder(lock.clone()).observer(metrics).circuit_breaker(true).build().expect("a locker");
        lock.link().silence();
        // Each its own: a name whose claim is still being undone is busy, without a request.
        for number in 0..5 {
            locks.try_acquire(format!("early-{number}")).await.expect_err("no answer");
        }
        assert_eq!(value(&page.render(), CIRCUIT), 1.0);
        let error = locks.acquire("job").await.expect_err("it is not sent");
        assert!(error.to_string().contains("5 acquires in a row"), "{error}");
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::Unreachable, Outcome::NotApplied));
        lock.link().heal();
        let free = async {
            while locks.try_acquire("job").await.map(drop).is_err() {
                locks.clock().sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), free).await.expect("it is closed again");
        assert_eq!(value(&page.render(), CIRCUIT), 0.0);
        // One that is open goes with its locker.
        lock.link().silence();
        for number in 0..5 {
            locks.try_acquire(format!("late-{number}")).await.expect_err("no answer");
        }
        assert_eq!(value(&page.render(), CIRCUIT), 1.0);
    };
    metrics::with_local_recorder(&recorder, || runtime.block_on(work));
    drop(runtime);
    assert_eq!(value(&page.render(), CIRCUIT), 0.0);
}
