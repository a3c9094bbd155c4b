//! What a job does in a run, as a bound.

use std::fmt;
use std::future::Future;

use crate::RunContext;

/// What a job does in a run: any closure or function of a [`RunContext`] whose future answers with a `Result`. There is nothing
/// to implement.
///
/// ```
/// use lockyard_jobs::{RunContext, RunWork};
///
/// fn is_work(work: impl RunWork<Value = u32, Error = std::io::Error>) {}
/// is_work(|run: RunContext| async move { Ok(run.attempt()) });
/// ```
pub trait RunWork: FnOnce(RunContext) -> Self::Run + Send {
    /// One run.
    type Run: Future<Output = Result<Self::Value, Self::Error>> + Send;
    /// What comes of it.
    type Value: Send;
    /// Its error, whose text is kept in the record.
    type Error: fmt::Display + Send;
}

impl<F, R, T, E> RunWork for F
where
    F: FnOnce(RunContext) -> R + Send,
    R: Future<Output = Result<T, E>> + Send,
    T: Send,
    E: fmt::Display + Send,
{
    type Run = R;
    type Value = T;
    type Error = E;
}
