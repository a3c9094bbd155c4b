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
    /// `None` without a local queue.
    key: Option<Key>,
    claim: Option<Arc<Claim>>,
    /// A hold that comes along to the next local holder.
    relay: Option<Box<Relay>>,
}

impl Turn {
    pub(crate) const fn new(core: Arc<Core>, key: Option<Key>) -> Self {
        Self { core, key, claim: None, relay: None }
    }

    pub(crate) const fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// The armed claim, if there is one.
    pub(crate) const fn claim(&self) -> Option<&Arc<Claim>> {
        self.claim.as_ref()
    }

    /// The place in the local queue was passed on already, when the hold was lost.
    pub(crate) fn forget_key(&mut self) {
        self.key = None;
    }

    /// From here on the claim is undone wherever the turn is dropped.
    pub(crate) fn arm(&mut self, claim: Arc<Claim>) {
        self.claim = Some(claim);
    }

    /// Nothing of the claim is on the server, or somebody else answers for it now.
    pub(crate) fn disarm(&mut self) -> Option<Arc<Claim>> {
        self.claim.take()
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
        self.key.as_ref().is_some_and(|key| self.core.queue.has_next(key))
    }

    /// Releases a claim in the background; the turn passes on when that was answered.
    pub(crate) fn undo(mut self, claim: Arc<Claim>, what: Undo) {
        let turn = Self::new(Arc::clone(&self.core), self.key.take());
        super::release::spawn(claim, turn, what);
    }

    /// Leaves the claim to the next waiter of this process. The turn comes back when nobody inherits it.
    pub(crate) fn bequeath(self) -> Result<(), Self> {
        if self.has_heir() { self.pass_on() } else { Err(self) }
    }

    /// Gives the turn to the next local waiter. Comes back when nobody waits; its key is free then.
    fn pass_on(self) -> Result<(), Self> {
        let Some(key) = self.key.clone() else { return Err(self) };
        let core = Arc::clone(&self.core);
        match core.queue.pass(&key, self) {
            None => Ok(()),
            Some(mut back) => {
                back.key = None;
                Err(back)
            }
        }
    }

    /// Whether somebody of this process would inherit the claim if its caller gave up now.
    fn has_heir(&self) -> bool {
        self.is_inheritable() && self.key.as_ref().is_some_and(|key| self.core.queue.has_next(key))
    }

    /// A place in the server's queue belongs to the process; a claim that leaves nothing behind has none.
    fn is_inheritable(&self) -> bool {
        self.claim.as_ref().is_some_and(|claim| claim.if_busy == IfBusy::Queue)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let inherited = self.has_heir();
        let (key, claim, relay) = (self.key.take(), self.claim.take(), self.relay.take());
        // The usual end: nothing to undo, nobody waits.
        if claim.is_none() && relay.is_none() && key.as_ref().is_none_or(|key| self.core.queue.free(key)) {
            return;
        }
        let mut turn = Self { core: Arc::clone(&self.core), key, claim, relay };
        if turn.claim.is_none() || inherited {
            match turn.pass_on() {
                Ok(()) => return,
                Err(back) => turn = back,
            }
        }
        if let Some(relay) = turn.take_relay() {
            return relay.give_back(turn);
        }
        // With its key: the turn passes on when the undo was answered, else the process would queue behind itself.
        if let Some(claim) = turn.claim.take() {
            super::release::spawn(claim, turn, Undo::Claim);
        }
    }
}
