//! The way between a client and the server, and how a test disturbs it.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockyard_api::{Clock, Error, ErrorKind, Result};
use tokio::sync::{oneshot, watch};

/// The way between one client and the server. Undisturbed, a call passes it without any waiting.
pub struct MemoryLink {
    inner: Mutex<Inner>,
    state: watch::Sender<State>,
}

/// What a listener can see of the link.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) silent: bool,
    /// Whether messages are kept.
    pub(crate) keeps_pushes: bool,
    /// How often the connection was closed.
    pub(crate) cuts: u64,
}

#[derive(Default)]
struct Inner {
    silent: bool,
    swallow: bool,
    /// Whether the link refuses everything once a reply was swallowed, and whether it does already.
    refuse_then: bool,
    refusing: bool,
    /// Requests on their way, in the order in which they were sent.
    pending: VecDeque<Box<dyn FnOnce() + Send>>,
}

impl MemoryLink {
    pub(crate) fn new() -> Self {
        Self { inner: Mutex::default(), state: watch::Sender::new(State::default()) }
    }

    /// Silence: requests stay on their way until [`MemoryLink::heal`], nothing arrives, nothing is closed.
    pub fn silence(&self) {
        self.inner().silent = true;
        self.state.send_modify(|state| state.silent = true);
    }

    /// Ends the silence: what was on its way arrives, in order.
    pub fn heal(&self) {
        let mut inner = self.inner();
        // Under the lock, so that no later request overtakes one that was on its way.
        for request in inner.pending.drain(..) {
            request();
        }
        (inner.silent, inner.refuse_then, inner.refusing) = (false, false, false);
        drop(inner);
        self.state.send_modify(|state| (state.silent, state.keeps_pushes) = (false, false));
    }

    /// No message of the server arrives until [`MemoryLink::heal`]; requests and their replies do.
    pub fn keep_pushes(&self) {
        self.state.send_modify(|state| state.keeps_pushes = true);
    }

    /// Closes the connection once: what was on its way is lost.
    pub fn cut(&self) {
        self.inner().pending.clear();
        self.state.send_modify(|state| state.cuts += 1);
    }

    /// The next request arrives; its reply is lost and the connection is closed once.
    pub fn swallow_reply(&self) {
        self.inner().swallow = true;
    }

    /// As [`MemoryLink::swallow_reply`], and every later request is refused until [`MemoryLink::heal`].
    pub fn swallow_reply_and_refuse(&self) {
        let mut inner = self.inner();
        (inner.swallow, inner.refuse_then) = (true, true);
    }

    /// Whether the link is silenced.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        self.inner().silent
    }

    pub(crate) fn watch(&self) -> watch::Receiver<State> {
        self.state.subscribe()
    }

    /// Carries a request to the server and its answer back.
    pub(crate) async fn call<T: Send + 'static>(
        &self,
        clock: &Clock,
        limit: Duration,
        request: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        let mut answer = match self.send(request)? {
            Sent::Answered(answer) => return Ok(answer),
            Sent::OnItsWay(answer) => answer,
        };
        tokio::select! {
            biased;
            answer = &mut answer => answer.map_err(|_| closed()),
            // The request stays on its way: it may still arrive.
            () = clock.sleep(limit) => Err(Error::new(ErrorKind::Unreachable, format!("no answer within {limit:?}"))),
        }
    }

    fn send<T: Send + 'static>(&self, request: impl FnOnce() -> T + Send + 'static) -> Result<Sent<T>> {
        let mut inner = self.inner();
        if inner.silent {
            let (sender, receiver) = oneshot::channel();
            inner.pending.push_back(Box::new(move || drop(sender.send(request()))));
            return Ok(Sent::OnItsWay(receiver));
        }
        if inner.refusing {
            return Err(Error::new(ErrorKind::Unreachable, "the connection was refused").not_applied());
        }
        let swallow = std::mem::take(&mut inner.swallow);
        inner.refusing = swallow && inner.refuse_then;
        drop(inner);
        let answer = request();
        if swallow {
            self.cut();
            return Err(closed());
        }
        Ok(Sent::Answered(answer))
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

enum Sent<T> {
    Answered(T),
    OnItsWay(oneshot::Receiver<T>),
}

fn closed() -> Error {
    Error::new(ErrorKind::Unreachable, "the connection was closed before the answer came")
}

impl fmt::Debug for MemoryLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = self.inner();
        f.debug_struct("MemoryLink").field("silent", &inner.silent).field("pending", &inner.pending.len()).finish()
    }
}
