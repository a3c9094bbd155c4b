//! What the server knows: holders, waiters and sessions. Pure: every step is given the time.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use lockyard_api::{Claim, FencingToken, Holder, IfBusy, LockName, Moment, Namespace, Owner, Queueing, Release, Renew};
use lockyard_api::{Error, Result};
use tokio::sync::Notify;

use crate::options::MemoryLiveness;

/// A name in its namespace.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) namespace: Namespace,
    pub(crate) name: LockName,
}

/// A session of a client. Numbers are never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct SessionId(u64);

/// The session that a request came by is over.
#[derive(Debug)]
pub(crate) struct SessionOver;

/// The answer to a try.
#[derive(Debug)]
pub(crate) enum Tried {
    Busy,
    Held(Held),
    Queued,
}

/// A hold as its owner may know it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Held {
    pub(crate) token: FencingToken,
    pub(crate) ttl: Duration,
    pub(crate) lease_from: Moment,
    pub(crate) fixed: bool,
}

/// What a listening waiter finds.
#[derive(Debug)]
pub(crate) enum Place {
    Held(Held),
    /// Still waiting: `notify` tells of a change, and at `holder_until` the hold in front ends if nobody renews it.
    Waiting {
        notify: Arc<Notify>,
        holder_until: Moment,
    },
    /// Free to take, or not known at all: ask again.
    Ask,
}

#[derive(Debug)]
struct Hold {
    owner: Owner,
    session: Option<SessionId>,
    since: Moment,
    label: Option<Arc<str>>,
    held: Held,
}

#[derive(Debug)]
struct Waiter {
    owner: Owner,
    session: Option<SessionId>,
    ttl: Duration,
    fixed: bool,
    label: Option<Arc<str>>,
    seen: Moment,
    notify: Arc<Notify>,
}

#[derive(Debug, Default)]
struct Record {
    hold: Option<Hold>,
    waiters: VecDeque<Waiter>,
}

/// All that the server knows.
#[derive(Debug)]
pub(crate) struct Table {
    queue: Queueing,
    liveness: MemoryLiveness,
    session_ttl: Duration,
    records: HashMap<Key, Record>,
    /// When each session was last heard of.
    sessions: HashMap<SessionId, Moment>,
    last_session: u64,
    last_token: u64,
}

impl Table {
    pub(crate) fn new(queue: Queueing, liveness: MemoryLiveness, session_ttl: Duration) -> Self {
        Self {
            queue,
            liveness,
            session_ttl,
            records: HashMap::new(),
            sessions: HashMap::new(),
            last_session: 0,
            last_token: 0,
        }
    }

    /// Loses all but the numbers of sessions, which are never used twice.
    pub(crate) fn restart(&mut self) {
        for waiter in self.records.drain().flat_map(|(_, record)| record.waiters) {
            waiter.notify.notify_one();
        }
        self.sessions.clear();
        self.last_token = 0;
    }

    pub(crate) fn open_session(&mut self, now: Moment) -> SessionId {
        let ttl = self.session_ttl;
        self.sessions.retain(|_, seen| now < seen.plus(ttl));
        self.last_session += 1;
        let id = SessionId(self.last_session);
        self.sessions.insert(id, now);
        id
    }

    /// Ends a session and all that rests on it.
    pub(crate) fn end_session(&mut self, id: SessionId, now: Moment) {
        if self.sessions.remove(&id).is_none() {
            return;
        }
        let of_session = |record: &Record| {
            record.hold.as_ref().is_some_and(|hold| hold.session == Some(id))
                || record.waiters.iter().any(|waiter| waiter.session == Some(id))
        };
        let keys: Vec<Key> = self.records.iter().filter(|(_, r)| of_session(r)).map(|(key, _)| key.clone()).collect();
        for key in keys {
            self.settle(&key, now);
        }
    }

