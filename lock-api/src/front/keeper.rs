//! Watches the writes that are open.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use slab::Slab;
use tokio::runtime::Handle;
use tokio::sync::Notify;

/// How long a write may stay with its caller: a caller that neither polls nor drops it holds up nobody for longer than
/// twice this time.
const TICK: Duration = Duration::from_millis(50);
/// After so many ticks without a write the keeper sleeps until the next one: no timer runs in an idle process, and no
/// wake-up is paid per write in a busy one.
const IDLE_TICKS: u32 = 20;

/// Something that a task can take over.
pub(crate) trait Adopt: Send + Sync {
    fn adopt(self: Arc<Self>);
}

/// Where an open write stands in the keeper's table.
#[derive(Debug)]
pub(crate) struct Place(usize);

#[derive(Clone)]
pub(crate) struct Keeper(Arc<Shared>);

struct Shared {
    table: Mutex<Table>,
    wake: Arc<Notify>,
}

#[derive(Default)]
struct Table {
    tick: u64,
    entries: Slab<(u64, Arc<dyn Adopt>)>,
    entered: bool,
    asleep: bool,
}

impl Keeper {
    pub(crate) fn start(handle: &Handle) -> Self {
        let wake = Arc::new(Notify::new());
        let table = Table { asleep: true, ..Table::default() };
        let shared = Arc::new(Shared { table: Mutex::new(table), wake: Arc::clone(&wake) });
        handle.spawn(keep(Arc::downgrade(&shared), wake));
        Self(shared)
    }

    pub(crate) fn enter(&self, write: Arc<dyn Adopt>) -> Place {
        let mut table = self.0.lock();
        let tick = table.tick;
        let place = table.entries.insert((tick, write));
        table.entered = true;
        if std::mem::take(&mut table.asleep) {
            self.0.wake.notify_one();
        }
        Place(place)
    }

    pub(crate) fn leave(&self, place: Place) {
        let mut table = self.0.lock();
        let entry = table.entries.try_remove(place.0);
        drop(table);
        drop(entry);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One tick: what has been open for a whole one is taken over. Tells whether anything was open since the last.
    fn tick(&self) -> bool {
        let mut table = self.lock();
        let tick = table.tick;
        table.tick += 1;
        let old: Vec<_> = table
            .entries
            .iter()
            .filter(|(_, (entered, _))| *entered < tick)
            .map(|(_, (_, write))| Arc::clone(write))
            .collect();
        let busy = std::mem::take(&mut table.entered) || !table.entries.is_empty();
        drop(table);
        for write in old {
            write.adopt();
        }
        busy
    }

    /// Goes to sleep unless a write has come in the meantime.
    fn sleep(&self) -> bool {
        let mut table = self.lock();
        table.asleep = !table.entered && table.entries.is_empty();
        table.asleep
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.wake.notify_one();
    }
}

async fn keep(shared: Weak<Shared>, wake: Arc<Notify>) {
    loop {
        wake.notified().await;
        let mut idle = 0;
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let Some(shared) = shared.upgrade() else { return };
            idle = if shared.tick() { 0 } else { idle + 1 };
            if idle > IDLE_TICKS && shared.sleep() {
                break;
            }
        }
    }
}
