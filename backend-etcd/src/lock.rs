//! The client, and how it answers the trait.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use lockyard_api::{
    Attempt, Capabilities, Claim, Clock, DistributedLock, Error, ErrorKind, Fencing, FencingToken, Holder, IfBusy,
    LivenessKind, LockName, Queueing, Release, Renew, Renewal, Result, TtlRange, Wake, Waking, async_trait,
};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::claims::{Claims, Entry, Phase};
use crate::classes::{LONGEST, SHORTEST, Sessions};
use crate::config::EtcdConfig;
use crate::connect;
use crate::error::Failure;
use crate::keys::{KeySpace, owner_of};
use crate::rpc::{Contender, Entered, Listing, Own, Rpc};
use crate::surroundings::Surroundings;
use crate::watch::{Passage, Watches};
use crate::watcher::RECHECK;

/// How long a request may wander in the network after its sender gave it up.
const WANDERING: Duration = Duration::from_secs(7);

/// A client of etcd that holds locks. Cheap to clone; the last clone dropped ends its sessions and with them its holds.
///
/// A session is a lease that one stream keeps alive, one for each class of ttl (1 2 5 10 15 30 60 120 300 s, rounded
/// up). What the server granted is what counts: a lease is never shorter than the server's election timeout allows
/// (<https://etcd.io/docs/v3.4/op-guide/configuration/>), so 1 s becomes 2 s on a server with the default settings.
#[derive(Clone)]
pub struct EtcdLock {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    servers: String,
    keys: KeySpace,
    rpc: Rpc,
    clock: Clock,
    op_timeout: Duration,
    claims: Arc<Claims>,
    sessions: Arc<Sessions>,
    watches: Arc<Watches>,
    /// Who we are, for people who inspect a lock.
    origin: String,
    /// Tasks end when it is dropped.
    _open: watch::Sender<()>,
}

