//! The series of a job: there from the start, and true.
#![cfg(feature = "metrics")]

mod support;

use lockyard_jobs::metrics::JobMetrics;
use lockyard_jobs::{Outcome, Schedule, WallTime};
use metrics_exporter_prometheus::PrometheusBuilder;
use support::{Checked, MINUTE, Replica, nothing, server};

#[tokio::test]
async fn every_outcome_has_its_series() -> Checked {
    let recorder = PrometheusBuilder::new().build_recorder();
    let page = recorder.handle();
    let replica = Replica::of(&server());
    let schedule = Schedule::every(MINUTE);
    let observer = metrics::with_local_recorder(&recorder, || JobMetrics::new("sync", &schedule, replica.now()))?;
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
