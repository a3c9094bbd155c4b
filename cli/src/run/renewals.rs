//! How the renewals of the lock go, as the library tells it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use lockyard::{Event, Observer, Operation};

/// Counts renewals and keeps the first failure of a row of them.
#[derive(Debug, Default)]
pub(super) struct Renewals {
    confirmed: AtomicU64,
    in_trouble: AtomicBool,
    news: Mutex<Option<&'static str>>,
}

impl Renewals {
    /// How many were confirmed.
    pub(super) fn confirmed(&self) -> u64 {
        self.confirmed.load(Ordering::Relaxed)
    }

    /// The kind of error that a row of failures began with, once.
    pub(super) fn new_trouble(&self) -> Option<&'static str> {
        self.news.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The observer of the one `Locker` of a run.
#[derive(Debug)]
pub(super) struct Ear(pub(super) Arc<Renewals>);

impl Observer for Ear {
    fn on_event(&self, event: &Event) {
        match event {
            Event::Renewed { .. } => {
                self.0.confirmed.fetch_add(1, Ordering::Relaxed);
                self.0.in_trouble.store(false, Ordering::Relaxed);
            }
            Event::Failed { operation: Operation::Renew, kind, .. }
                if !self.0.in_trouble.swap(true, Ordering::Relaxed) =>
            {
                *self.0.news.lock().unwrap_or_else(PoisonError::into_inner) = Some(kind.as_str());
            }
            _ => {}
        }
    }
}
