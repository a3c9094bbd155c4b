//! The backend: one claim is one ephemeral sequential node.

use std::collections::HashSet;
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockyard_api::{
    Attempt, Capabilities, Claim, DistributedLock, Error, ErrorKind, Fencing, Holder, LivenessKind, LockName, Outcome,
    Owner, Queueing, Release, Renew, Renewal, Result, TtlRange, Wake, Waking, async_trait,
};
use zookeeper_client::Error as Driver;

use crate::acquire::Contender;
use crate::check;
use crate::claims::State;
use crate::config::ZkConfig;
use crate::error;
use crate::inspect;
use crate::node::{Base, Place};
use crate::session::{Heartbeat, Live};

/// The longest lease that a claim may ask for; what it is granted is the session's timeout.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// How many claims of ended sessions are remembered that nobody releases, before the older ones are forgotten.
const PAST: usize = 10_000;

/// A client of ZooKeeper: one session, whose timeout T every claim is granted.
///
/// A hold is the first node in the lock's directory. It ends with its session: T after the server last heard of it, or at
/// once when this value is dropped. When a session has ended, the next acquisition opens another.
pub struct ZkLock {
    config: ZkConfig,
    base: Base,
    capabilities: Capabilities,
    /// `host/pid`, kept in every node.
    origin: String,
    current: Mutex<Current>,
    /// Held while a session is opened, so that one is opened.
    opening: tokio::sync::Mutex<()>,
}

/// The session in use.
struct Current {
    live: Arc<Live>,
    _heartbeat: Heartbeat,
    /// Claims of sessions that have ended, until they are released.
    past: HashSet<Owner>,
}

impl ZkLock {
    /// Opens a session and checks that it can hold locks: the server's version and mode, credentials and ACL. Makes
    /// chroot and namespace where they are missing.
    ///
    /// # Errors
    /// `Config`; `Unreachable`, `WrongServer` or `Auth`, each naming the server and the remedy, within the connect timeout.
    ///
    /// # Cancel safety
    /// A session that was being opened ends at the server by itself.
    pub async fn connect(config: ZkConfig) -> Result<Self> {
        let config = config.checked()?;
        let limit = config.options.connect_timeout;
        let what = format!("connecting to {}", config.addresses().join(","));
        let opened = async {
            check::server(&config, limit).await?;
            let (live, heartbeat) = Live::open(&config, limit).await?;
            check::permission(&config, &live).await?;
            Ok((live, heartbeat))
        };
        let (live, heartbeat) = match tokio::time::timeout(limit, opened).await {
            Ok(opened) => opened?,
            Err(_) => return Err(error::late(&what, limit).not_applied()),
        };
        Ok(Self {
            base: config.base(),
            capabilities: capabilities(live.timeout),
            origin: origin(),
            current: Mutex::new(Current { live, _heartbeat: heartbeat, past: HashSet::new() }),
            opening: tokio::sync::Mutex::new(()),
            config,
        })
    }

    /// The session timeout T that the server granted: what every claim is granted.
    #[must_use]
    pub fn session_timeout(&self) -> Duration {
        self.current().live.timeout
    }

    /// The id of the session in use, as the server's own tools print it.
    #[must_use]
    pub fn session_id(&self) -> i64 {
        self.current().live.client.session_id().0
    }

    /// The session in use, for those who end it on purpose.
    #[cfg(feature = "testing")]
    pub(crate) fn session_info(&self) -> zookeeper_client::SessionInfo {
        self.current().live.client.session().clone()
    }

    /// The session in use, opened when there is none.
    pub(crate) async fn live(&self) -> Result<Arc<Live>> {
        self.live_for(None).await
    }

    pub(crate) const fn base(&self) -> &Base {
        &self.base
    }

