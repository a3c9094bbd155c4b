//! What is sent for a claim with a session of its own, and what follows from the answers: a wait, a try, giving back.
//!
//! A blocking statement is never simply dropped: on a connection that is kept it would become a hold that nobody knows of.
//! Whoever gives up sets a flag; a task then cancels the statement from the side connection, reads how it ended, and closes.

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use lockyard_api::{Error, ErrorKind, FencingToken, Grant, Release, Result};
use tokio::time::timeout;

use crate::control::Control;
use crate::error::{self, code};
use crate::keeper::before_the_end;
use crate::session::Line;
use crate::waiter::{Stage, Waiter};

/// What a waiting task works with; no reference to the client among it.
#[derive(Clone)]
pub(crate) struct Tools {
    pub(crate) control: Arc<Control>,
    pub(crate) op_timeout: Duration,
    /// How long a slice of the wait may go unanswered: then it is cancelled, and the session counts as lost when that goes
    /// unanswered too. `None` with slices off.
    pub(crate) slice_limit: Option<Duration>,
}

/// Waits until the name is won, the wait is given up, or the session fails.
pub(crate) async fn wait_in_queue(waiter: Arc<Waiter>, tools: Tools) {
    let Some(mut line) = waiter.session.line().await else {
        waiter.enter(Stage::Failed(ErrorKind::Unreachable, "the session for the wait has ended".into()));
        return;
    };
    let mut again = false;
    loop {
        match slice(&waiter, &tools, &mut line, again).await {
            Slice::Answered(Ok(number)) => return finish(&waiter, line, number).await,
            Slice::Answered(Err(failed)) if waiter.is_given_up() || !is_still_waiting(&failed) => {
                return Box::pin(fail(&waiter, line, failed)).await;
            }
            Slice::Answered(Err(_)) => again = true,
            Slice::Silent => return vanish(&waiter, line),
        }
    }
}

/// A slice is over, a deadlock was broken, or somebody cancelled the statement: the wait goes on.
fn is_still_waiting(failed: &sqlx::Error) -> bool {
    matches!(code(failed), Some(code::LOCK_NOT_AVAILABLE | code::DEADLOCK | code::QUERY_CANCELED))
}

enum Slice {
    /// The token's number.
    Answered(Result<i64, sqlx::Error>),
    /// The server did not answer in time: it may still have the statement.
    Silent,
}

/// One blocking statement, from its first byte to its answer.
async fn slice(waiter: &Waiter, tools: &Tools, line: &mut Line, again: bool) -> Slice {
    let mut statement = std::pin::pin!(async {
        if again { waiter.locking.wait_again(line).await } else { waiter.locking.wait(line).await }
    });
    // The first poll writes it.
    let first = std::future::poll_fn(|context| Poll::Ready(statement.as_mut().poll(context))).await;
    if let Poll::Ready(answer) = first {
        return Slice::Answered(answer);
    }
    if matches!(waiter.stage(), Stage::Starting) {
        waiter.enter(Stage::Queued);
    }
    let clock = &waiter.session.clock;
    let silence = async {
        match tools.slice_limit {
            Some(limit) => clock.sleep(limit).await,
            None => Box::pin(tools.control.gone(waiter.session.backend)).await,
        }
    };
    tokio::select! {
        biased;
        answer = &mut statement => return Slice::Answered(answer),
        () = waiter.given_up() => {}
        // The server's own limit is one for each lock that a statement waits for, and a row in a queue is two of them or more.
        () = silence => if tools.slice_limit.is_none() { return Slice::Silent },
    }
    // A cancel that comes too late hits nothing: the answer decides.
    const ATTEMPTS: u32 = 5;
    for _ in 0..ATTEMPTS {
        if let Err(error) = Box::pin(tools.control.cancel(waiter.session.backend)).await {
            tracing::debug!(%error, "cancelling a wait");
            if !waiter.is_given_up() {
                return Slice::Silent;
            }
        }
        if let Ok(answer) = Box::pin(timeout(tools.op_timeout / ATTEMPTS, &mut statement)).await {
            return Slice::Answered(answer);
        }
    }
    Slice::Silent
}

