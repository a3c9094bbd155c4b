//! The turn: the right to contend for a name on behalf of this process, with the claim that does it.

use std::sync::Arc;

use super::cohort::Relay;
use super::core::Core;
use super::queue::Key;
use super::release::Undo;
use crate::{Claim, IfBusy};

/// Travels from the first request to the answer of the release, inside whatever is going on: a write, a wait, a guard, a
/// release. Wherever it is dropped, what its claim may have on the server is undone, and the next local waiter goes on.
///
/// The claim is armed before the first byte leaves and disarmed when it is certain that nothing of it is on the server,
/// or when a guard has taken over.
pub(crate) struct Turn {
    core: Arc<Core>,
    /// The predecessor's, in the hands of one that has waited and not sent its own: they stand at the same key.
    claim: Key,
    /// Whether something of the claim may be on the server that nobody else answers for.
    armed: bool,
    /// Whether it is this process's only one for its key; never without a local queue.
    in_queue: bool,
    /// A hold that comes along to the next local holder.
    relay: Option<Box<Relay>>,
}

impl Turn {
    /// The one turn of this process for the key of `claim`.
    pub(crate) const fn of_queue(core: Arc<Core>, claim: Arc<Claim>) -> Self {
        Self { core, claim: Key::of(claim), armed: false, in_queue: true, relay: None }
    }

    /// A turn beside others of this process.
    pub(crate) const fn apart(core: Arc<Core>, claim: Arc<Claim>) -> Self {
        Self { core, claim: Key::of(claim), armed: false, in_queue: false, relay: None }
    }

    pub(crate) const fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// The claim that is armed, or was last.
    pub(crate) const fn claim(&self) -> &Arc<Claim> {
        self.claim.claim()
    }

    pub(crate) const fn is_armed(&self) -> bool {
        self.armed
    }

    /// The place in the local queue was passed on already, when the hold was lost.
    pub(crate) const fn forget_place(&mut self) {
        self.in_queue = false;
    }

    /// From here on the claim is undone wherever the turn is dropped.
    pub(crate) fn arm(&mut self, claim: &Arc<Claim>) {
        // A turn that did not wait was made with it.
        if !Arc::ptr_eq(self.claim(), claim) {
            self.claim = Key::of(Arc::clone(claim));
        }
        self.armed = true;
    }

    /// Nothing of the claim is on the server, or somebody else answers for it now. Tells whether it was armed.
    pub(crate) const fn disarm(&mut self) -> bool {
        std::mem::replace(&mut self.armed, false)
    }

    /// Hands a hold on to the next local waiter. Comes back when nobody waits; the hold is the caller's again then.
    pub(crate) fn hand_on(mut self, relay: Relay) -> Result<(), Self> {
        self.relay = Some(Box::new(relay));
        let mut back = match self.pass_on() {
            Ok(()) => return Ok(()),
            Err(back) => back,
        };
        back.relay = None;
        Err(back)
    }

    /// The hold that came along.
    pub(crate) fn take_relay(&mut self) -> Option<Relay> {
        self.relay.take().map(|relay| *relay)
    }

    /// Whether a local waiter would take a hold.
    pub(crate) fn has_next(&self) -> bool {
        self.in_queue && self.core.queue.has_next(&self.claim)
    }

    /// Releases its claim in the background; the turn passes on when that was answered.
    pub(crate) fn undo(mut self, what: Undo) {
        self.disarm();
        super::release::spawn(self, what);
    }

    /// Leaves the claim to the next waiter of this process. The turn comes back when nobody inherits it.
    pub(crate) fn bequeath(self) -> Result<(), Self> {
        if self.has_heir() { self.pass_on() } else { Err(self) }
    }

    /// Gives the turn to the next local waiter. Comes back when nobody waits; its key is free then.
    fn pass_on(self) -> Result<(), Self> {
        if !self.in_queue {
            return Err(self);
        }
        let (core, key) = (Arc::clone(&self.core), self.claim.clone());
        match core.queue.pass(&key, self) {
            None => Ok(()),
            Some(mut back) => {
                back.in_queue = false;
                Err(back)
            }
        }
    }

    /// Whether somebody of this process would inherit the claim if its caller gave up now.
    fn has_heir(&self) -> bool {
        self.is_inheritable() && self.has_next()
    }

    /// A place in the server's queue belongs to the process; a claim that leaves nothing behind has none.
    fn is_inheritable(&self) -> bool {
        self.armed && self.claim().if_busy == IfBusy::Queue
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let inherited = self.has_heir();
        let (armed, in_queue, relay) = (self.armed, self.in_queue, self.relay.take());
        // The usual end: nothing to undo, nobody waits.
        if !armed && relay.is_none() && (!in_queue || self.core.queue.free(&self.claim)) {
            return;
        }
        let mut turn = Self { core: Arc::clone(&self.core), claim: self.claim.clone(), armed, in_queue, relay };
        if !turn.armed || inherited {
            match turn.pass_on() {
                Ok(()) => return,
                Err(back) => turn = back,
            }
        }
        if let Some(relay) = turn.take_relay() {
            return relay.give_back(turn);
        }
        // With its place: the turn passes on when the undo was answered, else the process would queue behind itself.
        if turn.armed {
            turn.undo(Undo::Claim);
        }
    }
}