    /// A request of this session has arrived: it lives on, unless it is over already.
    pub(crate) fn touch(&mut self, id: Option<SessionId>, now: Moment) -> Result<(), SessionOver> {
        let Some(id) = id else { return Ok(()) };
        if !self.is_alive(id, now) {
            self.end_session(id, now);
            return Err(SessionOver);
        }
        self.sessions.insert(id, now);
        Ok(())
    }

    /// The owners that hold something by this session.
    pub(crate) fn holds_of(&self, id: SessionId) -> HashSet<Owner> {
        let holds = self.records.values().filter_map(|record| record.hold.as_ref());
        holds.filter(|hold| hold.session == Some(id)).map(|hold| hold.owner).collect()
    }

    pub(crate) fn try_acquire(
        &mut self,
        key: &Key,
        claim: &Claim,
        session: Option<SessionId>,
        now: Moment,
    ) -> Result<Tried> {
        self.settle(key, now);
        let token = self.last_token + 1;
        let record = self.records.entry(key.clone()).or_default();
        if let Some(hold) = record.hold.as_mut().filter(|hold| hold.owner == claim.owner) {
            hold.restart(now);
            return Ok(Tried::Held(hold.held));
        }
        let place = record.waiters.iter().position(|waiter| waiter.owner == claim.owner);
        if record.hold.is_some() {
            return Ok(record.stay(claim, place, session, now));
        }
        // A queue that is in order is empty here, since `settle` would have handed the name over.
        let waiter = place.and_then(|at| record.waiters.remove(at)).unwrap_or_else(|| Waiter::new(claim, session, now));
        let token = FencingToken::from_server(token)?;
        self.last_token += 1;
        Ok(Tried::Held(record.grant(waiter, token, now)))
    }

    pub(crate) fn place(&mut self, key: &Key, owner: Owner, now: Moment) -> Place {
        self.settle(key, now);
        let Some(record) = self.records.get(key) else { return Place::Ask };
        let Some(hold) = &record.hold else { return Place::Ask };
        if hold.owner == owner {
            return Place::Held(hold.held);
        }
        let Some(waiter) = record.waiters.iter().find(|waiter| waiter.owner == owner) else { return Place::Ask };
        Place::Waiting { notify: Arc::clone(&waiter.notify), holder_until: self.end_of(hold) }
    }

    /// Restarts the lease of this owner's hold. `None` when it has none.
    pub(crate) fn renew(&mut self, key: &Key, owner: Owner, now: Moment) -> Option<Held> {
        self.settle(key, now);
        let hold = self.records.get_mut(key)?.hold.as_mut().filter(|hold| hold.owner == owner)?;
        hold.restart(now);
        Some(hold.held)
    }

    pub(crate) fn release(&mut self, key: &Key, owner: Owner, now: Moment) -> Release {
        self.settle(key, now);
        let Some(record) = self.records.get_mut(key) else { return Release::NotHeld };
        let before = record.waiters.len();
        record.waiters.retain(|waiter| waiter.owner != owner);
        let held = record.hold.as_ref().is_some_and(|hold| hold.owner == owner);
        let waited = record.waiters.len() < before;
        if held {
            record.hold = None;
        }
        self.settle(key, now);
        if held || waited { Release::Released } else { Release::NotHeld }
    }

    pub(crate) fn inspect(&mut self, key: &Key, now: Moment) -> Option<Holder> {
        self.settle(key, now);
        let record = self.records.get(key)?;
        let hold = record.hold.as_ref()?;
        let mut holder = Holder::new();
        holder.owner = Some(hold.owner);
        holder.token = Some(hold.held.token);
        holder.label.clone_from(&hold.label);
        holder.origin = hold.session.map(|SessionId(id)| format!("session {id}"));
        holder.held_for = Some(now.since(hold.since));
        holder.expires_in = Some(self.end_of(hold).since(now));
        holder.waiters = u64::try_from(record.waiters.len()).ok();
        Some(holder)
    }

