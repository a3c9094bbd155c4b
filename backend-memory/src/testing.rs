//! The memory server as a backend under test.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use lockyard_api::{Claim, DistributedLock, LivenessKind, LockName, Namespace, Queueing, Result, async_trait};
use lockyard_conformance::{Client, Fault, Harness, Link, RegisterClient};

use crate::{MemoryLink, MemoryLiveness, MemoryLock, MemoryOptions, MemoryRegister, MemoryServer};

/// A memory server and the faults that it can make.
#[derive(Debug)]
pub struct MemoryHarness {
    server: MemoryServer,
    ttl: Duration,
    /// The ways to the server, all of which its own silence concerns.
    links: Mutex<Vec<Weak<MemoryLink>>>,
}

impl MemoryHarness {
    /// How long a call waits on a silenced link.
    const OP_TIMEOUT: Duration = Duration::from_millis(500);

    /// A new server that works like this, on the machine's clock.
    #[must_use]
    pub fn new(queue: Queueing, liveness: MemoryLiveness) -> Self {
        // A session has to outlive a busy machine between two heartbeats.
        let ttl = match liveness {
            MemoryLiveness::Lease => Duration::from_secs(1),
            MemoryLiveness::Session => Duration::from_secs(2),
        };
        let options = MemoryOptions::default().queue(queue).liveness(liveness).session_ttl(ttl);
        Self { server: MemoryServer::new(options.op_timeout(Self::OP_TIMEOUT)), ttl, links: Mutex::default() }
    }

    /// A new client in the harness's namespace.
    #[must_use]
    pub fn client(&self) -> MemoryLock {
        self.client_in(Namespace::default())
    }

    /// A new client in another namespace.
    #[must_use]
    pub fn client_in(&self, namespace: Namespace) -> MemoryLock {
        let lock = self.server.connect(namespace);
        self.know(lock.link());
        lock
    }

    /// A new client of the registers in this namespace.
    #[must_use]
    pub fn register_client(&self, namespace: Namespace) -> MemoryRegister {
        let register = self.server.register(namespace);
        self.know(register.link());
        register
    }

    fn know(&self, link: &Arc<MemoryLink>) {
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        links.retain(|link| link.strong_count() > 0);
        links.push(Arc::downgrade(link));
    }

    fn each_link(&self, disturb: impl Fn(&MemoryLink)) {
        let links = self.links.lock().unwrap_or_else(PoisonError::into_inner).clone();
        links.iter().filter_map(Weak::upgrade).for_each(|link| disturb(&link));
    }
}

#[async_trait]
impl Harness for MemoryHarness {
    async fn connect(&self) -> Result<Client> {
        Ok(client(self.client()))
    }

    async fn connect_in(&self, namespace: &str) -> Result<Option<Client>> {
        Ok(Some(client(self.client_in(Namespace::new(namespace)?))))
    }

    async fn register(&self) -> Result<Option<RegisterClient>> {
        Ok(Some(register(self.register_client(Namespace::default()))))
    }

    async fn register_in(&self, namespace: &str) -> Result<Option<RegisterClient>> {
        Ok(Some(register(self.register_client(Namespace::new(namespace)?))))
    }

    fn ttl(&self) -> Duration {
        self.ttl
    }

    fn op_timeout(&self) -> Duration {
        Self::OP_TIMEOUT
    }

    async fn revoke(&self, claim: &Claim) -> Fault {
        // Whether it was there is for the check to say.
        let _ = self.server.revoke(&Namespace::default(), claim);
        Fault::Done
    }

    async fn end_session(&self, client: &Client) -> Fault {
        let Some(client) = client.own::<MemoryLock>() else {
            return Fault::not_offered("not a client of this harness");
        };
        if client.capabilities().liveness == LivenessKind::Lease {
            return Fault::not_offered("holds have leases of their own");
        }
        client.end_session();
        Fault::Done
    }

    async fn entries(&self, name: &LockName) -> Option<usize> {
        Some(self.server.entries(&Namespace::default(), name))
    }

    async fn last_token(&self, _name: &LockName) -> Option<u64> {
        Some(self.server.last_token())
    }

    async fn freeze_server(&self) -> Fault {
        self.each_link(MemoryLink::silence);
        Fault::Done
    }

    async fn thaw_server(&self) -> Fault {
        self.each_link(MemoryLink::heal);
        Fault::Done
    }

    async fn kill_server(&self) -> Fault {
        self.each_link(MemoryLink::silence);
        self.each_link(MemoryLink::cut);
        self.server.restart();
        Fault::Done
    }

    async fn restart_server(&self) -> Fault {
        self.each_link(MemoryLink::heal);
        Fault::Done
    }
}

fn client(lock: MemoryLock) -> Client {
    let link = Arc::clone(lock.link());
    Client::new(lock.clone()).with_own(lock).with_link(link)
}

fn register(register: MemoryRegister) -> RegisterClient {
    let link = Arc::clone(register.link());
    RegisterClient::new(register).with_link(link)
}

#[async_trait]
impl Link for MemoryLink {
    async fn silence(&self) {
        Self::silence(self);
    }

    async fn heal(&self) {
        Self::heal(self);
    }

    async fn cut(&self) {
        Self::cut(self);
    }

    async fn swallow_reply(&self) {
        Self::swallow_reply(self);
    }

    async fn swallow_reply_and_refuse(&self) -> Fault {
        Self::swallow_reply_and_refuse(self);
        Fault::Done
    }

    async fn keep_pushes(&self) -> Fault {
        Self::keep_pushes(self);
        Fault::Done
    }
}
