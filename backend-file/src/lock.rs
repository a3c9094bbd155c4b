//! The backend: one client of a directory of lock files.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use lockyard_api::{
    Attempt, Capabilities, Claim, DistributedLock, Error, ErrorKind, Fencing, FencingToken, Grant, Holder, IfBusy,
    Liveness, LivenessKind, LockName, Moment, Owner, Release, Renewal, Result, TtlRange, Wake, Waking, async_trait,
};

use crate::config::FileConfig;
use crate::store::{Store, Tried};
use crate::waiters::{Claims, Ended, Standing};

/// How often a try looks again when the kernel's lock is taken and nobody holds the name, and how long it waits between.
const PASSING: u32 = 100;
const MOMENT: Duration = Duration::from_micros(500);

/// Locks in a directory of this host. Clones are the same client.
///
/// ```
/// # async fn example() -> lockyard_api::Result<()> {
/// use lockyard_file::{FileConfig, FileLock};
/// let directory = std::env::temp_dir().join(format!("lockyard-doc-{}", std::process::id()));
/// let locks = lockyard_api::Locker::new(FileLock::connect(FileConfig::new(&directory)).await?)?;
/// let guard = locks.try_acquire("report").await?.expect("nobody else uses this directory");
/// guard.release().await?;
/// # std::fs::remove_dir_all(directory).ok(); Ok(()) }
/// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Debug, Clone)]
pub struct FileLock {
    pub(crate) store: Arc<Store>,
    pub(crate) claims: Arc<Claims>,
}

impl FileLock {
    /// Opens the directory; makes it when it is missing.
    ///
    /// # Errors
    /// `Config` when it cannot be made or written to.
    ///
    /// # Cancel safety
    /// Nothing is left but the directory.
    #[expect(clippy::unused_async, reason = "every backend connects alike")]
    pub async fn connect(config: FileConfig) -> Result<Self> {
        Ok(Self { store: Arc::new(Store::open(&config)?), claims: Arc::new(Claims::default()) })
    }

    /// The file of a name: its lock is what `flock(1)` and others can share.
    #[must_use]
    pub fn path(&self, name: &LockName) -> std::path::PathBuf {
        self.store.path(name)
    }

    /// The kernel's lock of a hold as a descriptor of its own, for a child process: the lock stays until it too is closed,
    /// or the hold is released. It is closed on exec unless told otherwise. `None` when the claim does not hold.
    ///
    /// # Errors
    /// `Unreachable` when the process may open no more files.
    pub fn descriptor(&self, claim: &Claim) -> Result<Option<OwnedFd>> {
        self.claims.descriptor(claim).map_err(|e| crate::store::trouble(&self.path(&claim.name), e))
    }

    /// How many claims of this client wait for the name.
    #[must_use]
    pub fn waiting(&self, name: &LockName) -> usize {
        self.claims.waiting(name)
    }

    fn grant(token: FencingToken, sent: Moment) -> Grant {
        Grant::new(Some(token), sent, Liveness::Process)
    }

    fn check(&self, claim: &Claim) -> Result<()> {
        let capabilities = self.capabilities();
        capabilities.check_kind(claim.kind)?;
        capabilities.ttl.check(claim.ttl)?;
        if claim.renew == lockyard_api::Renew::Never {
            return Err(Error::unsupported("a file lock ends with its process, not with a lease: it cannot be fixed"));
        }
        Ok(())
    }
}

#[async_trait]
impl DistributedLock for FileLock {
    fn capabilities(&self) -> Capabilities {
        let ttl =
            TtlRange::new(Duration::from_millis(1), Duration::from_secs(365 * 24 * 3600), Duration::from_millis(1));
        let mut capabilities = Capabilities::new("file", ttl);
        capabilities.wake = Waking::Pushed;
        capabilities.liveness = LivenessKind::Process;
        capabilities.fencing = Fencing::Durable;
        capabilities.inspect = true;
        capabilities
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        self.check(claim)?;
        let sent = self.store.now();
        match self.claims.standing(claim) {
            Standing::Held(token) => return Ok(Attempt::Granted(Self::grant(token, sent))),
            Standing::Waiting(_) if self.claims.failure(&claim.name).is_none() => return Ok(Attempt::Queued),
            // Its thread has failed: it goes to the end of the queue, with a new thread.
            Standing::Waiting(_) => {
                self.claims.release(claim);
            }
            Standing::Absent => {}
        }
        // Does not block: a few calls into the kernel, one of them a flush of the disk for each 256 grants.
        for _ in 0..PASSING {
            match self.store.try_lock(&claim.name)? {
                Tried::Candidate(candidate) => {
                    let locked = self.store.take(candidate, claim)?;
                    let token = locked.token;
                    self.claims.hold(claim, locked);
                    return Ok(Attempt::Granted(Self::grant(token, sent)));
                }
                Tried::Busy => break,
                Tried::Passing => self.store.pause(MOMENT).await,
            }
        }
        match claim.if_busy {
            IfBusy::Queue => self.claims.enqueue(claim, &self.store).map(|()| Attempt::Queued),
            _ => Ok(Attempt::Busy),
        }
    }

    async fn wait(&self, claim: &Claim) -> Result<Wake> {
        loop {
            match self.claims.standing(claim) {
                Standing::Held(token) => return Ok(Wake::Granted(Self::grant(token, self.store.now()))),
                Standing::Absent => return Ok(Wake::Retry),
                Standing::Waiting(wake) => {
                    if let Some(failure) = self.claims.failure(&claim.name) {
                        return Err(Error::new(ErrorKind::Unreachable, failure.as_ref()));
                    }
                    wake.notified().await;
                }
            }
        }
    }

    async fn renew(&self, claim: &Claim) -> Result<Renewal> {
        let sent = self.store.now();
        match self.claims.standing(claim) {
            Standing::Held(_) => Ok(Renewal::Renewed { ttl: claim.ttl, valid_from: sent }),
            Standing::Waiting(_) | Standing::Absent => Ok(Renewal::Lost),
        }
    }

    async fn release(&self, claim: &Claim) -> Result<Release> {
        loop {
            match self.claims.release(claim) {
                Ended::Something => return Ok(Release::Released),
                Ended::Nothing => return Ok(Release::NotHeld),
                Ended::NotYet => self.store.pause(MOMENT).await,
            }
        }
    }

    async fn inspect(&self, name: &LockName) -> Result<Option<Holder>> {
        let Some((record, waiting)) = self.store.look(name)? else { return Ok(None) };
        let mut holder = Holder::new();
        holder.owner = Owner::parse(&record.owner);
        holder.token = FencingToken::from_server(record.number).ok();
        holder.label = record.label.map(Into::into);
        holder.origin = Some(format!("process {}", record.pid));
        holder.held_for = Some(self.store.since(record.since));
        holder.waiters = u64::try_from(waiting).ok();
        Ok(Some(holder))
    }
}