    /// How many claims are known on a name: holder and waiters.
    pub(crate) fn entries(&mut self, key: &Key, now: Moment) -> usize {
        self.settle(key, now);
        self.records.get(key).map_or(0, |record| usize::from(record.hold.is_some()) + record.waiters.len())
    }

    pub(crate) const fn last_token(&self) -> u64 {
        self.last_token
    }

    /// Ends what is over on this name, and hands it on where there is a queue in order.
    fn settle(&mut self, key: &Key, now: Moment) {
        let Some(mut record) = self.records.remove(key) else { return };
        record.waiters.retain(|waiter| match waiter.session {
            Some(id) => self.is_alive(id, now),
            None => now < waiter.seen.plus(waiter.ttl),
        });
        if record.hold.as_ref().is_some_and(|hold| !self.stands(hold, now)) {
            record.hold = None;
        }
        if record.hold.is_none() && self.queue == Queueing::Fifo {
            self.hand_over(&mut record, now);
        }
        if record.hold.is_none() {
            record.waiters.iter().for_each(|waiter| waiter.notify.notify_one());
        }
        if record.hold.is_some() || !record.waiters.is_empty() {
            self.records.insert(key.clone(), record);
        }
    }

    fn hand_over(&mut self, record: &mut Record, now: Moment) {
        // Tokens end at 2^55 grants; a queue that cannot be served any more stays where it is.
        let Ok(token) = FencingToken::from_server(self.last_token + 1) else { return };
        let Some(waiter) = record.waiters.pop_front() else { return };
        self.last_token += 1;
        let notify = Arc::clone(&waiter.notify);
        let _granted = record.grant(waiter, token, now);
        notify.notify_one();
    }

    fn is_alive(&self, id: SessionId, now: Moment) -> bool {
        self.sessions.get(&id).is_some_and(|seen| now < seen.plus(self.session_ttl))
    }

    fn stands(&self, hold: &Hold, now: Moment) -> bool {
        hold.session.is_none_or(|id| self.sessions.contains_key(&id)) && now < self.end_of(hold)
    }

    fn end_of(&self, hold: &Hold) -> Moment {
        match (self.liveness, hold.session) {
            (MemoryLiveness::Session, Some(id)) => {
                self.sessions.get(&id).map_or(hold.since, |seen| seen.plus(self.session_ttl))
            }
            _ => hold.held.lease_from.plus(hold.held.ttl),
        }
    }
}

impl Record {
    /// The name is held by another: keeps or makes a place, or leaves.
    fn stay(&mut self, claim: &Claim, place: Option<usize>, session: Option<SessionId>, now: Moment) -> Tried {
        match (claim.if_busy, place) {
            (IfBusy::Queue, Some(at)) => self.waiters[at].seen = now,
            (IfBusy::Queue, None) => self.waiters.push_back(Waiter::new(claim, session, now)),
            (_, place) => {
                place.and_then(|at| self.waiters.remove(at));
                return Tried::Busy;
            }
        }
        Tried::Queued
    }

    fn grant(&mut self, waiter: Waiter, token: FencingToken, now: Moment) -> Held {
        let held = Held { token, ttl: waiter.ttl, lease_from: now, fixed: waiter.fixed };
        let Waiter { owner, session, label, .. } = waiter;
        self.hold = Some(Hold { owner, session, since: now, label, held });
        held
    }
}

impl Hold {
    fn restart(&mut self, now: Moment) {
        if !self.held.fixed {
            self.held.lease_from = now;
        }
    }
}

impl Waiter {
    fn new(claim: &Claim, session: Option<SessionId>, now: Moment) -> Self {
        Self {
            owner: claim.owner,
            session,
            ttl: claim.ttl,
            fixed: claim.renew == Renew::Never,
            label: claim.label.clone(),
            seen: now,
            notify: Arc::new(Notify::new()),
        }
    }
}

impl From<SessionOver> for Error {
    fn from(_: SessionOver) -> Self {
        Self::new(lockyard_api::ErrorKind::SessionChanged, "the session of this claim has ended: make a new claim")
            .not_applied()
    }
}
