//! A claim with a session of its own: how far it has come, and who drives its wait.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use lockyard_api::{ErrorKind, FencingToken, Grant, Owner};
use tokio::runtime::Handle;
use tokio::sync::Notify;

use crate::driven::Work;
use crate::key::Target;
use crate::locking::Locking;
use crate::registry::{Held, Wanted};
use crate::session::{Chosen, LockSession};

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
    _busy: Chosen,
    state: Mutex<State>,
    changed: Notify,
    given_up: Notify,
    work: Work,
}

#[derive(Debug)]
struct State {
    stage: Stage,
    held: Option<Held>,
    given_up: bool,
}

impl Waiter {
    /// `fixed`: what it wins is never renewed.
    pub(crate) fn new(wanted: Wanted, chosen: Chosen, locking: Locking, fixed: bool, runtime: &Handle) -> Arc<Self> {
        let state = Mutex::new(State { stage: Stage::Trying, held: None, given_up: false });
        Arc::new(Self {
            wanted,
            session: Arc::clone(chosen.session()),
            locking,
            fixed,
            _busy: chosen,
            state,
            changed: Notify::new(),
            given_up: Notify::new(),
            work: Work::new(runtime),
        })
    }

    /// Begins to wait in the server's queue: `waiting` is what does it.
    pub(crate) fn queue(&self, waiting: impl Future<Output = ()> + Send + 'static) {
        self.enter(Stage::Starting);
        self.work.begin(waiting);
    }

    /// The wait goes on by itself, whether or not anybody asks for its end.
    pub(crate) fn detach(&self) {
        self.work.hand_over();
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

    /// Ends when the wait has come so far that `done` says yes; drives it meanwhile.
    pub(crate) async fn until(&self, done: impl Fn(&Stage) -> bool + Send + Sync) -> Stage {
        if let Some(stage) = self.drive(&done).await {
            return stage;
        }
        loop {
            let changed = self.changed.notified();
            let stage = self.stage();
            if done(&stage) {
                return stage;
            }
            changed.await;
        }
    }

    /// `None` when there is nothing to drive here, or not any more. Does not listen for changes: this driver makes them, and
    /// would wake itself.
    async fn drive(&self, done: impl Fn(&Stage) -> bool + Send + Sync) -> Option<Stage> {
        let driver = self.work.drive()?;
        let stage = std::future::poll_fn(|context| {
            let goes_on = driver.advance(context);
            let stage = self.stage();
            match (done(&stage), goes_on) {
                (true, _) => Poll::Ready(Some(stage)),
                (false, true) => Poll::Pending,
                (false, false) => Poll::Ready(None),
            }
        })
        .await;
        driver.done();
        stage
    }

    /// Gives the wait up, unless it has been won.
    pub(crate) fn give_up(&self) {
        let mut state = self.state();
        if !state.stage.has_ended() {
            state.given_up = true;
            self.given_up.notify_one();
        }
        drop(state);
        self.detach();
    }

    pub(crate) fn is_given_up(&self) -> bool {
        self.state().given_up
    }

    /// Ends when the wait was given up.
    pub(crate) async fn given_up(&self) {
        self.given_up.notified().await;
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
    pub(crate) fn win(&self, token: FencingToken) -> Option<Grant> {
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
