//! Sessions kept for the next claim: opening one costs several round trips.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use lockyard_api::{Clock, Moment};
use tokio::runtime::Handle;

use crate::session::{Chosen, LockSession};

/// How long a session that is one too many is kept: many claims at a time mostly come again soon.
const LINGER: Duration = Duration::from_secs(5);

/// The spare sessions of one client.
pub(crate) struct Spares {
    kept: Mutex<Kept>,
    most: usize,
    clock: Clock,
    runtime: Handle,
}

#[derive(Default)]
struct Kept {
    /// With the time of their last use, which rises.
    sessions: Vec<(Moment, Arc<LockSession>)>,
    /// Whether a task closes those that are too many.
    is_thinned: bool,
}

impl Spares {
    /// `most` stay for as long as the client lives, others for a moment.
    pub(crate) fn new(most: usize, clock: Clock) -> Arc<Self> {
        Arc::new(Self { kept: Mutex::default(), most, clock, runtime: Handle::current() })
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One of this class that lives, and that its keeper does not close from here on.
    pub(crate) fn take(&self, class: Duration) -> Option<Chosen> {
        let mut kept = self.kept();
        kept.sessions.retain(|(_, session)| !session.is_over());
        loop {
            // The one that was used last: what is too many is left alone, and goes.
            let at = kept.sessions.iter().rposition(|(_, session)| session.class == class)?;
            let chosen = Chosen::choose(&kept.sessions.remove(at).1);
            if chosen.is_some() {
                return chosen;
            }
        }
    }

    /// Keeps one whose claim is over, or that was opened to be a spare.
    pub(crate) fn keep(self: &Arc<Self>, session: &Arc<LockSession>) {
        let mut kept = self.kept();
        kept.sessions.push((self.clock.now(), Arc::clone(session)));
        if kept.sessions.len() > self.most && !kept.is_thinned {
            kept.is_thinned = true;
            self.runtime.spawn(thin_out(Arc::downgrade(self), self.clock.clone()));
        }
    }

    /// Closes one, whatever its class. Whether there was any.
    pub(crate) fn close_one(&self) -> bool {
        let mut kept = self.kept();
        if kept.sessions.is_empty() {
            return false;
        }
        kept.sessions.remove(0).1.close();
        true
    }

    /// Closes those that are too many and were not used for a while. When to look again, if there are more.
    fn close_idle(&self) -> Option<Moment> {
        let mut kept = self.kept();
        let now = self.clock.now();
        while kept.sessions.len() > self.most {
            let due = kept.sessions.first().map(|(used, _)| used.plus(LINGER))?;
            if now < due {
                return Some(due);
            }
            kept.sessions.remove(0).1.close();
        }
        kept.is_thinned = false;
        None
    }
}

async fn thin_out(spares: Weak<Spares>, clock: Clock) {
    while let Some(due) = spares.upgrade().and_then(|spares| spares.close_idle()) {
        clock.sleep_until(due).await;
    }
}

impl Drop for Spares {
    fn drop(&mut self) {
        for (_, spare) in self.kept().sessions.drain(..) {
            spare.close();
        }
    }
}
