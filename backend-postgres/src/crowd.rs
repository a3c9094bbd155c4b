//! Names that were found held a moment ago: a claim that queues waits for these at once, without a try that would fail.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockyard_api::{Clock, LockName, Moment};

/// When which name was last found held.
#[derive(Debug, Default)]
pub(crate) struct Crowd(Mutex<HashMap<LockName, Moment>>);

impl Crowd {
    /// Longer: a name that has become free costs a wait's detour for longer. Shorter: more tries that fail.
    const LASTS: Duration = Duration::from_millis(100);
    const MOST: usize = 1000;

    fn names(&self) -> MutexGuard<'_, HashMap<LockName, Moment>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn found_held(&self, name: &LockName, now: Moment) {
        let mut names = self.names();
        if names.len() >= Self::MOST {
            names.retain(|_, found| now.since(*found) < Self::LASTS);
        }
        if names.len() < Self::MOST {
            names.insert(name.clone(), now);
        }
    }

    pub(crate) fn is_at(&self, name: &LockName, clock: &Clock) -> bool {
        let mut names = self.names();
        let Some(found) = names.get(name) else { return false };
        let lasts = clock.now().since(*found) < Self::LASTS;
        if !lasts {
            names.remove(name);
        }
        lasts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crowd_goes_away() {
        let (crowd, clock) = (Crowd::default(), Clock::manual());
        let name = LockName::new("a").expect("a name");
        crowd.found_held(&name, clock.now());
        assert!(crowd.is_at(&name, &clock));
        assert!(!crowd.is_at(&LockName::new("b").expect("a name"), &clock));
        clock.advance(Crowd::LASTS);
        assert!(!crowd.is_at(&name, &clock));
        assert!(crowd.names().is_empty());
    }
}
