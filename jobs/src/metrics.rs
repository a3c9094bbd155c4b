//! Counts and times of jobs for the [`metrics`](https://docs.rs/metrics) facade; the feature `metrics`.

use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use metrics::{
    Counter, Gauge, Histogram, Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
};

use crate::{Invalid, JobEvent, JobObserver, Schedule, Ticks, WallTime};

const RUNS: &str = "lockyard_job_runs_total";
const DURATION: &str = "lockyard_job_duration_seconds";
const START_DELAY: &str = "lockyard_job_start_delay_seconds";
const RUNNING: &str = "lockyard_job_running";
const LAST_SUCCESS: &str = "lockyard_job_last_success_timestamp_seconds";
const NEXT_RUN: &str = "lockyard_job_next_run_timestamp_seconds";
const CIRCUIT: &str = "lockyard_circuit_state";
const INTERVAL: &str = "lockyard_job_interval_seconds";

/// What a tick, or a slot, can come to: the label `outcome`.
const OUTCOMES: [&str; 11] =
    ["ran", "failed", "lost", "timed_out", "stopped", "dropped", "held", "claimed", "skipped", "missed", "crashed"];

/// A [`JobObserver`] that feeds the recorder that is installed when it is made, with the job's name as the label `job_name`.
///
/// All series are there from the start, at 0. That another replica has the slot is no failure: outcomes `held` and
/// `claimed`. A job is overdue when `lockyard_job_last_success_timestamp_seconds`, the largest of all replicas, is older than
/// a few times `lockyard_job_interval_seconds`.
///
/// ```
/// use lockyard_jobs::{JobBuilder, Schedule};
/// use lockyard_jobs::metrics::JobMetrics;
///
/// fn nightly(builder: JobBuilder, locks: &lockyard::Locker) -> Result<JobBuilder, lockyard_jobs::Invalid> {
///     let schedule = Schedule::cron("0 2 * * *");
///     let now = lockyard_jobs::WallTime::now(locks.clock());
///     let metrics = JobMetrics::new("nightly", &schedule, locks.capabilities().backend, now)?;
///     Ok(builder.schedule(schedule).observer(metrics))
/// }
/// ```
pub struct JobMetrics {
    ticks: Ticks,
    runs: [Counter; OUTCOMES.len()],
    errors: Counter,
    duration: Histogram,
    start_delay: Histogram,
    running: Gauge,
    last_success: Gauge,
    next_run: Gauge,
    /// The latest slot heard of, in milliseconds.
    latest: AtomicU64,
    /// Those of other jobs and lockers of this backend count in it too.
    circuit: Gauge,
    /// How many breakers of this job are open.
    open: AtomicU32,
}

impl JobMetrics {
    /// The upper bounds of each histogram, for the exporter.
    pub const BUCKETS: [(&str, &[f64]); 2] = [
        (DURATION, &[0.01, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0, 14_400.0, 86_400.0]),
        (START_DELAY, &[0.01, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0]),
    ];

    /// The series of the job of this name and schedule, at 0. `backend` is that of its locks:
    /// [`Capabilities::backend`](lockyard_api::Capabilities).
    ///
    /// # Errors
    /// As [`Schedule::ticks`].
    pub fn new(job: &str, schedule: &Schedule, backend: &'static str, now: WallTime) -> Result<Self, Invalid> {
        describe();
        let ticks = schedule.ticks(job, now)?;
        let name = || job.to_owned();
        let of = |outcome| counter!(RUNS, "job_name" => name(), "outcome" => outcome);
        let interval = gauge!(INTERVAL, "job_name" => name());
        interval.set(ticks.shortest_period(now).map_or(0.0, |period| period.as_secs_f64()));
        let metrics = Self {
            runs: OUTCOMES.map(of),
            errors: of("error"),
            duration: histogram!(DURATION, "job_name" => name()),
            start_delay: histogram!(START_DELAY, "job_name" => name()),
            running: gauge!(RUNNING, "job_name" => name()),
            last_success: gauge!(LAST_SUCCESS, "job_name" => name()),
            next_run: gauge!(NEXT_RUN, "job_name" => name()),
            latest: AtomicU64::new(now.as_millis()),
            circuit: gauge!(CIRCUIT, "backend" => backend),
            open: AtomicU32::new(0),
            ticks,
        };
        metrics.circuit.increment(0.0);
        metrics.running.increment(0.0);
        metrics.last_success.increment(0.0);
        metrics.due_after(now);
        Ok(metrics)
    }

    fn count(&self, outcome: &str, count: u64) {
        let known = OUTCOMES.iter().zip(&self.runs).find(|(known, _)| **known == outcome);
        known.map_or(&self.errors, |(_, counter)| counter).increment(count);
    }

    /// The next tick after the latest slot that was heard of.
    fn due_after(&self, slot: WallTime) {
        let latest = self.latest.fetch_max(slot.as_millis(), Ordering::SeqCst).max(slot.as_millis());
        let next = self.ticks.next_after(WallTime::from_millis(latest));
        self.next_run.set(next.map_or(0.0, seconds));
    }
}

impl JobObserver for JobMetrics {
    fn on_event(&self, _job: &str, event: &JobEvent) {
        match event {
            JobEvent::Started { slot, delay, .. } => {
                self.running.increment(1.0);
                self.start_delay.record(delay.as_secs_f64());
                self.due_after(*slot);
            }
            JobEvent::Ended { at, outcome, took, .. } => {
                self.running.decrement(1.0);
                self.duration.record(took.as_secs_f64());
                self.count(outcome, 1);
                if *outcome == "ran" {
                    self.last_success.set(seconds(*at));
                }
            }
            JobEvent::Skipped { slot, reason } => {
                self.count(if OUTCOMES.contains(&reason.as_str()) { reason.as_str() } else { "skipped" }, 1);
                self.due_after(*slot);
            }
            JobEvent::Missed { count, .. } => self.count("missed", *count),
            JobEvent::Crashed { .. } => self.count("crashed", 1),
            JobEvent::Errored { .. } => self.count("error", 1),
            JobEvent::BreakerOpened { .. } => {
                self.open.fetch_add(1, Ordering::SeqCst);
                self.circuit.increment(1.0);
            }
            JobEvent::BreakerClosed { .. } => {
                self.open.fetch_sub(1, Ordering::SeqCst);
                self.circuit.decrement(1.0);
            }
            JobEvent::NotRecorded { .. } => {}
        }
    }
}

/// As the time stamps of Prometheus are.
fn seconds(time: WallTime) -> f64 {
    time.since(WallTime::from_millis(0)).as_secs_f64()
}

fn describe() {
    describe_gauge!(CIRCUIT, "Circuit breakers that are open now; 0: attempts are made");
    describe_counter!(RUNS, "Ticks of a job by what came of them, and slots that nobody has run");
    describe_histogram!(DURATION, Unit::Seconds, "From the start of a run to its end");
    describe_histogram!(START_DELAY, Unit::Seconds, "From the slot to the start of its run, by the clock of the host");
    describe_gauge!(RUNNING, "Runs under way");
    describe_gauge!(LAST_SUCCESS, Unit::Seconds, "When a run last ended well on this replica");
    describe_gauge!(NEXT_RUN, Unit::Seconds, "When the next slot is due");
    describe_gauge!(INTERVAL, Unit::Seconds, "The shortest time between two of the next slots");
}

impl Drop for JobMetrics {
    /// A breaker that is gone is not open.
    fn drop(&mut self) {
        self.circuit.decrement(f64::from(*self.open.get_mut()));
    }
}

impl fmt::Debug for JobMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobMetrics").finish_non_exhaustive()
    }
}
