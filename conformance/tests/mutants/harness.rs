//! The wrong clients as a backend under test.

use std::sync::Arc;
use std::time::Duration;

use lockyard_api::{Claim, DistributedLock, LockName, Namespace, Queueing, Result, async_trait};
use lockyard_conformance::{Client, Fault as Made, Harness, RegisterClient};
use lockyard_memory::testing::MemoryHarness;
use lockyard_memory::{MemoryLiveness, MemoryLock, MemoryRegister};

use crate::fault::Fault;
use crate::mutant::{Mutant, Shared};
use crate::recall::{Memories, Recall};
use crate::register::RegisterMutant;

#[derive(Debug)]
pub(crate) struct MutantHarness {
    inner: MemoryHarness,
    fault: Fault,
    shared: Arc<Shared>,
    memories: Arc<Memories>,
}

impl MutantHarness {
    pub(crate) fn new(fault: Fault, queue: Queueing, liveness: MemoryLiveness) -> Self {
        Self { inner: MemoryHarness::new(queue, liveness), fault, shared: Arc::default(), memories: Arc::default() }
    }

    fn client(&self, inner: MemoryLock, namespace: &str) -> Client {
        let link = Arc::clone(inner.link());
        let client = if self.fault.is_recall() {
            Client::new(Recall::new(inner.clone(), self.fault, Arc::clone(&self.memories)))
        } else {
            let side = self.inner.client();
            Client::new(Mutant::new(inner.clone(), side, self.fault, namespace, Arc::clone(&self.shared)))
        };
        client.with_own(inner).with_link(link)
    }

    fn register_client(&self, inner: MemoryRegister, namespace: &str) -> RegisterClient {
        let link = Arc::clone(inner.link());
        RegisterClient::new(RegisterMutant::new(inner, self.inner.client(), self.fault, namespace)).with_link(link)
    }
}

#[async_trait]
impl Harness for MutantHarness {
    async fn connect(&self) -> Result<Client> {
        Ok(self.client(self.inner.client(), ""))
    }

    async fn connect_in(&self, namespace: &str) -> Result<Option<Client>> {
        if self.fault == Fault::NamespaceIsGlued {
            return Ok(Some(self.client(self.inner.client(), namespace)));
        }
        Ok(Some(self.client(self.inner.client_in(Namespace::new(namespace)?), "")))
    }

    async fn register(&self) -> Result<Option<RegisterClient>> {
        Ok(Some(self.register_client(self.inner.register_client(Namespace::default()), "")))
    }

    async fn register_in(&self, namespace: &str) -> Result<Option<RegisterClient>> {
        if self.fault == Fault::RegisterNamespaceIsGlued {
            let inner = self.inner.register_client(Namespace::default());
            return Ok(Some(self.register_client(inner, namespace)));
        }
        let inner = self.inner.register_client(Namespace::new(namespace)?);
        Ok(Some(self.register_client(inner, "")))
    }

    fn ttl(&self) -> Duration {
        // Many suites run at once, on a machine that may be busy: only the fault may be late.
        if self.fault == Fault::ClockOfTheClient { Duration::from_secs(3) } else { Duration::from_secs(2) }
    }

    fn op_timeout(&self) -> Duration {
        self.inner.op_timeout()
    }

    async fn revoke(&self, claim: &Claim) -> Made {
        // The record of the name is meant, whoever the wrong client says that it is.
        let holder = self.inner.client().inspect(&claim.name).await;
        let owner = holder.ok().flatten().and_then(|holder| holder.owner).unwrap_or(claim.owner);
        self.inner.revoke(&claim.clone().with_owner(owner)).await
    }

    async fn end_session(&self, client: &Client) -> Made {
        self.inner.end_session(client).await
    }

    async fn entries(&self, name: &LockName) -> Option<usize> {
        self.inner.entries(name).await
    }

    async fn last_token(&self, name: &LockName) -> Option<u64> {
        self.inner.last_token(name).await
    }

    async fn freeze_server(&self) -> Made {
        self.inner.freeze_server().await
    }

    async fn thaw_server(&self) -> Made {
        self.inner.thaw_server().await
    }

    async fn kill_server(&self) -> Made {
        self.inner.kill_server().await
    }

    async fn restart_server(&self) -> Made {
        self.inner.restart_server().await
    }
}
