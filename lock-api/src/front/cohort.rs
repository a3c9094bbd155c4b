//! Hand-offs inside the process: one server-side grant serves several local holders, one after the other.

use std::sync::Arc;
use std::time::Duration;

use super::core::Core;
use super::hold::{Hold, Standing};
use super::release::Undo;
use super::turn::Turn;
use super::watchdog::WatchId;
use crate::{Clock, FencingToken, Moment};

/// How far one grant goes inside the process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cohort {
    /// Zero: every release goes to the server.
    pub(crate) handoffs: u8,
    /// From the server's grant on; other processes wait no longer than this and the last holder.
    pub(crate) time: Duration,
}

impl Cohort {
    pub(crate) const OFF: Self = Self { handoffs: 0, time: Duration::from_millis(100) };
}

/// How far the grant of a hold has gone already. `None` without a cohort.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Course {
    granted: Moment,
    handoffs: u8,
}

impl Course {
    pub(crate) fn begin(cohort: Cohort, clock: &Clock) -> Option<Self> {
        (cohort.handoffs > 0).then(|| Self { granted: clock.stopwatch(), handoffs: 0 })
    }

    /// The course after one more hand-off, if there may be one.
    fn onwards(self, cohort: Cohort, clock: &Clock) -> Option<Self> {
        let goes_on = self.handoffs < cohort.handoffs && clock.stopwatch().since(self.granted) < cohort.time;
        goes_on.then(|| Self { handoffs: self.handoffs + 1, ..self })
    }
}

/// A hold on its way from one holder of the process to the next. Its lease is renewed meanwhile.
pub(crate) struct Relay {
    pub(crate) hold: Arc<Hold>,
    pub(crate) watch: Option<WatchId>,
    /// The next holder's: a number larger than that of the one before.
    pub(crate) token: Option<FencingToken>,
    pub(crate) course: Course,
}

impl Relay {
    /// A hold for the next holder. `None` when it has to go back to the server.
    pub(crate) fn of(
        hold: &Arc<Hold>,
        watch: Option<WatchId>,
        token: Option<FencingToken>,
        course: Option<Course>,
        core: &Core,
    ) -> Option<Self> {
        let course = course?.onwards(core.cohort, &core.clock)?;
        let token = match token {
            Some(token) => Some(token.handed_on()?),
            None => None,
        };
        let relay = Self { hold: Arc::clone(hold), watch, token, course };
        relay.is_good(core).then_some(relay)
    }

    /// Nobody of the process takes it: back to the server, in the background.
    pub(crate) fn give_back(self, turn: Turn) {
        let core = turn.core();
        if let Some(watch) = self.watch {
            core.watchdog.leave(watch);
        }
        // After a shutdown nobody answers for background work: the lease ends it.
        if core.check_open().is_ok() {
            turn.undo(Undo::Hold);
        }
    }

    /// Whether it is held, with as much left of its lease as any grant has that is reported without a confirmation.
    pub(crate) fn is_good(&self, core: &Core) -> bool {
        let now = core.clock.now();
        self.hold.look(now) == Standing::Held && self.hold.is_young(now)
    }
}
