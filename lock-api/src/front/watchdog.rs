//! The watchdog: one task that renews all leases of a `Locker` and tells their loss.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use slab::Slab;
use tokio::sync::Notify;

use super::core::Core;
use super::hold::{Hold, Standing};
use crate::{Clock, LostReason, Moment, Operation, Renewal};

/// After so long without a hold the watchdog sleeps until the next one.
const IDLE_AFTER: Duration = Duration::from_secs(5);
/// A jump of the wall clock below this is the ordinary disciplining of it.
const JUMP: Duration = Duration::from_millis(2);

/// A hold under watch. The serial number tells it from a later one in the same place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WatchId {
    serial: u64,
    place: usize,
}

/// The holds under watch, by the time at which each needs something.
pub(crate) struct Watchdog {
    list: Mutex<List>,
    wake: Arc<Notify>,
}

struct List {
    places: Slab<Place>,
    /// The holds that the task has seen, by the time at which each needs something.
    due: BTreeSet<(Moment, WatchId)>,
    /// How many holds it has not seen: most go before it looks, and are never sorted in.
    unseen: usize,
    serial: u64,
    /// When the task looks next. Only ever moved earlier from outside, so that a busy process pays no wake-up per cycle.
    alarm: Moment,
}

struct Place {
    serial: u64,
    hold: Arc<Hold>,
    due: Moment,
    seen: bool,
    renewing: bool,
}

impl List {
    fn place(&mut self, id: WatchId) -> Option<&mut Place> {
        self.places.get_mut(id.place).filter(|place| place.serial == id.serial)
    }

    /// Sorts in what came since the task last looked.
    fn see(&mut self) {
        if std::mem::take(&mut self.unseen) == 0 {
            return;
        }
        for (at, place) in self.places.iter_mut().filter(|(_, place)| !place.seen) {
            place.seen = true;
            self.due.insert((place.due, WatchId { serial: place.serial, place: at }));
        }
    }

    fn remove(&mut self, id: WatchId) -> Option<Place> {
        self.place(id)?;
        let place = self.places.remove(id.place);
        if place.seen {
            self.due.remove(&(place.due, id));
        } else {
            self.unseen -= 1;
        }
        Some(place)
    }
}

impl Watchdog {
    pub(crate) fn new() -> Self {
        let list = List { places: Slab::new(), due: BTreeSet::new(), unseen: 0, serial: 0, alarm: Moment::FAR };
        Self { list: Mutex::new(list), wake: Arc::new(Notify::new()) }
    }

    pub(crate) fn start(core: &Arc<Core>) {
        let wake = Arc::clone(&core.watchdog.wake);
        // Read here: a jump before the task first runs is a jump.
        let began = core.clock.now();
        core.handle.spawn(watch(Arc::downgrade(core), wake, core.clock.clone(), began));
    }

    /// Takes a hold under watch that needs something at `due`. `None` when time cannot end it.
    pub(crate) fn enter(&self, hold: &Arc<Hold>, due: Moment) -> Option<WatchId> {
        if !hold.is_watched() {
            return None;
        }
        let mut list = self.lock();
        list.serial += 1;
        let serial = list.serial;
        let place = Place { serial, hold: Arc::clone(hold), due, seen: false, renewing: false };
        let id = WatchId { serial, place: list.places.insert(place) };
        list.unseen += 1;
        // Nothing is due in less than a tick in the usual case: the task sleeps that long at most.
        self.rouse(list, due);
        Some(id)
    }

    /// Forgets a hold: its guard has gone. A renewal under way finds nobody and changes nothing.
    pub(crate) fn leave(&self, id: WatchId) {
        let place = self.lock().remove(id);
        drop(place);
    }

    /// Sees to it that the task looks at `due` at the latest.
    fn rouse(&self, mut list: MutexGuard<'_, List>, due: Moment) {
        if due < list.alarm {
            list.alarm = due;
            drop(list);
            self.wake.notify_one();
        }
    }

