//! The sessions of a client: one for each class of ttl, granted when it is first needed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockyard_api::{Error, ErrorKind, Result};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::claims::Claims;
use crate::error::Failure;
use crate::session::{Keeper, LeaseSession};
use crate::surroundings::Surroundings;

/// The lengths of session leases in seconds. Few, so that a client with many different ttls keeps few leases alive.
const SECONDS: [u64; 9] = [1, 2, 5, 10, 15, 30, 60, 120, 300];

/// The shortest and the longest.
pub(crate) const SHORTEST: Duration = Duration::from_secs(SECONDS[0]);
pub(crate) const LONGEST: Duration = Duration::from_secs(SECONDS[SECONDS.len() - 1]);

/// The class of a ttl: the next one that is not shorter.
pub(crate) fn class_of(ttl: Duration) -> Duration {
    SECONDS.iter().map(|s| Duration::from_secs(*s)).find(|class| *class >= ttl).unwrap_or(LONGEST)
}

type Granted = Result<Arc<LeaseSession>>;

#[derive(Debug)]
enum Slot {
    Live(Arc<LeaseSession>),
    /// A task asks for the lease; these wait for it.
    Granting(Vec<oneshot::Sender<Granted>>),
}

/// The sessions by class.
#[derive(Debug)]
pub(crate) struct Sessions {
    slots: Mutex<HashMap<Duration, Slot>>,
    claims: Arc<Claims>,
    around: Surroundings,
}

impl Sessions {
    pub(crate) fn new(claims: Arc<Claims>, around: Surroundings) -> Self {
        Self { slots: Mutex::default(), claims, around }
    }

    /// The session that carries claims of this ttl; a new one when there is none or the last one has ended.
    pub(crate) async fn of(self: &Arc<Self>, ttl: Duration) -> Granted {
        let class = class_of(ttl);
        let answer = {
            let mut slots = self.slots();
            match slots.get_mut(&class) {
                Some(Slot::Live(session)) if !session.is_ended() => return Ok(Arc::clone(session)),
                Some(Slot::Granting(waiting)) => {
                    let (tell, answer) = oneshot::channel();
                    waiting.push(tell);
                    answer
                }
                _ => {
                    let (tell, answer) = oneshot::channel();
                    slots.insert(class, Slot::Granting(vec![tell]));
                    // A task of its own: whoever asked first may go, or stop polling, and the others still get theirs.
                    self.around.handle.spawn(Arc::clone(self).grant(class));
                    answer
                }
            }
        };
        answer
            .await
            .unwrap_or_else(|_| Err(Error::new(ErrorKind::Shutdown, "the client's runtime ended").not_applied()))
    }

    /// The ids of the leases that are alive as far as is known.
    pub(crate) fn leases(&self) -> Vec<i64> {
        let slots = self.slots();
        let live = slots.values().filter_map(|slot| match slot {
            Slot::Live(session) if !session.is_ended() => Some(session.id()),
            _ => None,
        });
        live.collect()
    }

    async fn grant(self: Arc<Self>, class: Duration) {
        let Surroundings { rpc, clock, op_timeout, .. } = &self.around;
        let granted = match timeout(*op_timeout, rpc.grant(class, clock)).await {
            Ok(granted) => granted,
            Err(_) => Err(Failure::timed_out("granting a lease", *op_timeout)),
        };
        let session = granted.map(|lease| self.keep(LeaseSession::new(lease)));
        let waiting = {
            let mut slots = self.slots();
            let before = match &session {
                Ok(session) => slots.insert(class, Slot::Live(Arc::clone(session))),
                Err(_) => slots.remove(&class),
            };
            match before {
                Some(Slot::Granting(waiting)) => waiting,
                _ => Vec::new(),
            }
        };
        for tell in waiting {
            // Whoever waited may be gone.
            let _ = tell.send(match &session {
                Ok(session) => Ok(Arc::clone(session)),
                Err(failure) => Err(failure.to_first_error()),
            });
        }
    }

    fn keep(&self, session: LeaseSession) -> Arc<LeaseSession> {
        let session = Arc::new(session);
        let keeper =
            Keeper { session: Arc::clone(&session), claims: Arc::clone(&self.claims), around: self.around.clone() };
        self.around.handle.spawn(keeper.run());
        session
    }

    fn slots(&self) -> MutexGuard<'_, HashMap<Duration, Slot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_never_shorter_than_the_ttl() {
        for (ttl, class) in [(1, 1), (999, 1), (1000, 1), (1001, 2), (2001, 5), (30_000, 30), (120_001, 300)] {
            assert_eq!(class_of(Duration::from_millis(ttl)), Duration::from_secs(class), "{ttl} ms");
        }
        assert_eq!(class_of(Duration::MAX), LONGEST);
    }
}