    pub(crate) const fn acls(&self) -> zookeeper_client::Acls<'static> {
        self.config.acl.acls()
    }

    fn current(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The live session, which may take a claim that is new or its own; opened when there is none.
    async fn live_for(&self, owner: Option<Owner>) -> Result<Arc<Live>> {
        if let Some(live) = self.usable_for(owner)? {
            return Ok(live);
        }
        let _one = self.opening.lock().await;
        if let Some(live) = self.usable_for(owner)? {
            return Ok(live);
        }
        let (live, heartbeat) = Live::open(&self.config, self.config.options.op_timeout).await?;
        let mut current = self.current();
        let ended = current.live.claims.drain();
        if current.past.len() > PAST {
            current.past.clear();
        }
        current.past.extend(ended);
        current.live = Arc::clone(&live);
        current._heartbeat = heartbeat;
        Ok(live)
    }

    fn usable_for(&self, owner: Option<Owner>) -> Result<Option<Arc<Live>>> {
        let current = self.current();
        let ended = current.live.session.is_ended();
        let is_late = |owner| current.past.contains(&owner) || (ended && current.live.claims.contains(owner));
        if owner.is_some_and(is_late) {
            return Err(error::session_changed().not_applied());
        }
        Ok((!ended).then(|| Arc::clone(&current.live)))
    }

    fn check(&self, claim: &Claim) -> Result<()> {
        self.capabilities.check_kind(claim.kind)?;
        if claim.renew == Renew::Never {
            return Err(Error::unsupported(
                "ZooKeeper has no fixed lease: the session keeps every hold, and its pings keep the session",
            ));
        }
        let granted = self.session_timeout();
        if claim.ttl < granted {
            let message = format!(
                "ttl {:?} is shorter than the session timeout T = {granted:?} that the server granted, and T is what every claim gets: ask for {granted:?} or more, or connect with a shorter ttl",
                claim.ttl
            );
            return Err(Error::new(ErrorKind::InvalidTtl, message).not_applied());
        }
        self.capabilities.ttl.check(claim.ttl)
    }

    fn place(&self, claim: &Claim) -> Place {
        Place::new(&self.base, &claim.name, claim.owner)
    }

    fn contender<'a>(&'a self, live: &'a Live, claim: &'a Claim, place: &'a Place, data: &'a [u8]) -> Contender<'a> {
        Contender { live, claim, place, base: self.base.path(), acls: self.config.acl.acls(), data }
    }

    async fn attempt(&self, claim: &Claim) -> Result<Attempt> {
        let place = self.place(claim);
        let data = inspect::data(&self.origin, claim.label.as_deref());
        let mut again = true;
        loop {
            let live = self.live_for(Some(claim.owner)).await?;
            let known = live.claims.arm(claim.owner);
            let fresh = known.is_none();
            let error = match self.contender(&live, claim, &place, &data).attempt(known).await {
                Ok(attempt) => return Ok(attempt),
                Err(error) => error,
            };
            // The session ended while this claim was its newest: with it went whatever it had made.
            let reopen = fresh && again && error.kind() == ErrorKind::SessionChanged;
            if reopen || error.outcome() == Outcome::NotApplied {
                live.claims.forget(claim.owner);
            }
            if !reopen {
                return Err(error);
            }
            again = false;
        }
    }

    async fn undo(&self, claim: &Claim) -> Result<Release> {
        let live = {
            let mut current = self.current();
            if current.past.remove(&claim.owner) {
                return Err(error::session_changed());
            }
            Arc::clone(&current.live)
        };
        if live.session.is_ended() && live.claims.contains(claim.owner) {
            live.claims.forget(claim.owner);
            return Err(error::session_changed());
        }
        let place = self.place(claim);
        let paths = match live.claims.leave(claim.owner) {
            None => return Ok(Release::NotHeld),
            Some(State::Queued { node, .. } | State::Held { node, .. } | State::Leaving { node: Some(node) }) => {
                vec![node.path]
            }
            Some(State::Creating | State::Leaving { node: None }) => remains(&live, &place).await?,
        };
        let mut release = Release::NotHeld;
        for path in paths {
            match live.client.delete(&path, None).await {
                Ok(()) => release = Release::Released,
                Err(Driver::NoNode) => {}
                Err(error) => return Err(undone(&live, error, &path)),
            }
        }
        live.claims.forget(claim.owner);
        Ok(release)
    }

    async fn confirm(&self, claim: &Claim) -> Result<Renewal> {
        let live = Arc::clone(&self.current().live);
        if live.session.is_ended() || !live.claims.contains(claim.owner) {
            return Ok(Renewal::Lost);
        }
        if let Err(error) = live.beat(true).await {
            live.note(&error);
            if live.session.is_ended() {
                return Ok(Renewal::Lost);
            }
            return Err(error::of_driver(error, "listing the nodes of the session"));
        }
        match live.claims.get(claim.owner) {
            Some(State::Held { hold, .. }) if hold.watch.lost().is_none() => {
                Ok(Renewal::Renewed { ttl: live.timeout, valid_from: live.session.lease().0 })
            }
            _ => Ok(Renewal::Lost),
        }
    }

    /// Ends within the operation timeout; what was sent by then may still be done.
    pub(crate) async fn timely<T>(&self, what: &str, operation: impl Future<Output = Result<T>> + Send) -> Result<T> {
        let limit = self.config.options.op_timeout;
        tokio::time::timeout(limit, operation).await.unwrap_or_else(|_| Err(error::late(what, limit)))
    }
}