    /// Ends the task when the `Locker` goes.
    pub(crate) fn stop(&self) {
        self.wake.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The holds that need something now, and those whose renewal may as well come now; with `all`, every one of them.
    fn take_due(&self, now: Moment, all: bool) -> Vec<(WatchId, Arc<Hold>)> {
        let mut list = self.lock();
        list.see();
        let soon = now.plus(Clock::RECHECK);
        let due = list.due.iter().take_while(|(due, _)| all || *due <= soon);
        let taken = due.filter_map(|(due, id)| {
            let hold = &list.places.get(id.place)?.hold;
            (all || *due <= now.plus(hold.earliness())).then(|| (*id, Arc::clone(hold)))
        });
        taken.collect()
    }

    /// Moves a hold that is still there to another time.
    fn reschedule(&self, id: WatchId, due: Moment, renewing: bool) {
        let mut list = self.lock();
        let Some(place) = list.place(id) else { return };
        let old = std::mem::replace(&mut place.due, due);
        place.renewing = renewing;
        if place.seen {
            list.due.remove(&(old, id));
            list.due.insert((due, id));
        }
    }

    fn is_renewing(&self, id: WatchId) -> bool {
        self.lock().place(id).is_some_and(|place| place.renewing)
    }

    /// Sets the alarm to the first due time, a tick from now at the latest; far away when there is nothing to watch.
    fn set_alarm(&self, now: Moment, idle: bool) -> Moment {
        let mut list = self.lock();
        list.see();
        let first = list.due.first().map(|(due, _)| *due);
        list.alarm = match first {
            None if idle => Moment::FAR,
            None => now.plus(Clock::RECHECK),
            Some(due) => due.min(now.plus(Clock::RECHECK)),
        };
        list.alarm
    }

    fn is_empty(&self) -> bool {
        self.lock().places.is_empty()
    }
}

async fn watch(core: Weak<Core>, wake: Arc<Notify>, clock: Clock, began: Moment) {
    let mut last = began;
    let mut last_busy = last;
    loop {
        let alarm = {
            let Some(core) = core.upgrade() else { return };
            let now = clock.now();
            let jumped = now.jump_since(last) > JUMP;
            last = now;
            for (id, hold) in core.watchdog.take_due(now, jumped) {
                attend(&core, id, &hold, now);
            }
            if !core.watchdog.is_empty() {
                last_busy = now;
            }
            core.watchdog.set_alarm(now, now.since(last_busy) > IDLE_AFTER)
        };
        tokio::select! {
            // Neither branch leaves anything behind: the list is looked at anew.
            () = wake.notified() => {}
            () = clock.sleep_until(alarm) => {}
        }
    }
}

/// Gives a due hold what it needs: an end, a renewal, or another time.
fn attend(core: &Arc<Core>, id: WatchId, hold: &Arc<Hold>, now: Moment) {
    let standing = hold.look(now);
    if let Standing::Lost(_) = standing {
        core.watchdog.leave(id);
        return;
    }
    let soon = now.plus(hold.earliness());
    let due = hold.renewal_due().is_some_and(|due| due <= soon) || (standing == Standing::Doubtful && hold.can_renew());
    let renew = due && !core.watchdog.is_renewing(id);
    let next = match hold.renewal_due() {
        Some(later) if later > now && !renew => later.min(hold.deadline()),
        _ => hold.deadline(),
    };
    if renew {
        core.watchdog.reschedule(id, hold.deadline(), true);
        core.handle.spawn(renew_one(Arc::clone(core), id, Arc::clone(hold)));
    } else {
        let renewing = core.watchdog.is_renewing(id);
        core.watchdog.reschedule(id, next, renewing);
    }
}

/// One renewal, driven to its end by a task of its own.
async fn renew_one(core: Arc<Core>, id: WatchId, hold: Arc<Hold>) {
    let doubtful = hold.look(core.clock.now()) == Standing::Doubtful;
    let mut next = Next { core: &core, id, hold: &hold, due: None };
    let result = core.backend.renew(&hold.claim).await;
    let now = core.clock.now();
    if let Standing::Lost(_) = hold.look(now) {
        return core.watchdog.leave(id);
    }
    match result {
        Ok(Renewal::Renewed { ttl, valid_from }) => {
            let left = hold.deadline().since(now).as_secs_f64();
            core.events.renewed(&hold.held(), left / ttl.as_secs_f64().max(f64::MIN_POSITIVE));
            hold.confirm(valid_from, ttl);
            next.due = Some(hold.renewal_due().unwrap_or(Moment::FAR));
        }
        Ok(Renewal::Lost) => {
            core.events.renewal_refused(&hold.claim);
            hold.loss().set(if doubtful { LostReason::ClockJump } else { LostReason::Revoked });
            core.watchdog.leave(id);
        }
        Err(error) => core.events.error(Operation::Renew, Some(&hold.claim.name), &error),
    }
}

/// Sets when the hold needs something next, also when the backend's renewal ended by a panic.
struct Next<'a> {
    core: &'a Core,
    id: WatchId,
    hold: &'a Hold,
    /// `None`: nothing was confirmed. Unknown is not lost: tried again until D, sooner the shorter the lease.
    due: Option<Moment>,
}

impl Drop for Next<'_> {
    fn drop(&mut self) {
        let watchdog = &self.core.watchdog;
        let again = || {
            let pause = self.hold.ttl().unwrap_or_default() / 12;
            let pause = pause.max(Duration::from_millis(5)).mul_f64(0.5 + fastrand::f64() / 2.0);
            self.core.clock.now().plus(pause)
        };
        let due = self.due.unwrap_or_else(again).min(self.hold.deadline());
        // A hold that was lost has left, and is not found.
        watchdog.reschedule(self.id, due, false);
        watchdog.rouse(watchdog.lock(), due);
    }
}
