//! What happens to jobs, told to an observer and to `tracing`.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::{Skipped, WallTime};

/// Something that happened to a job. What happens to its locks is told to the observer of the
/// [`Locker`](lockyard_api::Locker).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum JobEvent {
    /// A run begins.
    Started {
        /// Its slot.
        slot: WallTime,
        /// Its id.
        run_id: String,
        /// How long after the slot, by the clock of this host.
        delay: Duration,
    },
    /// A run has ended.
    Ended {
        /// Its slot.
        slot: WallTime,
        /// Its id.
        run_id: String,
        /// When, by the clock of this host.
        at: WallTime,
        /// The outcome as one word: `ran failed lost timed_out stopped`, or `dropped` with the future that ran it.
        outcome: &'static str,
        /// How long it took.
        took: Duration,
    },
    /// A slot was not run here.
    Skipped {
        /// The slot, where it got as far as that.
        slot: WallTime,
        /// Why.
        reason: Skipped,
    },
    /// Slots that nobody has run.
    Missed {
        /// The first of them.
        first: WallTime,
        /// How many.
        count: u64,
    },
    /// A run that was never finished: its replica has vanished.
    Crashed {
        /// Its slot.
        slot: WallTime,
        /// Its id.
        run_id: String,
        /// Who ran it.
        holder: String,
    },
    /// The end of a run could not be written down: the next run will report a crash.
    NotRecorded {
        /// The slot.
        slot: WallTime,
        /// What went wrong.
        error: String,
    },
    /// Too many attempts have failed: no more are made for a while.
    BreakerOpened {
        /// Why they failed.
        cause: BreakerCause,
        /// How many failed in a row.
        failures: u32,
        /// For how long at first.
        pause: Duration,
    },
    /// The service answers again, or the lock was free.
    BreakerClosed {
        /// Why they failed before.
        cause: BreakerCause,
    },
    /// A tick came to no outcome.
    Errored {
        /// What went wrong.
        error: String,
    },
}

/// Why a breaker has opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum BreakerCause {
    /// The lock service did not answer: ticks end with [`JobError::BreakerOpen`](crate::JobError::BreakerOpen) meanwhile.
    Unreachable,
    /// Another held the lock at each retry ([`OnConflict::Retry`](crate::OnConflict::Retry)): the next ones wait longer.
    Held,
}

impl BreakerCause {
    /// The cause as one word, for logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::Held => "held",
        }
    }
}

/// Is told of every [`JobEvent`], with the name of the job. Called in place: be quick, and never block.
pub trait JobObserver: fmt::Debug + Send + Sync + 'static {
    /// Something happened to this job.
    fn on_event(&self, job: &str, event: &JobEvent);
}

/// Where a job says what happens.
#[derive(Debug, Clone)]
pub(crate) struct Events {
    job: Arc<str>,
    observers: Vec<Arc<dyn JobObserver>>,
}

impl Events {
    pub(crate) fn new(job: &str, observers: Vec<Arc<dyn JobObserver>>) -> Self {
        Self { job: job.into(), observers }
    }

    pub(crate) fn tell(&self, event: &JobEvent) {
        let job: &str = &self.job;
        match event {
            JobEvent::Started { slot, run_id, delay } => {
                tracing::info!(job.name = job, job.slot = %slot, job.run_id = run_id, job.delay_seconds = delay.as_secs_f64(), "job started");
            }
            JobEvent::Ended { slot, run_id, outcome: outcome @ "ran", took, .. } => {
                tracing::info!(job.name = job, job.slot = %slot, job.run_id = run_id, job.outcome = outcome, job.seconds = took.as_secs_f64(), "job ended");
            }
            JobEvent::Ended { slot, run_id, outcome, took, .. } => {
                tracing::warn!(job.name = job, job.slot = %slot, job.run_id = run_id, job.outcome = outcome, job.seconds = took.as_secs_f64(), "job ended");
            }
            JobEvent::Skipped { slot, reason } => {
                tracing::debug!(job.name = job, job.slot = %slot, job.outcome = reason.as_str(), "job skipped: {reason}");
            }
            JobEvent::Missed { first, count } => {
                tracing::warn!(job.name = job, job.slot = %first, count, "slots that nobody has run");
            }
            JobEvent::Crashed { slot, run_id, holder } => {
                tracing::error!(job.name = job, job.slot = %slot, job.run_id = run_id, holder, "a run was never finished");
            }
            JobEvent::NotRecorded { slot, error } => {
                tracing::error!(job.name = job, job.slot = %slot, error, "the end of the run could not be written down");
            }
            JobEvent::BreakerOpened { cause, failures, pause } => {
                let (cause, pause_seconds) = (cause.as_str(), pause.as_secs_f64());
                tracing::error!(
                    job.name = job,
                    job.cause = cause,
                    failures,
                    pause_seconds,
                    "no more attempts for a while"
                );
            }
            JobEvent::BreakerClosed { cause } => {
                tracing::info!(job.name = job, job.cause = cause.as_str(), "attempts are made again");
            }
            JobEvent::Errored { error } => tracing::warn!(job.name = job, error, "tick failed"),
        }
        for observer in &self.observers {
            observer.on_event(job, event);
        }
    }
}
