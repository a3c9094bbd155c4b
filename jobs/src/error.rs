//! What can go wrong with a job, apart from the job itself.

use std::time::Duration;

/// The result of everything here that can fail.
pub type Result<T, E = JobError> = std::result::Result<T, E>;

/// Why a job could not be built, or why a tick came to no [`Outcome`](crate::Outcome).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JobError {
    /// An option is wrong; found when the job is built.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The lock service failed. When that was after the claim, the slot counts as used.
    #[error("job {job:?}: {source}")]
    Lock {
        /// The job.
        job: String,
        /// What went wrong, and whether the service may have acted all the same.
        source: lockyard_api::Error,
    },
    /// The run record cannot be used. It is left as it is.
    #[error("job {job:?}: {source}")]
    Record {
        /// The job.
        job: String,
        /// Why.
        source: RecordError,
    },
    /// Too many attempts in a row have failed: none is made for a while.
    #[error(
        "job {job:?}: {failures} attempts in a row could not reach the lock service; the next is made in {retry_in:?}: see the errors before this one"
    )]
    BreakerOpen {
        /// The job.
        job: String,
        /// How many failed in a row.
        failures: u32,
        /// How long no attempt is made.
        retry_in: Duration,
    },
}

impl JobError {
    pub(crate) fn lock(job: &str, source: lockyard_api::Error) -> Self {
        Self::Lock { job: job.to_owned(), source }
    }
}

/// An option that is wrong: which, why, and how to mend it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("job {job:?}, {option}: {problem}; {cure}")]
#[non_exhaustive]
pub struct Invalid {
    /// The job.
    pub job: String,
    /// The option, as its method is called.
    pub option: &'static str,
    /// What is wrong with it.
    pub problem: String,
    /// What to do instead.
    pub cure: String,
}

impl Invalid {
    pub(crate) fn new(job: &str, option: &'static str, problem: impl Into<String>, cure: impl Into<String>) -> Self {
        Self { job: job.to_owned(), option, problem: problem.into(), cure: cure.into() }
    }
}

/// Why a run record cannot be used. It is never overwritten: what stands in it may matter to somebody.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// A later version of this library has written it.
    #[error(
        "its run record has version {found}, this program knows up to {known}: update it; the record was not touched"
    )]
    Newer {
        /// The version of the record.
        found: u64,
        /// The latest that is known here.
        known: u64,
    },
    /// It is not a record.
    #[error(
        "its run record is damaged ({problem}) and was not touched: look at the register {register:?} and remove it there; the next run then starts a new record, without the memory of the last slot"
    )]
    Damaged {
        /// The name of the register.
        register: String,
        /// What is wrong with it.
        problem: String,
    },
    /// It changes faster than it can be written.
    #[error("its run record was changed {attempts} times while it was to be written: is a loop editing the job?")]
    Contended {
        /// How often.
        attempts: u32,
    },
}
