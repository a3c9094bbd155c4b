//! One lock session: a connection that holds locks, the heartbeat that keeps it, and the watch for its end.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex as SyncMutex, PoisonError};
use std::time::Duration;

use foldhash::fast::RandomState;
use lockyard_api::{Clock, Moment, Renewal, Session, SessionWatch};
use sqlx::postgres::PgRow;
use tokio::sync::{Mutex, Notify, OwnedMutexGuard};

use crate::control::{Backend, Control};
use crate::error;
use crate::key::Target;
use crate::wire::{Statement, Wire};

/// Looked up several times a cycle, and by keys that are hashes already.
type Holds = HashMap<Target, SessionWatch, RandomState>;

/// A session of the server and what this client holds on it.
#[derive(Debug)]
pub(crate) struct LockSession {
    wire: Arc<Mutex<Option<Wire>>>,
    /// Asks the keeper to give the wire up.
    wanted: Notify,
    waiting: AtomicUsize,
    /// Rises when a use of the connection begins and when it ends.
    turns: AtomicU64,
    closing: Notify,
    retiring: AtomicBool,
    load: AtomicUsize,
    holds: SyncMutex<Holds>,
    life: Session,
    pub(crate) class: Duration,
    pub(crate) backend: Backend,
    pub(crate) clock: Clock,
    control: Arc<Control>,
}

/// The parts that a session is opened with.
pub(crate) struct Opened {
    pub(crate) wire: Wire,
    pub(crate) backend: Backend,
    pub(crate) class: Duration,
    pub(crate) valid_from: Moment,
    pub(crate) clock: Clock,
    pub(crate) control: Arc<Control>,
}

impl LockSession {
    pub(crate) fn new(opened: Opened) -> Arc<Self> {
        Arc::new(Self {
            wire: Arc::new(Mutex::new(Some(opened.wire))),
            wanted: Notify::new(),
            waiting: AtomicUsize::new(0),
            turns: AtomicU64::new(0),
            closing: Notify::new(),
            retiring: AtomicBool::new(false),
            load: AtomicUsize::new(0),
            holds: SyncMutex::default(),
            life: Session::new(opened.valid_from, opened.class),
            class: opened.class,
            backend: opened.backend,
            clock: opened.clock,
            control: opened.control,
        })
    }

    /// The right to use the connection, in the order of asking. `None` when the session is over.
    pub(crate) async fn line(self: &Arc<Self>) -> Option<Line> {
        if let Some(line) = self.free_line() {
            return line;
        }
        let wire = {
            let _counted = Counted::new(&self.waiting);
            self.wanted.notify_one();
            Arc::clone(&self.wire).lock_owned().await
        };
        self.line_on(wire)
    }

    /// As [`LockSession::line`] if nobody has the connection: no wait, and so no timer, is needed then.
    pub(crate) fn free_line(self: &Arc<Self>) -> Option<Option<Line>> {
        let wire = Arc::clone(&self.wire).try_lock_owned().ok()?;
        Some(self.line_on(wire))
    }

    fn line_on(self: &Arc<Self>, wire: OwnedMutexGuard<Option<Wire>>) -> Option<Line> {
        self.turns.fetch_add(1, Ordering::Relaxed);
        wire.is_some().then(|| Line { wire, session: Arc::clone(self), in_flight: false })
    }

    pub(crate) fn is_over(&self) -> bool {
        self.life.is_ended()
    }

    /// The session is over: its holds are lost, and the server is told should it not know.
    pub(crate) fn end(&self) {
        if !self.life.is_ended() {
            self.control.bury(self.backend);
        }
        self.finish();
    }

    /// The session was closed: whatever it held is no longer held.
    pub(crate) fn finish(&self) {
        self.life.end();
        self.holds().clear();
    }

    pub(crate) fn is_retiring(&self) -> bool {
        self.retiring.load(Ordering::SeqCst)
    }

    /// Closes the session as soon as nobody uses it; its keeper does.
    pub(crate) fn close(&self) {
        self.closing.notify_one();
    }

    /// Notes a hold that the server has just given to this session.
    pub(crate) fn hold(&self, target: impl Into<Target>) -> SessionWatch {
        let watch = self.life.watch();
        self.holds().insert(target.into(), watch.clone());
        watch
    }

    pub(crate) fn has(&self, target: impl Into<Target>) -> bool {
        self.holds().contains_key(&target.into())
    }

    pub(crate) fn drop_hold(&self, target: impl Into<Target>) {
        self.holds().remove(&target.into());
    }

    pub(crate) fn holds(&self) -> std::sync::MutexGuard<'_, Holds> {
        self.holds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An answer came to what was sent at `sent`: the server's idle timer started later.
    pub(crate) fn confirm(&self, sent: Moment) {
        self.life.confirm(sent, self.class);
    }

    /// When the server ends the session unless it hears from us.
    pub(crate) fn deadline(&self) -> Moment {
        let (valid_from, ttl) = self.life.lease();
        valid_from.plus(ttl)
    }

