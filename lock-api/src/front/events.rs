//! What happens, told to the observers and to `tracing`.

use std::sync::Arc;
use std::time::Duration;

use super::hold::{Account, Held, Hold};
use crate::{
    CircuitChange, Claim, Clock, Error, ErrorKind, Event, FencingToken, LockName, LostReason, Observer, Operation,
    Release,
};

/// Where the front end says what happens.
#[derive(Clone, Debug)]
pub(crate) struct Events {
    backend: &'static str,
    observers: Vec<Arc<dyn Observer>>,
}

impl Events {
    pub(crate) const fn new(backend: &'static str, observers: Vec<Arc<dyn Observer>>) -> Self {
        Self { backend, observers }
    }

    pub(crate) const fn backend(&self) -> &'static str {
        self.backend
    }

    /// Whether anybody would hear how long something took; reading the clock for nobody is not free.
    pub(crate) fn wants_times(&self) -> bool {
        !self.observers.is_empty() || tracing::enabled!(tracing::Level::DEBUG)
    }

    fn tell(&self, event: impl FnOnce() -> Event) {
        if self.observers.is_empty() {
            return;
        }
        let event = event();
        for observer in &self.observers {
            observer.on_event(&event);
        }
    }

    pub(crate) fn asked(&self, name: &LockName) {
        self.tell(|| Event::Asked { name: name.clone() });
    }

    pub(crate) fn acquired(&self, claim: &Claim, token: Option<FencingToken>, waited: Duration, attempts: u32) {
        let backend = self.backend;
        tracing::debug!(lock.name = %claim.name, lock.backend = backend, lock.token = token.map(FencingToken::get),
            lock.wait_seconds = waited.as_secs_f64(), lock.attempts = attempts, "acquired");
        self.tell(|| Event::Acquired { name: claim.name.clone(), token, waited, attempts });
    }

    pub(crate) fn contended(&self, name: &LockName, waited: Duration) {
        tracing::debug!(lock.name = %name, lock.backend = self.backend, "held by another");
        self.tell(|| Event::Contended { name: name.clone(), waited });
    }

    pub(crate) fn timed_out(&self, name: &LockName, waited: Duration) {
        tracing::debug!(lock.name = %name, lock.backend = self.backend, lock.wait_seconds = waited.as_secs_f64(), "timed out");
        self.tell(|| Event::TimedOut { name: name.clone(), waited });
    }

    pub(crate) fn cancelled(&self, name: &LockName, waited: Duration) {
        tracing::debug!(lock.name = %name, lock.backend = self.backend, "acquire dropped by its caller");
        self.tell(|| Event::Cancelled { name: name.clone(), waited });
    }

    /// The error itself is told by [`Events::error`].
    pub(crate) fn gave_up(&self, name: &LockName, kind: ErrorKind, waited: Duration) {
        self.tell(|| Event::GaveUp { name: name.clone(), kind, waited });
    }

    pub(crate) fn error(&self, operation: Operation, name: Option<&LockName>, error: &Error) {
        let backend = self.backend;
        tracing::warn!(lock.name = name.map(LockName::as_str), lock.backend = backend, %error, "{} failed", operation.as_str());
        self.tell(|| Event::Failed { name: name.cloned(), operation, kind: error.kind() });
    }

    pub(crate) fn renewed(&self, held: &Held, remaining_ratio: f64) {
        let name = &held.claim.name;
        tracing::trace!(parent: held.span(), lock.name = %name, lock.backend = self.backend, remaining_ratio, "renewed");
        self.tell(|| Event::Renewed { name: name.clone(), remaining_ratio });
    }

    pub(crate) fn renewal_refused(&self, claim: &Claim) {
        self.tell(|| Event::RenewalRefused { name: claim.name.clone() });
    }

    pub(crate) fn lost(&self, held: &Held, reason: LostReason, time: Duration) {
        let name = &held.claim.name;
        let outcome = reason.as_str();
        held.ended(outcome);
        tracing::error!(parent: held.span(), lock.name = %name, lock.backend = self.backend, lock.outcome = outcome, "lock lost: {reason}");
        self.tell(|| Event::Lost { name: name.clone(), reason, held: time });
    }

    pub(crate) fn ended(&self, hold: &Hold, account: Option<&Arc<Account>>, clock: &Clock) {
        if account.is_some() {
            let held = hold.held_by(account.cloned());
            held.ended("ended");
            self.tell(|| Event::Ended { name: held.claim.name.clone(), held: held.time(clock) });
        }
    }

    /// The release of a hold was answered.
    pub(crate) fn released(&self, claim: &Claim, release: Release) {
        tracing::debug!(lock.name = %claim.name, lock.backend = self.backend, ?release, "released");
        self.tell(|| Event::Released { name: claim.name.clone(), release });
    }

    pub(crate) fn circuit(&self, change: CircuitChange) {
        match change {
            CircuitChange::Opened { failures, pause } => {
                let pause_seconds = pause.as_secs_f64();
                tracing::error!(lock.backend = self.backend, failures, pause_seconds, "no acquire is sent for a while");
                self.tell(|| Event::CircuitOpened { failures, pause });
            }
            CircuitChange::Closed => {
                tracing::info!(lock.backend = self.backend, "the lock service answers again");
                self.tell(|| Event::CircuitClosed);
            }
            CircuitChange::None | CircuitChange::StaysOpen { .. } => {}
        }
    }

    /// What a claim that was never granted to anybody may have left on the server is gone.
    pub(crate) fn undone(&self, claim: &Claim, release: Release) {
        tracing::debug!(lock.name = %claim.name, lock.backend = self.backend, ?release, "claim undone");
    }

    pub(crate) fn release_abandoned(&self, claim: &Claim) {
        tracing::warn!(lock.name = %claim.name, lock.backend = self.backend, "release given up: the lease ends it");
        self.tell(|| Event::ReleaseAbandoned { name: claim.name.clone() });
    }
}
