//! The task that keeps one session: heartbeat, watch for its end, and closing.

use std::sync::Arc;
use std::time::Duration;

use lockyard_api::Moment;
use sqlx::Row;

use crate::key::{Key, Target};
use crate::session::{Line, LockSession};
use crate::statements::Advisory;

/// What a heartbeat asks for.
#[derive(Debug, Clone)]
pub(crate) enum Heartbeat {
    /// Lists the advisory locks of the session: what is missing is lost, what nobody knows is given back.
    Advisory(Arc<Advisory>),
    /// A statement in the session's transaction, if it has one.
    Row,
    /// None: the server ends the session one ttl after its last statement.
    Off,
}

/// After so many heartbeats without use a session that may be closed is.
const IDLE_BEATS: u32 = 12;

/// Keeps `session` until it is closed or over. `spare`: it may be closed when it is long idle.
///
/// Holds no reference to the client, whose drop closes the session.
pub(crate) async fn keep(session: Arc<LockSession>, heartbeat: Heartbeat, spare: bool) {
    let mut idle = 0;
    let mut turns = session.turns();
    loop {
        let due = match heartbeat {
            Heartbeat::Off => Moment::FAR,
            _ => session.clock.now().plus(session.class / 3),
        };
        tokio::select! {
            biased;
            () = session.closing() => return close(&session).await,
            () = session.ended() => break,
            () = session.connection_ended() => break,
            () = session.clock.sleep_until(due) => {}
        }
        if session.turns() == turns && session.holds().is_empty() {
            idle += 1;
        } else {
            idle = 0;
        }
        if spare && idle >= IDLE_BEATS && session.retire() {
            return close(&session).await;
        }
        if beat(&session, &heartbeat).await.is_none() {
            break;
        }
        turns = session.turns();
    }
    session.end();
    session.hang_up().await;
}

async fn close(session: &LockSession) {
    session.hang_up().await;
    session.finish();
}

/// One heartbeat. `None` when the session is over.
pub(crate) async fn beat(session: &Arc<LockSession>, heartbeat: &Heartbeat) -> Option<()> {
    let line = session.line().await?;
    match heartbeat {
        Heartbeat::Off => Some(()),
        Heartbeat::Advisory(sql) => before_the_end(session, list(line, sql)).await?,
        Heartbeat::Row => before_the_end(session, same_process(line)).await?,
    }
}

/// Drives what was sent until it ends or the server has ended the session for want of a sign of life. An unanswered
/// statement is given up with its session only then: a server that stalls for a moment loses nobody's lock.
pub(crate) async fn before_the_end<T>(session: &LockSession, sent: impl Future<Output = T>) -> Option<T> {
    // A session that is already late, after a suspend, is given a moment to answer.
    const LATE: Duration = Duration::from_secs(1);
    let until = session.deadline().max(session.clock.now().plus(LATE));
    tokio::select! {
        biased;
        answer = sent => Some(answer),
        () = session.clock.sleep_until(until) => None,
    }
}

/// That it answers is what counts; that it is the same process shows that the driver has not connected anew.
async fn same_process(mut line: Line) -> Option<()> {
    let row = line.raw("SELECT pg_backend_pid()".into()).await.ok()??;
    if row.try_get::<i32, _>(0).ok() == Some(line.session().backend.pid) {
        return Some(());
    }
    line.distrust();
    None
}

/// Compares what the server says this session holds with what this client knows.
async fn list(mut line: Line, sql: &Advisory) -> Option<()> {
    let row = line.fetch(sql.list()).await.ok()?;
    let (pid, one, two): (i32, Vec<i64>, Vec<i64>) = match (row.try_get(0), row.try_get(1), row.try_get(2)) {
        (Ok(pid), Ok(one), Ok(two)) => (pid, one, two),
        _ => {
            line.distrust();
            return None;
        }
    };
    let session = Arc::clone(line.session());
    if pid != session.backend.pid {
        line.distrust();
        return None;
    }
    let keys =
        one.iter().map(|key| Key::from_lock_table(*key, 1)).chain(two.iter().map(|key| Key::from_lock_table(*key, 2)));
    let held: std::collections::HashSet<Key> = keys.collect();
    session.holds().retain(|target, watch| {
        let there = matches!(target, Target::Key(key) if held.contains(key));
        if !there {
            watch.revoke();
        }
        there
    });
    for key in held {
        if !session.has(key) {
            tracing::warn!(%key, pid, "giving back a lock of this session that nobody holds");
            line.fetch(sql.unlock(key)).await.ok()?;
        }
    }
    Some(())
}
