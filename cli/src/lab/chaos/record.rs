//! What is known of a run while it goes on.

use std::sync::{Mutex, MutexGuard, PoisonError};

use lockyard_conformance::history::{Event, FaultKind, FaultWindow, What};

use super::puppet::now;

/// All that the clients said and all that was broken. It knows nothing of the stage: who listens to the clients keeps the
/// record, and must not keep the clients that it listens to.
#[derive(Default)]
pub(super) struct Record {
    events: Mutex<Vec<Event>>,
    faults: Mutex<Vec<FaultWindow>>,
}

impl Record {
    /// Keeps what a client said.
    pub(super) fn note(&self, event: Event) {
        lock(&self.events).push(event);
    }

    /// Keeps what was broken, from `from` to now.
    pub(super) fn broke(&self, fault: FaultKind, from: u64, process: Option<u32>) {
        lock(&self.faults).push(FaultWindow::new(fault, from, now(), process));
    }

    /// The owner that holds a name, as far as its clients have said.
    pub(super) fn holder(&self, name: &str) -> Option<(u32, String)> {
        let events = lock(&self.events);
        let last = events.iter().rev().find(|event| {
            event.name == name && matches!(event.what, What::Granted { .. } | What::Release | What::Lost { .. })
        });
        match last {
            Some(Event { process, what: What::Granted { owner, .. }, .. }) => Some((*process, owner.clone())),
            _ => None,
        }
    }

    /// How many clients have ended.
    pub(super) fn ended(&self) -> usize {
        lock(&self.events).iter().filter(|event| event.what == What::Ended).count()
    }

    /// All of it.
    pub(super) fn all(&self) -> (Vec<Event>, Vec<FaultWindow>) {
        (lock(&self.events).clone(), lock(&self.faults).clone())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
