//! The series of a job: there from the start, and true.
#![cfg(feature = "metrics")]

mod support;

use std::time::Duration;

use lockyard_jobs::metrics::JobMetrics;
use lockyard_jobs::{Backoff, BreakerCause, JobEvent, OnConflict, Outcome, Schedule, WallTime};
use lockyard_testbed::timing::eventually;
use metrics_exporter_prometheus::PrometheusBuilder;
use support::{Checked, Heard, MINUTE, Replica, SOON, nothing, server, soon};

#[tokio::test]
async fn every_outcome_has_its_series() -> Checked {
    let recorder = PrometheusBuilder::new().build_recorder();
    let page = recorder.handle();
    let replica = Replica::of(&server());
    let schedule = Schedule::every(MINUTE);
    let observer =
        metrics::with_local_recorder(&recorder, || JobMetrics::new("sync", &schedule, "memory", replica.now()))?;
    let value = |series: &str| {
        let page = page.render();
        let line = page.lines().find_map(|line| line.strip_prefix(series)?.trim().parse::<f64>().ok());
        line.unwrap_or_else(|| panic!("{series} is not in {page}"))
    };
    let runs = |outcome: &str| value(&format!("lockyard_job_runs_total{{job_name=\"sync\",outcome=\"{outcome}\"}}"));
    for outcome in [
        "ran",
        "failed",
        "lost",
        "timed_out",
        "stopped",
        "dropped",
        "held",
        "claimed",
        "skipped",
        "missed",
        "crashed",
        "error",
    ] {
        assert_eq!(runs(outcome), 0.0, "{outcome}");
    }
    assert_eq!(value("lockyard_job_interval_seconds{job_name=\"sync\"}"), 60.0);

    let job = replica.job("sync").schedule(schedule).observer(observer).build()?;
    assert_eq!(job.run_tick(replica.now(), nothing).await?, Outcome::Ran(()));
    assert!(matches!(job.run_tick(replica.now(), nothing).await?, Outcome::Skipped(_)));
    replica.clock.advance(MINUTE * 4);
    let failed = job.run_tick(replica.now(), |_| async { Err::<(), _>("no") }).await?;
    assert_eq!(failed, Outcome::Failed("no"));
    replica.clock.advance(MINUTE);
    let mut run = Box::pin(job.run_tick(replica.now(), |_| std::future::pending::<Result<(), String>>()));
    while value("lockyard_job_running{job_name=\"sync\"}") < 1.0 {
        tokio::select! {
            biased;
            outcome = &mut run => return Err(format!("it ended: {outcome:?}").into()),
            () = tokio::task::yield_now() => {}
        }
    }
    drop(run);
    assert_eq!(
        (runs("ran"), runs("claimed"), runs("failed"), runs("missed"), runs("dropped")),
        (1.0, 1.0, 1.0, 3.0, 1.0)
    );
    assert_eq!(value("lockyard_job_running{job_name=\"sync\"}"), 0.0);
    let noon: WallTime = "2026-05-05T12:00:00Z".parse()?;
    let seconds = |time: WallTime| time.since(WallTime::from_millis(0)).as_secs_f64();
    assert_eq!(value("lockyard_job_last_success_timestamp_seconds{job_name=\"sync\"}"), seconds(noon));
    let next = value("lockyard_job_next_run_timestamp_seconds{job_name=\"sync\"}");
    assert_eq!(next, seconds(noon.plus(MINUTE * 6)));
    Ok(())
}

/// A job under a held lock, retried without end.
#[tokio::test]
async fn a_breaker_that_opens_shows_in_its_gauge() -> Checked {
    let recorder = PrometheusBuilder::new().build_recorder();
    let page = recorder.handle();
    let (server, heard) = (server(), Heard::default());
    let (replica, other) = (Replica::of(&server), Replica::of(&server));
    let observer = metrics::with_local_recorder(&recorder, || {
        JobMetrics::new("sync", &Schedule::every(MINUTE), "memory", replica.now())
    })?;
    let open = |count: u32| page.render().contains(&format!("lockyard_circuit_state{{backend=\"memory\"}} {count}\n"));
    assert!(open(0), "{}", page.render());
    let guard = other.locks.try_acquire("@job/sync").await?.ok_or("free")?;
    let backoff = Backoff::full_jitter(Duration::from_millis(1), Duration::from_millis(1)).max_attempts(u32::MAX);
    let job = replica.job("sync").schedule(Schedule::every(MINUTE)).on_conflict(OnConflict::Retry(backoff));
    let job = job.observer(heard.clone()).observer(observer).build()?;
    let run = job.run_tick(replica.now(), nothing);
    let free = async {
        let opened = eventually(SOON, || async { open(1) }).await;
        guard.release().await.map(|_| opened.is_some())
    };
    let (outcome, opened) = soon(async { tokio::join!(run, free) }).await?;
    assert_eq!((outcome?, opened?), (Outcome::Ran(()), true), "{:?}", heard.events());
    assert!(open(0), "{}", page.render());
    let told: Vec<_> = heard.events().into_iter().filter(event_of_a_breaker).collect();
    let [JobEvent::BreakerOpened { cause, failures: 5, .. }, closed] = &told[..] else { panic!("{told:?}") };
    assert_eq!((*cause, closed), (BreakerCause::Held, &JobEvent::BreakerClosed { cause: BreakerCause::Held }));
    Ok(())
}

fn event_of_a_breaker(event: &JobEvent) -> bool {
    matches!(event, JobEvent::BreakerOpened { .. } | JobEvent::BreakerClosed { .. })
}
