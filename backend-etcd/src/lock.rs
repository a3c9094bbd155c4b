//! The client, and how it answers the trait.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lockyard_api::{
    Attempt, Capabilities, Claim, Collected, DistributedLock, Error, Fencing, GarbageCollect, Holder, LivenessKind,
    LockName, Queueing, Release, Renew, Renewal, Result, TtlRange, Unused, Wake, Waking, async_trait,
};
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::claims::{Claims, Phase};
use crate::classes::{LONGEST, SHORTEST, Sessions};
use crate::config::EtcdConfig;
use crate::connect;
use crate::error::Failure;
use crate::keys::KeySpace;
use crate::lists::RECHECK;
use crate::operations::{Operations, origin, session_changed};
use crate::surroundings::Surroundings;
use crate::watch::Watches;

/// A client of etcd that holds locks. Cheap to clone; the last clone dropped ends its sessions and with them its holds.
///
/// A session is a lease that one stream keeps alive, one for each class of ttl (1 2 5 10 15 30 60 120 300 s, rounded
/// up). What the server granted is what counts: a lease is never shorter than the server's election timeout allows
/// (<https://etcd.io/docs/v3.4/op-guide/configuration/>), so 1 s becomes 2 s on a server with the default settings.
#[derive(Clone)]
pub struct EtcdLock {
    inner: Arc<Operations>,
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
        let inner = Operations {
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
    pub(crate) fn inner(&self) -> &Arc<Operations> {
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
        attempt.map_err(|failure| inner.failed(claim, &entry, first, failure))
    }

    async fn wait(&self, claim: &Claim) -> Result<Wake> {
        let Some(entry) = self.inner.claims.find(claim) else { return Ok(Wake::Retry) };
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
        let Some(entry) = inner.claims.find(claim) else { return Ok(Renewal::Lost) };
        inner.within("renewing", inner.confirm(&entry)).await.map_err(Failure::into_error)
    }

    async fn release(&self, claim: &Claim) -> Result<Release> {
        let inner = &*self.inner;
        let Some(entry) = inner.claims.find(claim) else {
            let key = inner.keys.lock(&claim.name).key(claim.owner);
            return inner.within("releasing", inner.delete(&key)).await.map_err(Failure::into_error);
        };
        entry.leaving();
        inner.watches.leave(&claim.name, &entry);
        if entry.session.is_ended() && entry.fixed().is_none() {
            inner.claims.remove(claim);
            return Ok(Release::NotHeld);
        }
        let release = inner.within("releasing", inner.leave(&entry)).await.map_err(Failure::into_error)?;
        inner.claims.remove(claim);
        Ok(release)
    }

    async fn inspect(&self, name: &LockName) -> Result<Option<Holder>> {
        let inner = &*self.inner;
        inner.within("inspecting", inner.look(name)).await.map_err(Failure::into_error)
    }
}

/// What this backend promises.
/// Nothing is kept of a name: its keys go with their leases, and tokens are revisions of the whole store.
#[async_trait]
impl GarbageCollect for EtcdLock {
    async fn collect(&self, _unused: &Unused) -> Result<Collected> {
        Ok(Collected::new())
    }
}

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