impl EtcdLock {
    /// Connects, and checks that the server is an etcd of version 3.4 or later that lets this user hold locks.
    ///
    /// Background tasks run on the runtime of this call.
    ///
    /// # Errors
    /// `Config` for settings that contradict each other or files that cannot be read, `Unreachable`, `Auth`, and
    /// `WrongServer`, each naming the server and a remedy, within the connect timeout.
    ///
    /// # Cancel safety
    /// May be dropped at any await; nothing is left on the server.
    pub async fn connect(config: EtcdConfig) -> Result<Self> {
        let handle = Handle::try_current().map_err(|e| {
            Error::config("connect inside a tokio runtime: the session's heartbeat runs there").with_source(e)
        })?;
        let keys = KeySpace::new(&config.prefix, &config.options.namespace);
        let rpc = connect::open(&config, &keys).await?;
        let (open, opened) = watch::channel(());
        let (clock, op_timeout) = (config.options.clock.clone(), config.options.op_timeout);
        let claims = Arc::new(Claims::default());
        let surroundings = Surroundings { rpc: rpc.clone(), clock: clock.clone(), op_timeout, handle, open: opened };
        let sessions = Sessions::new(Arc::clone(&claims), surroundings.clone());
        let watches = Watches::new(surroundings, config.watch_linger);
        let inner = Inner {
            servers: config.servers(),
            keys,
            rpc,
            clock,
            op_timeout,
            claims,
            sessions: Arc::new(sessions),
            watches: Arc::new(watches),
            origin: origin(),
            _open: open,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The ids of this client's session leases, as `etcdctl lease list` shows them in hexadecimal digits.
    #[must_use]
    pub fn leases(&self) -> Vec<i64> {
        self.inner.leases()
    }

    /// Where its keys lie.
    #[must_use]
    pub fn key_space(&self) -> &KeySpace {
        &self.inner.keys
    }

    #[cfg(feature = "testing")]
    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.inner
    }
}

impl fmt::Debug for EtcdLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdLock")
            .field("servers", &self.inner.servers)
            .field("base", &self.inner.keys.base())
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl DistributedLock for EtcdLock {
    fn capabilities(&self) -> Capabilities {
        capabilities()
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        let inner = &*self.inner;
        let capabilities = capabilities();
        capabilities.check_kind(claim.kind)?;
        capabilities.ttl.check(claim.ttl)?;
        let entry = inner.entry(claim).await?;
        let first = entry.sending();
        let attempt = inner.within("acquiring", inner.attempt(claim, &entry)).await;
        attempt.map_err(|failure| inner.failed(&entry, first, failure))
    }

    async fn wait(&self, claim: &Claim) -> Result<Wake> {
        let Some(entry) = self.inner.claims.find(claim.owner) else { return Ok(Wake::Retry) };
        loop {
            let changed = entry.changed();
            match entry.phase() {
                // Its own lease begins with the hold, and that is a write.
                Phase::Held(_) if claim.renew == Renew::Never => return Ok(Wake::Retry),
                Phase::Held(_) => return Ok(Wake::Granted(entry.grant()?)),
                Phase::Unknown => return Ok(Wake::Retry),
                Phase::Queued(_) => {}
            }
            if let Some(error) = entry.take_trouble() {
                return Err(error);
            }
            tokio::select! {
                biased;
                () = entry.session.api().ended() => return Err(session_changed()),
                () = changed => {}
            }
        }
    }

    async fn renew(&self, claim: &Claim) -> Result<Renewal> {
        if claim.renew == Renew::Never {
            return Err(Error::unsupported("a fixed lease is never renewed"));
        }
        let inner = &*self.inner;
        let Some(entry) = inner.claims.find(claim.owner) else { return Ok(Renewal::Lost) };
        inner.within("renewing", inner.confirm(&entry)).await.map_err(Failure::into_error)
    }

    async fn release(&self, claim: &Claim) -> Result<Release> {
        let inner = &*self.inner;
        let Some(entry) = inner.claims.find(claim.owner) else {
            let key = inner.keys.lock(&claim.name).key(claim.owner);
            return inner.within("releasing", inner.delete(&key)).await.map_err(Failure::into_error);
        };
        entry.leaving();
        inner.watches.leave(&claim.name, &entry);
        if entry.session.is_ended() && entry.fixed().is_none() {
            inner.claims.remove(claim.owner);
            return Ok(Release::NotHeld);
        }
        let release = inner.within("releasing", inner.leave(&entry)).await.map_err(Failure::into_error)?;
        inner.claims.remove(claim.owner);
        Ok(release)
    }

    async fn inspect(&self, name: &LockName) -> Result<Option<Holder>> {
        let inner = &*self.inner;
        inner.within("inspecting", inner.look(name)).await.map_err(Failure::into_error)
    }
}

impl Inner {
    pub(crate) fn leases(&self) -> Vec<i64> {
        self.sessions.leases()
    }

    /// Everything that one operation sends, within its time.
    async fn within<T>(&self, what: &str, sent: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        let answer = timeout(self.op_timeout, sent).await;
        answer.unwrap_or_else(|_| Err(Failure::timed_out(what, self.op_timeout)))
    }

    /// The claim's entry; the first call finds it a session.
    async fn entry(&self, claim: &Claim) -> Result<Arc<Entry>> {
        let entry = match self.claims.find(claim.owner) {
            Some(entry) => entry,
            None => {
                let session = self.sessions.of(claim.ttl).await?;
                self.claims.enter(claim, self.keys.lock(&claim.name), session)
            }
        };
        if entry.session.is_ended() { Err(session_changed()) } else { Ok(entry) }
    }

