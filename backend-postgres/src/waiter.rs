//! A wait in the server's queue: a blocking statement on a session of its own, driven by a task of its own.
//!
//! The statement is never simply dropped: on a connection that is kept it would become a hold that nobody knows of. Whoever
//! gives up sets a flag; the task cancels the statement from the side connection, reads how it ended, and closes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use lockyard_api::{Error, ErrorKind, FencingToken, Grant, Owner, Release, Result};
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::control::Control;
use crate::error::{self, code};
use crate::keeper::before_the_end;
use crate::key::Target;
use crate::locking::Locking;
use crate::registry::{Held, Wanted};
use crate::session::{Chosen, Line, LockSession};

/// How far a wait has come.
#[derive(Debug, Clone)]
pub(crate) enum Stage {
    /// It is tried once, without waiting.
    Trying,
    /// The statement that waits is not yet with the server.
    Starting,
    /// The server has it.
    Queued,
    /// The name was won.
    Won(Grant),
    /// It ended without a hold, for this reason.
    Failed(ErrorKind, Arc<str>),
    /// It was given up, and the server has nothing of it.
    GivenUp,
    /// It was given up, and the server has not said what became of it; its session is being ended.
    Vanished,
}

impl Stage {
    /// Whether nothing more will come of it by itself.
    pub(crate) fn has_ended(&self) -> bool {
        !matches!(self, Self::Trying | Self::Starting | Self::Queued)
    }
}

/// One wait, and the hold that it may end in.
#[derive(Debug)]
pub(crate) struct Waiter {
    pub(crate) wanted: Wanted,
    pub(crate) session: Arc<LockSession>,
    pub(crate) locking: Locking,
    fixed: bool,
    /// Keeps the session from being closed as idle.
    _busy: Option<Chosen>,
    state: Mutex<State>,
    changed: Notify,
    given_up: Notify,
}

#[derive(Debug)]
struct State {
    stage: Stage,
    held: Option<Held>,
    given_up: bool,
}

impl Waiter {
    /// `fixed`: what it wins is never renewed.
    pub(crate) fn new(wanted: Wanted, session: Arc<LockSession>, locking: Locking, fixed: bool) -> Arc<Self> {
        let state = Mutex::new(State { stage: Stage::Trying, held: None, given_up: false });
        let _busy = Chosen::choose(&session);
        Arc::new(Self {
            wanted,
            session,
            locking,
            fixed,
            _busy,
            state,
            changed: Notify::new(),
            given_up: Notify::new(),
        })
    }

    pub(crate) fn fixed(&self) -> bool {
        self.fixed
    }

    pub(crate) fn held(&self) -> Option<Held> {
        self.state().held.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn stage(&self) -> Stage {
        self.state().stage.clone()
    }

    /// Ends when the wait has come so far that `done` says yes.
    pub(crate) async fn until(&self, done: impl Fn(&Stage) -> bool) -> Stage {
        loop {
            let changed = self.changed.notified();
            let stage = self.stage();
            if done(&stage) {
                return stage;
            }
            changed.await;
        }
    }

    /// Gives the wait up, unless it has been won.
    pub(crate) fn give_up(&self) {
        let mut state = self.state();
        if !state.stage.has_ended() {
            state.given_up = true;
            self.given_up.notify_one();
        }
    }

    /// The owner and its hold, when it was won on this target by the session of process `pid`.
    pub(crate) fn won_by(&self, target: Target, pid: i32) -> Option<(Owner, Held)> {
        if self.locking.target() != target || self.session.backend.pid != pid {
            return None;
        }
        Some((self.wanted.owner, self.state().held.clone()?))
    }

    pub(crate) fn enter(&self, stage: Stage) {
        self.state().stage = stage;
        self.changed.notify_waiters();
    }

    /// Publishes the grant, unless the wait was given up meanwhile.
    fn win(&self, token: FencingToken) -> Option<Grant> {
        let watch = self.session.hold(self.locking.target());
        let held = Held { token, watch, since: self.session.clock.now(), label: self.wanted.label.clone() };
        let grant = held.grant();
        let mut state = self.state();
        if state.given_up {
            return None;
        }
        state.held = Some(held);
        state.stage = Stage::Won(grant.clone());
        drop(state);
        self.changed.notify_waiters();
        Some(grant)
    }
}

/// What a waiting task works with; no reference to the client among it.
#[derive(Clone)]
pub(crate) struct Tools {
    pub(crate) control: Arc<Control>,
    pub(crate) op_timeout: Duration,
    /// How long a slice of the wait may go unanswered before the session counts as lost. `None` with slices off.
    pub(crate) slice_limit: Option<Duration>,
}

/// Waits until the name is won, the wait is given up, or the session fails.
pub(crate) async fn wait_in_queue(waiter: Arc<Waiter>, tools: Tools) {
    let Some(mut line) = waiter.session.line().await else {
        waiter.enter(Stage::Failed(ErrorKind::Unreachable, "the session for the wait has ended".into()));
        return;
    };
    loop {
        match slice(&waiter, &tools, &mut line).await {
            Slice::Answered(Ok(number)) => return finish(&waiter, line, number).await,
            Slice::Answered(Err(failed)) if waiter.state().given_up || !is_still_waiting(&failed) => {
                return fail(&waiter, line, failed).await;
            }
            Slice::Answered(Err(_)) => {
                let recovered = before_the_end(&waiter.session, waiter.locking.recover(&mut line)).await;
                if !matches!(recovered, Some(Ok(()))) {
                    return vanish(&waiter, line);
                }
            }
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
async fn slice(waiter: &Waiter, tools: &Tools, line: &mut Line) -> Slice {
    let mut statement = std::pin::pin!(waiter.locking.wait(line));
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
            None => tools.control.gone(waiter.session.backend).await,
        }
    };
    tokio::select! {
        biased;
        answer = &mut statement => return Slice::Answered(answer),
        () = waiter.given_up.notified() => {}
        () = silence => return Slice::Silent,
    }
    // A cancel that comes too late hits nothing: the answer decides.
    const ATTEMPTS: u32 = 5;
    for _ in 0..ATTEMPTS {
        if let Err(error) = tools.control.cancel(waiter.session.backend).await {
            tracing::debug!(%error, "cancelling a wait");
        }
        if let Ok(answer) = timeout(tools.op_timeout / ATTEMPTS, &mut statement).await {
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
    undo(waiter, line).await;
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
    matches!(before_the_end(session, waiter.locking.refresh(line)).await, Some(Ok(_)))
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
    if !waiter.state().given_up {
        let error: Error = error::driver(failed, "waiting");
        waiter.enter(Stage::Failed(error.kind(), error.message().into()));
        return close(waiter, line);
    }
    if error::session_survives(&failed) { undo(waiter, line).await } else { close(waiter, line) }
}

/// The server may still work on the statement: its process is ended.
fn vanish(waiter: &Arc<Waiter>, line: Line) {
    line.distrust();
    if waiter.state().given_up {
        waiter.enter(Stage::Vanished);
    } else if !matches!(waiter.stage(), Stage::Failed(..)) {
        waiter.enter(Stage::Failed(ErrorKind::Unreachable, "the server did not answer while waiting".into()));
    }
}

/// A connection on which a wait did not end in a grant is never used again: a late cancel could hit what comes next.
fn close(waiter: &Arc<Waiter>, line: Line) {
    waiter.session.close();
    drop(line);
    if waiter.state().given_up {
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