/// The nodes of a claim whose create was not answered.
async fn remains(live: &Live, place: &Place) -> Result<Vec<String>> {
    let sync = live.client.sync(place.directory());
    let list = live.client.list_children(place.directory());
    match (sync.await, list.await) {
        (Ok(()), Ok(children)) => Ok(place.all(&children).map(|child| place.child(child)).collect()),
        (Ok(()), Err(Driver::NoNode)) => Ok(Vec::new()),
        (Err(error), _) | (_, Err(error)) => Err(undone(live, error, place.directory())),
    }
}

/// A release that failed: the heartbeat deletes the node as soon as it can.
fn undone(live: &Live, error: Driver, path: &str) -> Error {
    live.note(&error);
    live.sweep_soon();
    error::of_driver(error, &format!("deleting {path}"))
}

#[async_trait]
impl DistributedLock for ZkLock {
    fn capabilities(&self) -> Capabilities {
        self.capabilities.clone()
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        self.check(claim)?;
        self.timely("creating a node", self.attempt(claim)).await
    }

    async fn wait(&self, claim: &Claim) -> Result<Wake> {
        let Some(live) = self.usable_for(Some(claim.owner))? else { return Err(error::session_changed()) };
        let Some(State::Queued { ahead, .. }) = live.claims.get(claim.owner) else { return Ok(Wake::Retry) };
        let place = self.place(claim);
        let contender = self.contender(&live, claim, &place, &[]);
        tokio::select! {
            wake = contender.wait(ahead) => wake,
            () = live.session.ended() => Err(error::session_changed()),
            // A wake-up that was lost is made up for.
            () = self.config.options.clock.sleep(self.capabilities.recheck.max(live.timeout)) => Ok(Wake::Retry),
        }
    }

    async fn renew(&self, claim: &Claim) -> Result<Renewal> {
        self.timely("a heartbeat", self.confirm(claim)).await
    }

    async fn release(&self, claim: &Claim) -> Result<Release> {
        match self.timely("deleting a node", self.undo(claim)).await {
            // What rested on the session went with it: nothing is left to release.
            Err(error) if error.kind() == ErrorKind::SessionChanged => Ok(Release::NotHeld),
            release => release,
        }
    }

    async fn inspect(&self, name: &LockName) -> Result<Option<Holder>> {
        let look = async {
            let live = self.live_for(None).await?;
            inspect::holder(&live, &self.base.directory(name)).await
        };
        self.timely("looking at a lock", look).await
    }
}

impl fmt::Debug for ZkLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ZkLock")
            .field("config", &self.config)
            .field("session", &self.current().live)
            .finish_non_exhaustive()
    }
}

fn capabilities(timeout: Duration) -> Capabilities {
    let mut promises = Capabilities::new("zookeeper", TtlRange::new(timeout, LONGEST, Duration::from_millis(1)));
    promises.queue = Queueing::Fifo;
    promises.wake = Waking::Pushed;
    promises.liveness = LivenessKind::Session;
    promises.fencing = Fencing::Durable;
    promises.expires_hung = true;
    promises.failover_safe = true;
    promises.restart_safe = true;
    // Sessions end at the next tick of the server, and a tick is half of the shortest timeout or less.
    promises.slack = timeout / 2 + Duration::from_millis(500);
    promises.inspect = true;
    promises
}

/// `host/pid`.
fn origin() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{}/{}", host.trim(), std::process::id())
}