    async fn attempt(&self, claim: &Claim, entry: &Arc<Entry>) -> Result<Attempt, Failure> {
        let passage = self.watches.depart(&claim.name);
        let value = self.value(claim);
        let lease = entry.fixed().map_or(entry.session.id(), |lease| lease.id);
        if claim.if_busy == IfBusy::Queue {
            let entered = self.rpc.enqueue(&entry.keys, &entry.key, &value, lease).await?;
            return self.entered(claim, entry, entered, passage).await;
        }
        let entered = self.rpc.enter_if_free(&entry.keys, &entry.key, &value, lease).await?;
        if entered.own.is_none() && !entered.listing.is_empty() {
            self.claims.remove(claim.owner);
            return Ok(Attempt::Busy);
        }
        let entered = match entered.own {
            Some(_) => entered,
            // Something that is no contender lies in the range, so that it is never empty.
            None => self.rpc.enqueue(&entry.keys, &entry.key, &value, lease).await?,
        };
        let attempt = self.entered(claim, entry, entered, passage).await?;
        if !matches!(attempt, Attempt::Queued) {
            return Ok(attempt);
        }
        entry.leaving();
        self.watches.leave(&claim.name, entry);
        self.rpc.delete(&entry.key).await?;
        self.claims.remove(claim.owner);
        Ok(Attempt::Busy)
    }

    /// What the key's place in the queue means.
    async fn entered(
        &self,
        claim: &Claim,
        entry: &Arc<Entry>,
        entered: Entered,
        passage: Option<Passage>,
    ) -> Result<Attempt, Failure> {
        let own = entered.own.ok_or_else(|| Failure::nonsense("entering the queue"))?;
        if !entry.is_ours(own.lease) {
            return Err(Failure::session_changed());
        }
        let ahead = self.ahead(entry, own, entered.listing).await?;
        if ahead.is_empty() {
            entry.hold(own.revision);
            if claim.renew == Renew::Never {
                self.fix(claim, entry, own.revision).await?;
            } else if let Some(passage) = passage {
                passage.guard(entry);
            }
        } else {
            entry.queued(own.revision);
            self.watches.enter(&claim.name, entry, own.revision, ahead, passage);
        }
        match entry.phase() {
            Phase::Queued(_) => Ok(Attempt::Queued),
            Phase::Held(_) => Ok(Attempt::Granted(entry.grant().map_err(Failure::from_api)?)),
            // Deleted at the server while the answer was on its way; `wait` says Retry.
            Phase::Unknown => Ok(Attempt::Queued),
        }
    }

    /// The contenders whose keys are older than the own one.
    async fn ahead(&self, entry: &Entry, own: Own, mut listing: Listing) -> Result<Vec<Contender>, Failure> {
        self.rpc.complete(&entry.keys, &mut listing).await?;
        listing.contenders.retain(|one| one.revision < own.revision);
        Ok(listing.contenders)
    }

    /// Gives a hold its own lease, which nobody keeps alive; a repeat gives it a new one.
    async fn fix(&self, claim: &Claim, entry: &Entry, revision: i64) -> Result<(), Failure> {
        let before = entry.fixed();
        let lease = self.rpc.grant(claim.ttl, &self.clock).await?;
        if !self.rpc.attach(&entry.key, &self.value(claim), revision, lease.id).await? {
            entry.gone(revision);
            return Err(Failure::session_changed());
        }
        entry.set_fixed(lease);
        if let Some(before) = before {
            // Without keys it is of no more use. If it stays, it runs out.
            let _ = self.rpc.revoke(before.id).await;
        }
        Ok(())
    }

    /// Reads the own key, and has the session confirmed by a keep-alive sent now.
    async fn confirm(&self, entry: &Entry) -> Result<Renewal, Failure> {
        let Phase::Held(revision) = entry.phase() else { return Ok(Renewal::Lost) };
        let asked = self.clock.now();
        let (own, ()) = tokio::join!(self.rpc.own(&entry.key), entry.session.confirm_after(asked));
        let stands = own?.is_some_and(|own| own.revision == revision && entry.is_ours(own.lease));
        if !stands {
            entry.gone(revision);
        }
        if !stands || entry.session.is_ended() {
            return Ok(Renewal::Lost);
        }
        let (valid_from, ttl) = entry.session.api().lease();
        Ok(Renewal::Renewed { ttl, valid_from })
    }