/// The lock was taken: for the waiter, or to be given back.
async fn finish(waiter: &Arc<Waiter>, mut line: Line, number: i64) {
    match token(number) {
        Ok(token) => {
            if refresh(waiter, &mut line).await && waiter.win(token).is_some() {
                return;
            }
        }
        Err(error) => waiter.enter(Stage::Failed(error.kind(), error.message().into())),
    }
    Box::pin(undo(waiter, line)).await;
}

fn token(number: i64) -> Result<FencingToken> {
    FencingToken::from_server(u64::try_from(number).unwrap_or(u64::MAX))
}

/// After a long wait the proof of life is as old as the statement: another one makes it new.
async fn refresh(waiter: &Waiter, line: &mut Line) -> bool {
    let session = &waiter.session;
    let age = session.clock.now().since(session.deadline().minus(session.class));
    if age < session.class / 4 {
        return true;
    }
    matches!(Box::pin(before_the_end(session, waiter.locking.refresh(line))).await, Some(Ok(_)))
}

async fn undo(waiter: &Arc<Waiter>, mut line: Line) {
    let undone = before_the_end(&waiter.session, waiter.locking.give_back(&mut line)).await;
    if !matches!(undone, Some(Ok(_))) {
        return vanish(waiter, line);
    }
    waiter.session.drop_hold(waiter.locking.target());
    close(waiter, line);
}

/// The statement ended with an error, so the server holds nothing for it but what it took before it failed.
async fn fail(waiter: &Arc<Waiter>, line: Line, failed: sqlx::Error) {
    if !waiter.is_given_up() {
        let error: Error = error::driver(failed, "waiting");
        waiter.enter(Stage::Failed(error.kind(), error.message().into()));
        return close(waiter, line);
    }
    if error::session_survives(&failed) { undo(waiter, line).await } else { close(waiter, line) }
}

/// The server may still work on the statement: its process is ended.
fn vanish(waiter: &Arc<Waiter>, line: Line) {
    line.distrust();
    if waiter.is_given_up() {
        waiter.enter(Stage::Vanished);
    } else if !matches!(waiter.stage(), Stage::Failed(..)) {
        waiter.enter(Stage::Failed(ErrorKind::Unreachable, "the server did not answer while waiting".into()));
    }
}

/// A connection on which a wait did not end in a grant is never used again: a late cancel could hit what comes next.
fn close(waiter: &Arc<Waiter>, line: Line) {
    waiter.session.close();
    drop(line);
    if waiter.is_given_up() {
        waiter.enter(Stage::GivenUp);
    }
}

/// One try that does not wait.
pub(crate) async fn try_once(waiter: Arc<Waiter>, mut line: Line) -> Result<Option<Grant>> {
    let failed = match waiter.locking.attempt(&mut line).await {
        Ok(None) => return Ok(None),
        Ok(Some(number)) => return token(number).map(|token| waiter.win(token)),
        Err(failed) => failed,
    };
    let survives = error::session_survives(&failed);
    if survives {
        waiter.locking.recover(&mut line).await.map_err(|failed| error::driver(failed, "undoing a try"))?;
    }
    let error = error::driver(failed, "trying");
    Err(if survives { error.not_applied() } else { error })
}

/// Gives a hold back.
pub(crate) async fn give_back(waiter: Arc<Waiter>, mut line: Line) -> Result<Release> {
    let target = waiter.locking.target();
    match waiter.locking.give_back(&mut line).await {
        Ok(true) => {
            waiter.session.drop_hold(target);
            Ok(Release::Released)
        }
        Ok(false) => {
            line.unknown_to_server(target);
            Ok(Release::NotHeld)
        }
        Err(failed) if error::session_was_ended(&failed) => {
            line.distrust();
            Ok(Release::NotHeld)
        }
        Err(failed) => Err(error::driver(failed, "giving back")),
    }
}
