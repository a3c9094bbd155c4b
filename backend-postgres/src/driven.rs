//! How an operation on a session is bounded in time without its outcome being lost.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use lockyard_api::Result;
use tokio::runtime::Handle;
use tokio::time::timeout;

use crate::error;
use crate::keeper::before_the_end;
use crate::session::{Line, LockSession};

/// The session's line within this time; `None` when the session is over. Nothing was sent when it fails.
pub(crate) async fn line_within(limit: Duration, session: &Arc<LockSession>) -> Result<Option<Line>> {
    let line = timeout(limit, session.line()).await;
    line.map_err(|_| error::no_answer("waiting for an earlier statement of this session"))
}

/// Drives what was sent for at most `limit`; past it a task goes on with it, so that its outcome is known when the session
/// answers again.
pub(crate) fn driven<'a, T: Send + 'static>(
    runtime: &'a Handle,
    limit: Duration,
    session: &'a Arc<LockSession>,
    doing: &'a str,
    op: impl Future<Output = T> + Send + 'static,
) -> impl Future<Output = Result<T>> + Send + 'a {
    // Before anything is awaited: it is large, and would be moved once more for each future around it.
    let mut op: Pin<Box<dyn Future<Output = T> + Send>> = Box::pin(op);
    async move {
        if let Ok(answer) = timeout(limit, &mut op).await {
            return Ok(answer);
        }
        let session = Arc::clone(session);
        runtime.spawn(async move { before_the_end(&session, op).await.map(drop) });
        Err(error::no_answer(doing))
    }
}

/// Work that whoever starts it drives for as long as it cares to, and a task of the runtime after that: dropped unfinished,
/// it goes on there. A task from the start would cost two wake-ups more where the answer comes soon.
pub(crate) struct InPlace {
    work: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    runtime: Handle,
}

impl InPlace {
    pub(crate) fn new(runtime: &Handle, work: impl Future<Output = ()> + Send + 'static) -> Self {
        Self { work: Some(Box::pin(work)), runtime: runtime.clone() }
    }

    /// Drives the work until `other` ends.
    pub(crate) async fn beside<T>(&mut self, other: impl Future<Output = T>) -> T {
        let mut other = std::pin::pin!(other);
        std::future::poll_fn(|context| {
            self.advance(context);
            other.as_mut().poll(context)
        })
        .await
    }

    fn advance(&mut self, context: &mut Context<'_>) {
        if let Some(Poll::Ready(())) = self.work.as_mut().map(|work| work.as_mut().poll(context)) {
            self.work = None;
        }
    }
}

impl Drop for InPlace {
    fn drop(&mut self) {
        if let Some(work) = self.work.take() {
            self.runtime.spawn(work);
        }
    }
}
