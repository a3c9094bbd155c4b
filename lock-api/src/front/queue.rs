//! The local queue: one contender of this process for each name, kind and lease; the others wait in process order.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use foldhash::fast::RandomState;
use tokio::sync::oneshot;

use super::turn::Turn;
use crate::{Claim, Kind, LockName, Renew};

/// Whose claims are one queue: those of the same name, kind and lease. Others contend at the server, each for itself.
///
/// A claim stands for all that are like it: a pointer, since the key goes with the turn wherever that goes.
#[derive(Debug, Clone)]
pub(crate) struct Key(Arc<Claim>);

impl Key {
    pub(crate) const fn of(claim: Arc<Claim>) -> Self {
        Self(claim)
    }

    pub(crate) const fn claim(&self) -> &Arc<Claim> {
        &self.0
    }

    fn parts(&self) -> (&LockName, Kind, Duration, Renew) {
        let claim = &self.0;
        (&claim.name, claim.kind, claim.ttl, claim.renew)
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.parts() == other.parts()
    }
}

impl Eq for Key {}

impl Hash for Key {
    /// By the name alone: it is hashed several times a cycle, and the rest hardly ever differs.
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.name.hash(state);
    }
}

/// The key and those behind it. Seeded anew for each map; nobody sees the order of it, so a quick hash will do.
type Waiting = HashMap<Key, VecDeque<oneshot::Sender<Turn>>, RandomState>;

/// Who waits behind whom in this process. A key that is present has a contender (or a holder).
#[derive(Default)]
pub(crate) struct LocalQueue {
    waiting: Mutex<Waiting>,
}

impl LocalQueue {
    /// Takes the turn if nobody of this process has it.
    pub(crate) fn try_enter(&self, key: Key) -> bool {
        match self.lock().entry(key) {
            Entry::Occupied(_) => false,
            Entry::Vacant(vacant) => {
                vacant.insert(VecDeque::new());
                true
            }
        }
    }

    /// Takes the turn, or a place behind the one who has it.
    pub(crate) fn enter(&self, key: Key) -> Option<oneshot::Receiver<Turn>> {
        match self.lock().entry(key) {
            Entry::Vacant(vacant) => {
                vacant.insert(VecDeque::new());
                None
            }
            Entry::Occupied(mut occupied) => {
                let (turn, place) = oneshot::channel();
                let places = occupied.get_mut();
                // Those who gave up are dropped here too, so that a long hold does not collect them.
                if places.len() > 16 && places.iter().filter(|place| place.is_closed()).count() > places.len() / 2 {
                    places.retain(|place| !place.is_closed());
                }
                places.push_back(turn);
                Some(place)
            }
        }
    }

    /// Gives the turn to the next one who still waits. `None` when it was given, the turn back when nobody waits: then
    /// the key is free.
    pub(crate) fn pass(&self, key: &Key, mut turn: Turn) -> Option<Turn> {
        while let Some(place) = self.next(key) {
            match place.send(turn) {
                Ok(()) => return None,
                Err(back) => turn = back,
            }
        }
        Some(turn)
    }

    /// Frees the key if nobody waits for the turn.
    pub(crate) fn free(&self, key: &Key) -> bool {
        let mut waiting = self.lock();
        match waiting.remove(key) {
            Some(places) if !places.is_empty() => {
                waiting.insert(key.clone(), places);
                false
            }
            _ => true,
        }
    }

    /// Whether somebody of this process waits behind the contender of the key.
    pub(crate) fn has_next(&self, key: &Key) -> bool {
        self.lock().get(key).is_some_and(|places| places.iter().any(|place| !place.is_closed()))
    }

    /// The next place; frees the key when there is none.
    fn next(&self, key: &Key) -> Option<oneshot::Sender<Turn>> {
        let mut waiting = self.lock();
        let Entry::Occupied(mut entry) = waiting.entry(key.clone()) else { return None };
        let place = entry.get_mut().pop_front();
        if place.is_none() {
            entry.remove();
        }
        place
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
