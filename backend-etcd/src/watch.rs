//! The standing watches: one for each name that this client waits for, shared by all who wait.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockyard_api::LockName;
use tokio::sync::Notify;

use crate::claims::{Entry, Phase};
use crate::keys::LockKeys;
use crate::listing::Contender;
use crate::picture::{Picture, Verdict};
use crate::surroundings::Surroundings;
use crate::watcher::Watcher;

/// The watches of a client by name.
#[derive(Debug)]
pub(crate) struct Watches {
    names: Mutex<HashMap<LockName, Arc<NameWatch>>>,
    pub(crate) around: Surroundings,
    pub(crate) linger: Duration,
}

/// The watch of one name, and what it showed so far.
#[derive(Debug)]
pub(crate) struct NameWatch {
    pub(crate) name: LockName,
    pub(crate) keys: LockKeys,
    picture: Mutex<Picture<Arc<Entry>>>,
    /// Somebody entered who must be checked by a list.
    pub(crate) nudge: Notify,
}

/// A transaction on its way to a name that is being watched: what is deleted meanwhile is kept for its answer.
#[derive(Debug)]
pub(crate) struct Passage {
    watch: Arc<NameWatch>,
    opening: Option<u64>,
}

impl Watches {
    pub(crate) fn new(around: Surroundings, linger: Duration) -> Self {
        Self { names: Mutex::default(), around, linger }
    }

    /// Call it before a transaction leaves; `None` when the name is not being watched.
    pub(crate) fn depart(&self, name: &LockName) -> Option<Passage> {
        // Under the lock of the names: the watch does not close between being found and being wanted.
        let names = self.names();
        let watch = Arc::clone(names.get(name)?);
        let opening = watch.picture().departs();
        Some(Passage { watch, opening })
    }

    /// Enters the place of a claim that has others ahead, and opens the watch unless there is one.
    pub(crate) fn enter(
        self: &Arc<Self>,
        name: &LockName,
        entry: &Arc<Entry>,
        revision: i64,
        ahead: Vec<Contender>,
        passage: Option<Passage>,
    ) {
        if let Some(passage) = passage {
            return passage.enter(entry, revision, ahead);
        }
        let mut names = self.names();
        let watch = names.entry(name.clone()).or_insert_with(|| self.open(name, &entry.keys));
        watch.enter(entry, revision, ahead, None);
    }

    /// Forgets a claim that is being released.
    pub(crate) fn leave(&self, name: &LockName, entry: &Entry) {
        let watch = self.names().get(name).cloned();
        if let Some(watch) = watch {
            watch.picture().leave(entry.key.as_bytes());
        }
    }

    /// Takes the watch off the list unless somebody wants it. Tells whether it did.
    pub(crate) fn retire(&self, watch: &Arc<NameWatch>) -> bool {
        let mut names = self.names();
        let unwanted = !watch.picture().is_wanted();
        if unwanted && names.get(&watch.name).is_some_and(|listed| Arc::ptr_eq(listed, watch)) {
            names.remove(&watch.name);
        }
        unwanted
    }

    fn open(self: &Arc<Self>, name: &LockName, keys: &LockKeys) -> Arc<NameWatch> {
        let watch = Arc::new(NameWatch {
            name: name.clone(),
            keys: keys.clone(),
            picture: Mutex::default(),
            nudge: Notify::new(),
        });
        self.around.handle.spawn(Watcher::new(Arc::clone(self), Arc::clone(&watch)).run());
        watch
    }

    fn names(&self) -> MutexGuard<'_, HashMap<LockName, Arc<NameWatch>>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl NameWatch {
    pub(crate) fn picture(&self) -> MutexGuard<'_, Picture<Arc<Entry>>> {
        self.picture.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self, entry: &Arc<Entry>, revision: i64, ahead: Vec<Contender>, opening: Option<u64>) {
        let (verdict, wants_list) = {
            let mut picture = self.picture();
            let verdict = picture.enter(entry.key.as_bytes(), revision, ahead, Arc::clone(entry), opening);
            (verdict, picture.wants_list())
        };
        tell(verdict);
        if wants_list {
            self.nudge.notify_one();
        }
    }
}

impl Passage {
    /// Enters what the answer told.
    pub(crate) fn enter(self, entry: &Arc<Entry>, revision: i64, ahead: Vec<Contender>) {
        self.watch.enter(entry, revision, ahead, self.opening);
    }

    /// Lets the watch tell when the key of a hold is deleted, as long as it is open anyway.
    pub(crate) fn guard(self, entry: &Arc<Entry>) {
        if let Phase::Held(revision) = entry.phase() {
            self.enter(entry, revision, Vec::new());
        }
    }
}

impl Drop for Passage {
    fn drop(&mut self) {
        self.watch.picture().arrived();
    }
}

/// Tells the claims. Never under the picture's lock: whoever listens to a loss runs in this call.
pub(crate) fn tell(verdicts: impl IntoIterator<Item = Verdict<Arc<Entry>>>) {
    for verdict in verdicts {
        match verdict {
            Verdict::Head(entry, revision) => entry.promote(revision),
            Verdict::Gone(entry, revision) => entry.gone(revision),
        }
    }
}
