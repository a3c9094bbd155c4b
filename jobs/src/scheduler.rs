//! Runs jobs by their schedules.

use std::collections::BTreeSet;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::pacer::Pacer;
use crate::{Invalid, Job, Result, RunContext, WallTime};

/// The work of a job, whatever its type.
pub(crate) type Work =
    Arc<dyn Fn(RunContext) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send>> + Send + Sync>;

/// Runs jobs by their schedules, on every replica alike: each replica tries each slot, one of them runs it.
///
/// ```
/// use std::time::Duration;
/// use lockyard_jobs::{Job, Schedule, Scheduler};
///
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// # let url = "memory://scheduler";
/// let (locks, register) = (lockyard::connect(url).await?, lockyard::connect_register(url).await?);
/// let tidy = Job::builder("tidy", locks, register).schedule(Schedule::every(Duration::from_millis(50))).build()?;
/// let (done, ran) = tokio::sync::oneshot::channel::<()>();
/// let done = std::sync::Mutex::new(Some(done));
/// Scheduler::new()
///     .add(tidy, move |run| {
///         let done = done.lock().unwrap().take();
///         async move {
///             println!("{} under token {}", run.scheduled_at(), run.fencing_token());
///             drop(done);
///             Ok::<_, std::io::Error>(())
///         }
///     })?
///     .run_until(async { drop(ran.await) }) // or tokio::signal::ctrl_c()
///     .await;
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
/// ```
#[derive(Default)]
#[must_use = "nothing runs until run_until"]
pub struct Scheduler {
    /// With the time from which on it is due.
    jobs: Vec<(Job, Work, WallTime)>,
    names: BTreeSet<String>,
    patience: Option<Duration>,
    poll: Option<Duration>,
}

impl Scheduler {
    /// How often the record of a job is looked at for a run that was asked for by hand.
    const POLL: Duration = Duration::from_secs(10);

    /// A scheduler without jobs.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a job with its work. A job that has never run is due from now on.
    ///
    /// # Errors
    /// `Invalid` for a second job of one name: they would share their slots.
    pub fn add<F, W, E>(mut self, job: Job, work: F) -> Result<Self>
    where
        F: Fn(RunContext) -> W + Send + Sync + 'static,
        W: Future<Output = Result<(), E>> + Send + 'static,
        E: fmt::Display + Send + 'static,
    {
        if !self.names.insert(job.name().to_owned()) {
            let cure = "name each job once; one that is split has JobBuilder::shards";
            return Err(
                Invalid::new(job.name(), "builder", "another job of this scheduler has the same name", cure).into()
            );
        }
        let work: Work = Arc::new(move |run| {
            let work = work(run);
            Box::pin(async move { work.await.map_err(|error| error.to_string()) })
        });
        let from = job.inner.now();
        self.jobs.push((job, work, from));
        Ok(self)
    }

    /// How long runs may go on after the end was asked for: as long as they take. After it they are told to end, and dropped
    /// after [`JobBuilder::abort_after`](crate::JobBuilder::abort_after).
    pub const fn patience(mut self, time: Duration) -> Self {
        self.patience = Some(time);
        self
    }

    /// How often each job's record is read for a run that was asked for by hand: 10 s. Shorter: sooner, and more traffic.
    pub const fn poll(mut self, time: Duration) -> Self {
        self.poll = Some(time);
        self
    }

    /// Runs the jobs until `shutdown` ends; then begins no more runs, and returns when those under way have returned.
    /// Their locks are renewed until then: B143.
    ///
    /// What goes wrong is told to `tracing` and to the jobs' observers, and tried again; a job that panics has failed.
    ///
    /// # Cancel safety
    /// Dropped, it drops the runs under way as [`Job::run_tick`] does; prefer `shutdown`.
    pub async fn run_until(self, shutdown: impl Future<Output = ()> + Send) {
        let (ending, ended) = watch::channel(false);
        let (stopping, stopped) = watch::channel(false);
        let clock = self.jobs.first().map(|(job, ..)| job.inner.locks.clock().clone()).unwrap_or_default();
        let mut lanes = JoinSet::new();
        for (job, work, from) in self.jobs {
            for shard in 0..job.shards() {
                let poll = self.poll.unwrap_or(Self::POLL);
                let pacer = Pacer::new(job.clone(), shard, Arc::clone(&work), poll, from);
                lanes.spawn(pacer.run(ended.clone(), stopped.clone()));
            }
        }
        shutdown.await;
        // The receivers are gone where there are no jobs.
        let _ = ending.send(true);
        let drained = async { while lanes.join_next().await.is_some() {} };
        let Some(patience) = self.patience else { return drained.await };
        let mut drained = std::pin::pin!(drained);
        tokio::select! {
            biased;
            () = &mut drained => return,
            () = clock.sleep(patience) => {}
        }
        let _ = stopping.send(true);
        drained.await;
    }
}

impl fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scheduler").field("jobs", &self.names).finish_non_exhaustive()
    }
}
