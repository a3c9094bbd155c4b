//! The loss of a hold: set once, seen by all who look.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use tokio::sync::Notify;

use crate::front::hold::Held;

/// Why a hold is no longer one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LostReason {
    /// No renewal was confirmed before the deadline.
    Expired,
    /// The server says that the owner does not hold the name: it was revoked, deleted or given away.
    Revoked,
    /// The client's session has ended at the server.
    SessionEnded,
    /// Real time went by that the clock did not see, and no renewal has confirmed the hold since.
    ClockJump,
}

impl LostReason {
    /// The reason as one word, for labels and logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::Revoked => "revoked",
            Self::SessionEnded => "session",
            Self::ClockJump => "clock_jump",
        }
    }
}

impl fmt::Display for LostReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "no renewal was confirmed in time",
            Self::Revoked => "the server gave it up or away",
            Self::SessionEnded => "the session has ended",
            Self::ClockJump => "the clock jumped and no renewal confirmed it since",
        })
    }
}

/// Is told of a loss. Called in place: it is quick, and never blocks.
pub(crate) trait LossListener: Send + Sync {
    fn lost(self: Arc<Self>, held: &Held, reason: LostReason);
}

/// Who is told of the loss of which claim, as long as it lives.
pub(crate) struct Hook {
    pub(crate) listener: Weak<dyn LossListener>,
    pub(crate) held: Held,
}

impl Hook {
    fn tell(self, reason: LostReason) {
        if let Some(listener) = self.listener.upgrade() {
            listener.lost(&self.held, reason);
        }
    }
}

/// The loss of one hold. Shared by the backend that may notice it, the watchdog and the guard.
#[derive(Default)]
pub(crate) struct Loss {
    reason: OnceLock<LostReason>,
    notify: Notify,
    hook: Mutex<Option<Hook>>,
}

impl Loss {
    /// Of a hold that nobody else knows yet.
    pub(crate) fn told_by(hook: Hook) -> Self {
        Self { hook: Mutex::new(Some(hook)), ..Self::default() }
    }

    /// Marks the hold lost; the first reason stays. Tells whether this call was the first.
    pub(crate) fn set(&self, reason: LostReason) -> bool {
        if self.reason.set(reason).is_err() {
            return false;
        }
        self.notify.notify_waiters();
        let hook = self.hook.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(hook) = hook {
            hook.tell(reason);
        }
        true
    }

    pub(crate) fn get(&self) -> Option<LostReason> {
        self.reason.get().copied()
    }

    /// Tells the hook once when the hold is lost, at once when it is already.
    pub(crate) fn on_loss(&self, hook: Hook) {
        let mut slot = self.hook.lock().unwrap_or_else(PoisonError::into_inner);
        match self.get() {
            None => *slot = Some(hook),
            Some(reason) => {
                drop(slot);
                hook.tell(reason);
            }
        }
    }

    /// Forgets the hook: the hold is over and its loss no longer matters to anybody. Tells whether it was in time: otherwise
    /// the listener has been told.
    pub(crate) fn forget_hook(&self) -> bool {
        self.hook.lock().unwrap_or_else(PoisonError::into_inner).take().is_some()
    }

    pub(crate) async fn wait(&self) -> LostReason {
        loop {
            let notified = self.notify.notified();
            if let Some(reason) = self.get() {
                return reason;
            }
            notified.await;
        }
    }
}

impl fmt::Debug for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Loss").field(&self.get()).finish()
    }
}