    /// How a hold on this session stands.
    pub(crate) fn renewal(&self, target: impl Into<Target>) -> Renewal {
        let (valid_from, ttl) = self.life.lease();
        if self.is_over() || !self.has(target) { Renewal::Lost } else { Renewal::Renewed { ttl, valid_from } }
    }

    pub(crate) fn load(&self) -> usize {
        self.load.load(Ordering::SeqCst)
    }

    pub(crate) fn turns(&self) -> u64 {
        self.turns.load(Ordering::Relaxed)
    }

    /// Takes the session out of use if nobody uses it or holds anything on it.
    pub(crate) fn retire(&self) -> bool {
        self.retiring.store(true, Ordering::SeqCst);
        if self.load() == 0 && self.holds().is_empty() {
            return true;
        }
        self.retiring.store(false, Ordering::SeqCst);
        false
    }

    /// Ends when somebody asked for the session to be closed.
    pub(crate) async fn closing(&self) {
        self.closing.notified().await;
    }

    /// Ends when the session is over.
    pub(crate) async fn ended(&self) {
        self.life.ended().await;
    }

    /// Ends when the connection has: looks at it whenever nobody has used it for a moment, and gives way when it is wanted.
    /// Never in the way of who comes right after a statement, since every turn of its own would delay a hand-over.
    pub(crate) async fn connection_ended(&self) {
        const QUIET: Duration = Duration::from_millis(50);
        loop {
            let turns = self.turns();
            self.clock.sleep(QUIET).await;
            // A statement that is under way sees the end itself.
            let Ok(mut wire) = self.wire.try_lock() else { continue };
            let Some(open) = wire.as_mut() else { return };
            if self.turns() != turns || self.waiting.load(Ordering::SeqCst) > 0 {
                continue;
            }
            tokio::select! {
                biased;
                () = self.wanted.notified() => {}
                () = open.ended() => {
                    wire.take();
                    return;
                }
            }
        }
    }

    /// Drops the connection, as soon as nobody uses it.
    pub(crate) async fn hang_up(&self) {
        self.wire.lock().await.take();
    }
}

/// The connection of a session, for one user at a time. A statement on it that is dropped before its answer, or that fails
/// in a way the session does not survive, ends the session.
#[derive(Debug)]
pub(crate) struct Line {
    wire: OwnedMutexGuard<Option<Wire>>,
    session: Arc<LockSession>,
    in_flight: bool,
}

impl Line {
    pub(crate) fn session(&self) -> &Arc<LockSession> {
        &self.session
    }

    /// Sends a statement and returns its row. The answer confirms the session.
    pub(crate) async fn fetch(&mut self, statement: Statement) -> Result<PgRow, sqlx::Error> {
        let Some(wire) = self.wire.as_mut() else { return Err(sqlx::Error::PoolClosed) };
        let sent = self.session.clock.now();
        self.in_flight = true;
        let answer = wire.fetch(statement).await;
        self.answered(sent, answer)
    }

    /// Sends statements in one flight, without parameters, and returns their first row. The answer confirms the session.
    pub(crate) async fn raw(&mut self, sql: Arc<str>) -> Result<Option<PgRow>, sqlx::Error> {
        let Some(wire) = self.wire.as_mut() else { return Err(sqlx::Error::PoolClosed) };
        let sent = self.session.clock.now();
        self.in_flight = true;
        let answer = wire.raw(sql).await;
        self.answered(sent, answer)
    }

    fn answered<T>(&mut self, sent: Moment, answer: Result<T, sqlx::Error>) -> Result<T, sqlx::Error> {
        self.in_flight = answer.as_ref().is_err_and(|failed| !error::session_survives(failed));
        if !self.in_flight {
            self.session.confirm(sent);
        }
        answer
    }

    /// The server says that the session does not have a lock that it was given: nothing that is known of it holds.
    pub(crate) fn unknown_to_server(self, target: impl Into<Target>) {
        let pid = self.session.backend.pid;
        tracing::error!(target = ?target.into(), pid, "the server does not know a lock of this session: closing it");
        self.distrust();
    }

    /// Nobody knows any more what the server has of this session: it ends.
    pub(crate) fn distrust(mut self) {
        self.in_flight = true;
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.session.turns.fetch_add(1, Ordering::Relaxed);
        if self.in_flight {
            self.wire.take();
            self.session.end();
        }
    }
}

/// A session that was chosen for an operation; counts as busy until dropped.
#[derive(Debug)]
pub(crate) struct Chosen(Arc<LockSession>);

impl Chosen {
    /// `None` when the session is about to be closed.
    pub(crate) fn choose(session: &Arc<LockSession>) -> Option<Self> {
        session.load.fetch_add(1, Ordering::SeqCst);
        let chosen = Self(Arc::clone(session));
        (!session.retiring.load(Ordering::SeqCst) && !session.is_over()).then_some(chosen)
    }

    pub(crate) fn session(&self) -> &Arc<LockSession> {
        &self.0
    }
}

impl Drop for Chosen {
    fn drop(&mut self) {
        self.0.load.fetch_sub(1, Ordering::SeqCst);
    }
}

struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    fn new(counter: &'a AtomicUsize) -> Self {
        counter.fetch_add(1, Ordering::SeqCst);
        Self(counter)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}