    async fn delete(&self, key: &str) -> Result<Release, Failure> {
        Ok(if self.rpc.delete(key).await? { Release::Released } else { Release::NotHeld })
    }

    async fn leave(&self, entry: &Entry) -> Result<Release, Failure> {
        let release = self.delete(&entry.key).await?;
        if let Some(lease) = entry.fixed() {
            // Without its key it is of no more use. If it stays, it runs out.
            let _ = self.rpc.revoke(lease.id).await;
        }
        Ok(release)
    }

    async fn look(&self, name: &LockName) -> Result<Option<Holder>, Failure> {
        let keys = self.keys.lock(name);
        let range = self.rpc.oldest(&keys).await?;
        let contenders: Vec<_> = range.kvs.iter().filter(|kv| keys.is_contender(&kv.key)).collect();
        let Some(first) = contenders.first() else { return Ok(None) };
        let unread = u64::try_from(range.count).unwrap_or(0).saturating_sub(range.kvs.len() as u64);
        let mut holder = Holder::new();
        holder.owner = owner_of(&first.key);
        holder.token = u64::try_from(first.create_revision).ok().and_then(|n| FencingToken::from_server(n).ok());
        holder.waiters = Some(contenders.len() as u64 - 1 + unread);
        // Only a key of ours has a value of ours.
        if holder.owner.is_some()
            && let Ok(value) = std::str::from_utf8(&first.value)
        {
            let (origin, label) = value.split_once('\n').map_or((value, None), |(origin, label)| (origin, Some(label)));
            holder.origin = Some(origin.to_owned()).filter(|origin| !origin.is_empty());
            holder.label = label.map(Arc::from);
        }
        holder.expires_in = match first.lease {
            0 => None,
            lease => self.rpc.remaining(lease).await?,
        };
        Ok(Some(holder))
    }

    /// What stands in the claim's key: the origin, and after a line feed the label.
    fn value(&self, claim: &Claim) -> String {
        match &claim.label {
            None => self.origin.clone(),
            Some(label) => format!("{}\n{label}", self.origin),
        }
    }

    /// The error of an attempt, and what it leaves to do.
    fn failed(&self, entry: &Arc<Entry>, first: bool, failure: Failure) -> Error {
        if failure.lease_is_gone() {
            entry.session.end();
            return session_changed().with_source(failure.into_error());
        }
        if !first {
            // An earlier request may have been applied, whatever became of this one.
            self.expect_strays(entry);
            return failure.into_error();
        }
        if failure.is_refused() {
            self.claims.remove(entry.owner);
        } else {
            self.expect_strays(entry);
        }
        failure.into_first_error()
    }

    fn expect_strays(&self, entry: &Entry) {
        entry.session.expect_strays_until(self.clock.now().plus(2 * self.op_timeout + WANDERING));
    }
}

/// What this backend promises.
fn capabilities() -> Capabilities {
    let mut promises = Capabilities::new("etcd", TtlRange::new(SHORTEST, LONGEST, Duration::from_secs(1)));
    promises.queue = Queueing::Fifo;
    promises.wake = Waking::Pushed;
    promises.liveness = LivenessKind::Session;
    promises.fencing = Fencing::Durable;
    promises.expires_hung = true;
    promises.failover_safe = true;
    promises.restart_safe = true;
    // The server looks for expired leases every 500 ms and deletes their keys by a proposal.
    promises.slack = Duration::from_secs(2);
    promises.recheck = RECHECK.mul_f64(1.2);
    promises.fixed_lease = true;
    promises.inspect = true;
    promises
}

/// Nothing of the claim is on the server, nor will be: its lease is gone.
fn session_changed() -> Error {
    Error::new(ErrorKind::SessionChanged, "the session of this claim has ended: its lease is gone at the server")
        .not_applied()
}

/// Host and process.
fn origin() -> String {
    let host =
        ["/proc/sys/kernel/hostname", "/etc/hostname"].iter().find_map(|file| std::fs::read_to_string(file).ok());
    format!("{}:{}", host.as_deref().map_or("?", str::trim), std::process::id())
}
