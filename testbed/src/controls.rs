//! The state that a proxy shares with its connections.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use crate::Mode;

/// The direction of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Requests,
    Replies,
}

/// What the owner of a proxy sets and its connections obey.
#[derive(Debug)]
pub(crate) struct Controls {
    pub(crate) mode: watch::Sender<Mode>,
    /// Counts the calls of reset: a connection ends when it sees the number change.
    pub(crate) resets: watch::Sender<u64>,
    plan: Mutex<Plan>,
    open: AtomicUsize,
}

#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) cut_after: Option<usize>,
    pub(crate) swallow: usize,
    pub(crate) delays: [Duration; 2],
    /// What marks the connection that a client sends it on.
    pub(crate) mark: Option<&'static [u8]>,
}

impl Default for Controls {
    fn default() -> Self {
        let (mode, resets) = (watch::Sender::new(Mode::Pass), watch::Sender::new(0));
        Self { mode, resets, plan: Mutex::default(), open: AtomicUsize::new(0) }
    }
}

impl Controls {
    pub(crate) fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn open(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }

    /// Whether a client that sends these bytes marks its connection.
    pub(crate) fn marks(&self, bytes: &[u8]) -> bool {
        let mark = self.plan().mark;
        mark.is_some_and(|mark| bytes.windows(mark.len()).any(|window| window == mark))
    }

    /// Waits while what goes this `way` is held, then tells whether it passes.
    pub(crate) async fn passes(&self, way: Way, marked: &AtomicBool) -> bool {
        let mut mode = self.mode.subscribe();
        let keeps = |mode: Mode| match mode {
            Mode::Hold => true,
            Mode::HoldMarked => way == Way::Replies && marked.load(Ordering::SeqCst),
            _ => false,
        };
        let settled = mode.wait_for(|mode| !keeps(*mode)).await.map(|mode| *mode);
        !matches!((settled, way), (Ok(Mode::DropRequests), Way::Requests) | (Ok(Mode::DropReplies), Way::Replies))
    }

    /// Waits until both ways are free: before that, neither side learns that the other one is gone.
    pub(crate) async fn healed(&self) {
        let mut mode = self.mode.subscribe();
        let _sender_is_ours = mode.wait_for(|mode| matches!(mode, Mode::Pass | Mode::Refuse)).await;
    }

    /// How much of a chunk of requests passes; the rest is cut off, and the plan is done.
    pub(crate) fn admit(&self, length: usize) -> usize {
        let mut plan = self.plan();
        match plan.cut_after {
            Some(left) if left < length => {
                plan.cut_after = None;
                left
            }
            left => {
                plan.cut_after = left.map(|left| left - length);
                length
            }
        }
    }

    /// Whether a chunk of replies is to be swallowed; the last one is, and the connection is cut.
    pub(crate) fn swallow(&self) -> Result<bool, Cut> {
        let mut plan = self.plan();
        match plan.swallow {
            0 => Ok(false),
            left => {
                plan.swallow = left - 1;
                if left == 1 { Err(Cut) } else { Ok(true) }
            }
        }
    }
}

/// A connection ends with a reset on both sides.
#[derive(Debug)]
pub(crate) struct Cut;

/// Counts a connection for as long as it lives, however it ends.
pub(crate) struct Open(Arc<Controls>);

impl Open {
    pub(crate) fn new(controls: Arc<Controls>) -> Self {
        controls.open.fetch_add(1, Ordering::SeqCst);
        Self(controls)
    }
}

impl Deref for Open {
    type Target = Controls;

    fn deref(&self) -> &Controls {
        &self.0
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::SeqCst);
    }
}
