//! How an operation on a session is bounded in time without its outcome being lost.

use std::sync::Arc;
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
pub(crate) async fn driven<T: Send + 'static>(
    runtime: &Handle,
    limit: Duration,
    session: &Arc<LockSession>,
    doing: &str,
    op: impl Future<Output = T> + Send + 'static,
) -> Result<T> {
    let mut op = Box::pin(op);
    if let Ok(answer) = timeout(limit, &mut op).await {
        return Ok(answer);
    }
    let session = Arc::clone(session);
    runtime.spawn(async move { before_the_end(&session, op).await.map(drop) });
    Err(error::no_answer(doing))
}
