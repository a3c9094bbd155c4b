//! What a client asks of its server, and what it makes of the answers.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use lockyard_api::{
    Attempt, Claim, ErrorKind, FencingToken, Grant, Holder, IfBusy, Liveness, LockName, Moment, Owner, Release,
    Renewal, Result,
};
use redis::{ServerError, Value};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use crate::RedisConfig;
use crate::connect::{self, Connection};
use crate::error::{self, Failure};
use crate::keys::{Keys, LockKeys, origin};
use crate::reply::{self, Acquired};
use crate::scripts::{ACQUIRING, CHANNEL_PREFIX, INSPECTING, RELEASING, RENEWING};
use crate::session::Session;
use crate::waiters::{Place, Stray, Waiters};

/// How long a waiter that hears nothing sleeps at most, before jitter.
pub(crate) const RECHECK: Duration = Duration::from_secs(15);
/// The part by which that time is made longer or shorter, so that waiters do not ask in step.
pub(crate) const JITTER: f64 = 0.1;
/// The part of its ttl after which a waiter shows that it lives.
const SIGN_OF_LIFE: f64 = 0.4;
/// The least time between two signs of life.
const LEAST: Duration = Duration::from_millis(20);
/// After the holder's lease should have ended, the first waiter asks; each other one this much later.
const STEP: Duration = Duration::from_millis(5);
/// How long a grant may stay unclaimed before it is given back.
const UNCLAIMED: Duration = Duration::from_secs(1);
/// Why an owner is not answered while its unclaimed grant is on its way back.
const GIVEN_BACK: &str = "a grant that this owner did not claim in time is just being given back";
/// The longest part of a label that is kept at the server.
const LABEL_BYTES: usize = 256;

/// One client: its connection, its waiters, and what it calls itself.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) waiters: Arc<Waiters>,
    pub(crate) session: Arc<Session>,
    pub(crate) keys: Keys,
    origin: String,
    channel: String,
    requests: AtomicU64,
}

impl Client {
    /// Connects; answers also whether the server keeps locks across a crash.
    pub(crate) async fn open(config: RedisConfig) -> Result<(Arc<Self>, bool)> {
        let (strays, caught) = mpsc::unbounded_channel();
        let waiters = Arc::new(Waiters::new(strays));
        let keys = Keys::new(&config.namespace);
        let driver = connect::client(&config)?;
        let session = Session::new(config, driver, Arc::clone(&waiters));
        let connection = session.start().await?;
        let client = Arc::new(Self {
            waiters,
            session,
            keys,
            origin: origin(),
            channel: format!("{CHANNEL_PREFIX}{}", Owner::random()),
            requests: AtomicU64::new(0),
        });
        tokio::spawn(give_back(Arc::downgrade(&client), caught));
        Ok((client, connection.durable))
    }

    pub(crate) async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        let since = self.session.now();
        let connection = self.session.connection(since).await?;
        let queueing = claim.if_busy == IfBusy::Queue;
        if !self.waiters.asks(claim.owner) {
            return Err(Failure::refused(ErrorKind::Unreachable, GIVEN_BACK).into());
        }
        // An uncontended acquire does not pay for a subscription: the first that finds a name held does. While others wait,
        // which is also so after their connection broke, there is one or there must be.
        if queueing && !self.waiters.is_empty() {
            self.session.subscribe(&connection, since, &self.channel).await?;
        }
        let listening = queueing && connection.subscribed.load(Ordering::SeqCst);
        let mut attempt = self.ask(claim, &connection, since, listening).await?;
        if queueing && !listening && matches!(attempt, Attempt::Busy) {
            self.session.subscribe(&connection, since, &self.channel).await?;
            attempt = self.ask(claim, &connection, since, true).await?;
        }
        if queueing && matches!(attempt, Attempt::Busy) {
            return Err(error::unexpected("a claim that queues").into());
        }
        Ok(attempt)
    }

    pub(crate) async fn renew(&self, claim: &Claim) -> Result<Renewal> {
        let since = self.session.now();
        let connection = self.session.connection(since).await?;
        let keys = self.keys.of(&claim.name);
        let (owner, ttl) = (claim.owner.to_string(), millis(claim.ttl));
        let args = [owner.as_str(), &ttl.to_string()];
        let answer = self.session.run(&connection, since, &RENEWING, &keys, &args).await?;
        match answer.value {
            Value::Int(1) => Ok(Renewal::Renewed { ttl: Duration::from_millis(ttl), valid_from: answer.sent }),
            Value::Int(0) => Ok(Renewal::Lost),
            Value::ServerError(refused) => Err(self.refused(&refused, &keys).into()),
            _ => Err(error::unexpected("a renewal").into()),
        }
    }

    pub(crate) async fn release(&self, claim: &Claim) -> Result<Release> {
        // Before, so that nothing is kept of a claim whose release never succeeds.
        self.waiters.forget(claim.owner);
        self.release_at(&self.keys.of(&claim.name), claim.owner).await
    }

    pub(crate) async fn inspect(&self, name: &LockName) -> Result<Option<Holder>> {
        let since = self.session.now();
        let connection = self.session.connection(since).await?;
        let keys = self.keys.of(name);
        match self.session.run(&connection, since, &INSPECTING, &keys, &[""; 0]).await?.value {
            Value::ServerError(refused) => Err(self.refused(&refused, &keys).into()),
            value => reply::holder(&value).ok_or_else(|| error::unexpected("an inspection").into()),
        }
    }

    /// One request for the lock; with `listening` a place in its queue will do.
    async fn ask(&self, claim: &Claim, connection: &Connection, since: Moment, listening: bool) -> Result<Attempt> {
        let keys = self.keys.of(&claim.name);
        let request = self.requests.fetch_add(1, Ordering::Relaxed);
        let (owner, ttl) = (claim.owner.to_string(), millis(claim.ttl).to_string());
        let wake = if listening { format!("{} {request}", self.channel) } else { String::new() };
        let text = self.text(claim);
        let args = [owner.as_str(), &ttl, &text, &wake];
        let answer = self.session.run(connection, since, &ACQUIRING, &keys, &args).await?;
        if let Value::ServerError(refused) = &answer.value {
            return Err(self.refused(refused, &keys).into());
        }
        match Acquired::parse(&answer.value) {
            None => Err(error::unexpected("a claim").into()),
            Some(Acquired::Busy(_)) => Ok(Attempt::Busy),
            Some(Acquired::Granted(number)) => {
                if self.waiters.forget(claim.owner) {
                    return Err(Failure::unknown(ErrorKind::Unreachable, GIVEN_BACK).into());
                }
                let token = FencingToken::from_server(number)?;
                Ok(Attempt::Granted(Grant::new(Some(token), answer.sent, lease(claim))))
            }
            Some(Acquired::Queued(left, place)) => {
                let again_at = Instant::now() + pause(claim.ttl, left, place);
                self.waiters
                    .queued(claim.owner, Place { connection: connection.id, request, sent: answer.sent, again_at });
                Ok(Attempt::Queued)
            }
        }
    }

    async fn release_at(&self, keys: &LockKeys, owner: Owner) -> Result<Release> {
        let since = self.session.now();
        let connection = self.session.connection(since).await?;
        let answer = self.session.run(&connection, since, &RELEASING, keys, &[&owner.to_string()]).await?;
        let released = match answer.value {
            Value::Int(1 | 2) => Release::Released,
            Value::Int(0) => Release::NotHeld,
            Value::ServerError(refused) => return Err(self.refused(&refused, keys).into()),
            _ => return Err(error::unexpected("a release").into()),
        };
        // A grant may have come meanwhile: the release has given that back too.
        self.waiters.forget(owner);
        Ok(released)
    }

    fn refused(&self, refused: &ServerError, keys: &LockKeys) -> Failure {
        if error::is_foreign(refused) {
            return error::foreign_key(keys.lock());
        }
        error::refusal(refused, self.session.address())
    }

    /// What `inspect` shows of a holder: host and process, and the label.
    fn text(&self, claim: &Claim) -> String {
        let label = claim.label.as_deref().unwrap_or_default();
        let end = label.floor_char_boundary(LABEL_BYTES);
        let mut text = String::with_capacity(self.origin.len() + 1 + end);
        text.push_str(&self.origin);
        text.push(' ');
        text.push_str(&label[..end]);
        text
    }
}

