//! The lock that people open, as [`DistributedLock`] wants it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lockyard_api::{
    Attempt, Capabilities, Claim, DistributedLock, Fencing, FencingToken, Grant, Holder, LockName, Queueing, Release,
    Renewal, Result, TtlRange, Wake, Waking,
};

use crate::RedisConfig;
use crate::client::{self, Client};
use crate::waiters::Turn;

/// The ttls that a claim may have.
const TTL: TtlRange =
    TtlRange::new(Duration::from_millis(10), Duration::from_secs(24 * 3600), Duration::from_millis(1));

/// A client of one Redis server, and its locks.
///
/// Cheap to clone; the connection ends with the last clone. Locks are leases: they outlive the client until their ttl.
#[derive(Debug, Clone)]
pub struct RedisLock {
    client: Arc<Client>,
    capabilities: Arc<Capabilities>,
}

impl RedisLock {
    /// Connects, and checks that the server can hold locks: credentials, version, role.
    ///
    /// # Errors
    /// `Auth`, `WrongServer`, `Unreachable` or `Config`, each naming the server and the remedy. Ends within the connect
    /// timeout.
    ///
    /// # Cancel safety
    /// Dropped, it leaves nothing at the server.
    pub async fn connect(config: RedisConfig) -> Result<Self> {
        let (client, durable) = Client::open(config).await?;
        Ok(Self { client, capabilities: Arc::new(capabilities(durable)) })
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    fn check(&self, claim: &Claim) -> Result<()> {
        self.capabilities.check_kind(claim.kind)?;
        self.capabilities.ttl.check(claim.ttl)
    }
}

/// What one primary promises; `durable`: it writes every answer to its append-only file first.
fn capabilities(durable: bool) -> Capabilities {
    let mut capabilities = Capabilities::new("redis", TTL);
    capabilities.queue = Queueing::Fifo;
    capabilities.wake = Waking::Pushed;
    capabilities.fencing = Fencing::Volatile;
    capabilities.expires_hung = true;
    capabilities.restart_safe = durable;
    capabilities.recheck = client::RECHECK.mul_f64(1.0 + client::JITTER);
    capabilities.fixed_lease = true;
    capabilities.inspect = true;
    capabilities
}

#[async_trait]
impl DistributedLock for RedisLock {
    fn capabilities(&self) -> Capabilities {
        (*self.capabilities).clone()
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        self.check(claim)?;
        self.client.try_acquire(claim).await
    }

    async fn wait(&self, claim: &Claim) -> Result<Wake> {
        match self.client.waiters.turn(claim.owner).await {
            Turn::Again => Ok(Wake::Retry),
            Turn::Granted { number, valid_from } => {
                let token = FencingToken::from_server(number)?;
                Ok(Wake::Granted(Grant::new(Some(token), valid_from, client::lease(claim))))
            }
        }
    }

    async fn renew(&self, claim: &Claim) -> Result<Renewal> {
        self.check(claim)?;
        self.client.renew(claim).await
    }

    async fn release(&self, claim: &Claim) -> Result<Release> {
        self.client.release(claim).await
    }

    async fn inspect(&self, name: &LockName) -> Result<Option<Holder>> {
        self.client.inspect(name).await
    }
}
