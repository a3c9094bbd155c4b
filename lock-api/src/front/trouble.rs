//! What an acquire that waits makes of failures.

use std::time::Duration;

use super::backoff::Backoff;
use super::core::Core;
use crate::{Error, ErrorKind, Moment};

/// A run of failures while waiting.
pub(super) struct Trouble {
    since: Option<Moment>,
    was_queued: bool,
    backoff: Backoff,
    patience: Duration,
}

impl Trouble {
    pub(super) fn new(core: &Core) -> Self {
        Self { since: None, was_queued: false, backoff: first_backoff(), patience: core.patience }
    }

    /// An answer came: the failures before it no longer count.
    pub(super) fn over(&mut self) {
        self.since = None;
        self.was_queued = true;
        self.backoff = first_backoff();
    }

    /// How long to wait before going on; `None` when the error is to be told. A first request that fails is told at once
    /// (a wrong address should not look like a long wait), an outage while waiting is sat through for a time.
    pub(super) fn pause(&mut self, core: &Core, error: &Error) -> Option<Duration> {
        if error.kind() != ErrorKind::SessionChanged && !(self.was_queued && error.kind().is_transient()) {
            return None;
        }
        let now = core.clock.now();
        let since = *self.since.get_or_insert(now);
        (now.since(since) < self.patience).then(|| self.backoff.next())
    }
}

const fn first_backoff() -> Backoff {
    Backoff::new(Duration::from_millis(20), Duration::from_secs(1))
}
