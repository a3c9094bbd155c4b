//! The claims of a client, as far as they may be known to the server.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lockyard_api::{Claim, Error, ErrorKind, FencingToken, Grant, Liveness, LockName, Owner, Result, SessionWatch};
use tokio::sync::Notify;

use crate::keys::LockKeys;
use crate::rpc::Lease;
use crate::session::LeaseSession;

/// Fewer entries are never looked through for forgotten ones.
const FEW: usize = 256;

/// One claim and what became of it.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) keys: LockKeys,
    pub(crate) key: String,
    pub(crate) session: Arc<LeaseSession>,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    phase: Phase,
    /// Whether a request left that may have created the key.
    sent: bool,
    watch: Option<SessionWatch>,
    fixed: Option<Lease>,
    trouble: Option<(ErrorKind, String)>,
}

/// Where a claim is, each with the create revision of its key.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Nothing is known to be at the server.
    #[default]
    Unknown,
    Queued(i64),
    Held(i64),
}

impl Entry {
    fn new(claim: &Claim, keys: LockKeys, session: Arc<LeaseSession>) -> Self {
        Self { key: keys.key(claim.owner), keys, session, state: Mutex::default(), changed: Notify::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn phase(&self) -> Phase {
        self.state().phase
    }

    /// Notes that a request is about to leave. Tells whether it is the first.
    pub(crate) fn sending(&self) -> bool {
        !std::mem::replace(&mut self.state().sent, true)
    }

    /// Whether nothing of it is on the server as far as is known.
    fn is_over(&self) -> bool {
        self.session.is_ended() || self.phase() == Phase::Unknown
    }

    pub(crate) fn queued(&self, revision: i64) {
        let mut state = self.state();
        state.phase = Phase::Queued(revision);
        state.watch = None;
    }

    /// The claim holds the name from now on, or still.
    pub(crate) fn hold(&self, revision: i64) {
        let mut state = self.state();
        if state.phase != Phase::Held(revision) || state.watch.as_ref().is_none_or(|watch| watch.lost().is_some()) {
            state.watch = Some(self.session.api().watch());
        }
        state.phase = Phase::Held(revision);
        drop(state);
        self.changed.notify_waiters();
    }

    /// Everybody ahead is gone: the place of this revision becomes a hold, unless it is no longer one.
    pub(crate) fn promote(&self, revision: i64) {
        if self.phase() == Phase::Queued(revision) {
            self.hold(revision);
        }
    }

    /// The key of this revision is gone: a hold is lost, a place too.
    pub(crate) fn gone(&self, revision: i64) {
        let mut state = self.state();
        if !matches!(state.phase, Phase::Queued(at) | Phase::Held(at) if at == revision) {
            return;
        }
        state.phase = Phase::Unknown;
        let watch = state.watch.take();
        drop(state);
        self.changed.notify_waiters();
        // Told outside the lock: whoever listens runs in this call.
        if let Some(watch) = watch {
            watch.revoke();
        }
    }

    /// The claim is being released: what happens to its key is no loss.
    pub(crate) fn leaving(&self) {
        let mut state = self.state();
        state.phase = Phase::Unknown;
        drop(state);
        self.changed.notify_waiters();
    }

    /// Waiting makes no sense at present: tells the one who waits.
    pub(crate) fn trouble(&self, kind: ErrorKind, message: &str) {
        self.state().trouble = Some((kind, message.to_owned()));
        self.changed.notify_waiters();
    }

    pub(crate) fn take_trouble(&self) -> Option<Error> {
        self.state().trouble.take().map(|(kind, message)| Error::new(kind, message))
    }

    /// Ends when the phase may have changed after this call. Make it before looking at the phase.
    pub(crate) fn changed(&self) -> tokio::sync::futures::Notified<'_> {
        self.changed.notified()
    }

    /// The lease of its own that the claim's key hangs on, if it has one.
    pub(crate) fn fixed(&self) -> Option<Lease> {
        self.state().fixed
    }

    pub(crate) fn set_fixed(&self, lease: Lease) {
        self.state().fixed = Some(lease);
    }

    /// The lease that the key must hang on to be ours.
    pub(crate) fn is_ours(&self, lease: i64) -> bool {
        lease == self.session.id() || self.fixed().is_some_and(|fixed| fixed.id == lease)
    }

    /// The grant of the hold.
    pub(crate) fn grant(&self) -> Result<Grant> {
        let state = self.state();
        let (Phase::Held(revision), Some(watch)) = (state.phase, &state.watch) else {
            return Err(Error::new(ErrorKind::SessionChanged, "the claim was lost while it was granted"));
        };
        let number = u64::try_from(revision).map_err(|_| Error::new(ErrorKind::Protocol, "a negative revision"))?;
        let token = Some(FencingToken::from_server(number)?);
        Ok(match state.fixed {
            Some(lease) => Grant::new(token, lease.valid_from, Liveness::Lease { ttl: lease.ttl }),
            None => Grant::new(token, self.session.api().lease().0, Liveness::Session(watch.clone())),
        })
    }
}

/// An owner belongs to one claim; should somebody give it to claims on two names, they are still two.
type Id = (Owner, LockName);

fn id(claim: &Claim) -> Id {
    (claim.owner, claim.name.clone())
}

/// All claims of a client that may be known to the server.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    entries: Mutex<HashMap<Id, Arc<Entry>>>,
}

impl Claims {
    fn entries(&self) -> MutexGuard<'_, HashMap<Id, Arc<Entry>>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn find(&self, claim: &Claim) -> Option<Arc<Entry>> {
        self.entries().get(&id(claim)).cloned()
    }

    /// The entry of the claim: the one it has, else a new one in this session.
    pub(crate) fn enter(&self, claim: &Claim, keys: LockKeys, session: Arc<LeaseSession>) -> Arc<Entry> {
        let mut entries = self.entries();
        if entries.len() >= FEW && entries.len() == entries.capacity() {
            // Before the map grows: a claim that nobody works on and that has nothing on the server may be one that its
            // owner forgot, after it was told that its session ended. Met again, it is a new claim.
            entries.retain(|_, entry| Arc::strong_count(entry) > 1 || !entry.is_over());
        }
        let entry = entries.entry(id(claim)).or_insert_with(|| Arc::new(Entry::new(claim, keys, session)));
        Arc::clone(entry)
    }

    pub(crate) fn remove(&self, claim: &Claim) {
        self.entries().remove(&id(claim));
    }

    /// The keys of a session's claims.
    pub(crate) fn keys(&self, session: &Arc<LeaseSession>) -> HashSet<String> {
        let entries = self.entries();
        entries.values().filter(|entry| Arc::ptr_eq(&entry.session, session)).map(|entry| entry.key.clone()).collect()
    }

    /// The places and holds of a session whose keys hang on its lease, with the revisions of their keys.
    pub(crate) fn settled(&self, session: &Arc<LeaseSession>) -> Vec<(Arc<Entry>, i64)> {
        let entries = self.entries();
        let of_session = entries.values().filter(|entry| Arc::ptr_eq(&entry.session, session));
        of_session
            .filter_map(|entry| match entry.phase() {
                Phase::Queued(revision) | Phase::Held(revision) if entry.fixed().is_none() => {
                    Some((Arc::clone(entry), revision))
                }
                _ => None,
            })
            .collect()
    }
}