/// What keeps a hold of this claim.
pub(crate) fn lease(claim: &Claim) -> Liveness {
    Liveness::Lease { ttl: Duration::from_millis(millis(claim.ttl)) }
}

/// The ttl in whole ms, rounded up; it has been checked against the range.
fn millis(ttl: Duration) -> u64 {
    u64::try_from(ttl.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// How long a waiter listens before it asks again: until it must show that it lives, or until the holder's lease should
/// have ended, if that is sooner. A lock without expiry (`left` is none) is no reason to hurry.
fn pause(ttl: Duration, left: Option<Duration>, place: u64) -> Duration {
    let jitter = fastrand::f64().mul_add(2.0 * JITTER, 1.0 - JITTER);
    let sign_of_life = ttl.mul_f64(SIGN_OF_LIFE).min(RECHECK).max(LEAST).mul_f64(jitter);
    let behind = u32::try_from(place.saturating_sub(1)).unwrap_or(u32::MAX);
    left.map_or(sign_of_life, |left| {
        let end = left.saturating_add(Duration::from_millis(1)).saturating_add(STEP.saturating_mul(behind));
        sign_of_life.min(end)
    })
}

/// Gives back what was granted to owners that nobody knows here: a request that was delayed past its undo has put them in
/// a queue. Each is kept for a moment, since a grant may arrive before the answer of the request that it is for.
async fn give_back(client: Weak<Client>, mut caught: mpsc::UnboundedReceiver<Stray>) {
    while let Some(Stray { handed, arrived }) = caught.recv().await {
        sleep_until(arrived + UNCLAIMED).await;
        let Some(client) = client.upgrade() else { return };
        if client.waiters.give_back(handed.owner) {
            let keys = LockKeys::from_lock_key(&handed.lock_key);
            if let Err(error) = client.release_at(&keys, handed.owner).await {
                tracing::warn!(%error, key = handed.lock_key, "a lock that nobody wants any more is left to its ttl");
                client.waiters.forget(handed.owner);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waiter_asks_in_time_and_never_in_a_hurry() {
        let second = Duration::from_secs(1);
        for ttl in [Duration::from_millis(10), second, 30 * second, 86_400 * second] {
            let quiet = pause(ttl, None, 1);
            assert!(quiet >= Duration::from_millis(18) && quiet <= RECHECK.mul_f64(1.0 + JITTER), "{quiet:?}");
            assert!(ttl < second || quiet < ttl.mul_f64(0.45), "{ttl:?}: {quiet:?}");
        }
        assert_eq!(pause(30 * second, Some(second), 1), Duration::from_millis(1001));
        assert_eq!(pause(30 * second, Some(second), 3), Duration::from_millis(1011));
        assert_eq!(pause(30 * second, Some(Duration::ZERO), 1), Duration::from_millis(1));
        assert!(pause(second, Some(Duration::MAX), u64::MAX) < second);
    }

    #[test]
    fn a_ttl_is_rounded_up() {
        assert_eq!(millis(Duration::from_micros(10_001)), 11);
        assert_eq!(millis(Duration::from_millis(10)), 10);
    }
}
