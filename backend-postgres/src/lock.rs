//! The client.

use std::fmt;
use std::sync::Arc;

use lockyard_api::{
    Attempt, Capabilities, Claim, DistributedLock, Holder, LockName, Operation, Release, Renewal, Result, Wake,
    async_trait,
};
use tokio::runtime::Handle;

use crate::advisory::Advisory;
use crate::config::{Mode, PostgresConfig};
use crate::control::Control;
use crate::garbage::Collector;
use crate::lease::Lease;
use crate::row::Rows;
use crate::schema::Schema;

/// Locks in a Postgres database, in one of three modes.
///
/// Dropping the last clone closes its connections, and with them ends its session-bound holds at the server.
#[derive(Clone)]
pub struct PostgresLock {
    client: Client,
    capabilities: Capabilities,
    collector: Arc<Collector>,
    runtime: Handle,
    shown: Arc<str>,
}

#[derive(Clone)]
enum Client {
    Advisory(Arc<Advisory>),
    Lease(Arc<Lease>),
    Row(Arc<Rows>),
}

/// Calls the same method of whichever client it is.
macro_rules! forward {
    ($of:expr, $client:ident => $call:expr) => {
        match $of {
            Client::Advisory($client) => $call,
            Client::Lease($client) => $call,
            Client::Row($client) => $call,
        }
    };
}

impl PostgresLock {
    /// Connects, checks that the server can hold locks, creates the schema unless it is there, and opens what the mode needs.
    ///
    /// # Errors
    /// `Unreachable`, `Auth`, `Config` (no such database), `WrongServer` (a standby, too old, a pooler in front of a
    /// session-bound mode), `Capacity`; each says what to do. `InvalidTtl` when the configured ttl does not fit the mode.
    ///
    /// # Cancel safety
    /// Dropping the future closes what was opened. The schema may have been created.
    pub async fn connect(config: PostgresConfig) -> Result<Self> {
        Self::open(config.renamed()).await.map_err(|error| error.with_operation(Operation::Connect))
    }

    /// As [`PostgresLock::connect`], under the configuration's own application name.
    pub(crate) async fn open(config: PostgresConfig) -> Result<Self> {
        let control = Control::new(&config);
        let facts = control.check_server().await?;
        Schema::from(&config).create(&control, facts, config.mode).await?;
        let shown: Arc<str> = config.shown.as_str().into();
        let collector = Arc::new(Collector::new(&config, Arc::clone(&control)));
        let client = match config.mode {
            Mode::Advisory => Client::Advisory(Advisory::connect(config, control, facts).await?),
            Mode::Lease => Client::Lease(Lease::connect(config, control).await?),
            Mode::Row => Client::Row(Rows::connect(config, control, facts).await?),
        };
        let capabilities = forward!(&client, client => client.capabilities());
        Ok(Self { client, capabilities, collector, runtime: Handle::current(), shown })
    }

    pub(crate) const fn collector(&self) -> &Arc<Collector> {
        &self.collector
    }

    pub(crate) const fn runtime(&self) -> &Handle {
        &self.runtime
    }
}

#[async_trait]
impl DistributedLock for PostgresLock {
    fn capabilities(&self) -> Capabilities {
        self.capabilities.clone()
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        self.capabilities.check_kind(claim.kind)?;
        self.capabilities.ttl.check(claim.ttl)?;
        forward!(&self.client, client => client.try_acquire(claim).await)
    }

    async fn wait(&self, claim: &Claim) -> Result<Wake> {
        forward!(&self.client, client => client.wait(claim).await)
    }

    async fn renew(&self, claim: &Claim) -> Result<Renewal> {
        forward!(&self.client, client => client.renew(claim).await)
    }

    async fn release(&self, claim: &Claim) -> Result<Release> {
        forward!(&self.client, client => client.release(claim).await)
    }

    async fn inspect(&self, name: &LockName) -> Result<Option<Holder>> {
        forward!(&self.client, client => client.inspect(name).await)
    }
}

impl fmt::Debug for PostgresLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PostgresLock").field(&self.shown).finish()
    }
}
