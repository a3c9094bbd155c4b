//! The server: a table behind a lock, shared by its clients.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lockyard_api::{Claim, LockName, Namespace, Release};

use crate::lock::MemoryLock;
use crate::options::MemoryOptions;
use crate::register::{MemoryRegister, Registers};
use crate::table::{Key, SessionId, Table};

/// A lock service in the memory of this process. Cheap to clone: clones are the same server.
#[derive(Debug, Clone)]
pub struct MemoryServer {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    options: MemoryOptions,
    table: Mutex<Table>,
    registers: Mutex<Registers>,
}

impl MemoryServer {
    /// A new server that knows no locks.
    #[must_use]
    pub fn new(options: MemoryOptions) -> Self {
        let table = Table::new(options.queue, options.liveness, options.session_ttl);
        Self { shared: Arc::new(Shared { options, table: Mutex::new(table), registers: Mutex::default() }) }
    }

    /// A new client, with a session of its own. Clients of one namespace compete.
    #[must_use]
    pub fn connect(&self, namespace: Namespace) -> MemoryLock {
        MemoryLock::new(self.clone(), namespace)
    }

    /// A new client of this server's fenced registers.
    #[must_use]
    pub fn register(&self, namespace: Namespace) -> MemoryRegister {
        MemoryRegister::new(self.clone(), namespace)
    }

    /// How this server works.
    #[must_use]
    pub fn options(&self) -> &MemoryOptions {
        &self.shared.options
    }

    /// How many claims are known on a name: its holder and its waiters.
    #[must_use]
    pub fn entries(&self, namespace: &Namespace, name: &LockName) -> usize {
        self.table().entries(&key(namespace, name), self.options().clock.now())
    }

    /// The number of the last token drawn, for any name.
    #[must_use]
    pub fn last_token(&self) -> u64 {
        self.table().last_token()
    }

    /// Removes the claim's record as an operator would, without telling its client.
    pub fn revoke(&self, namespace: &Namespace, claim: &Claim) -> Release {
        self.table().release(&key(namespace, &claim.name), claim.owner, self.options().clock.now())
    }

    /// Ends the server and starts it again without its data: holds, waiters, sessions, the token counter and the registers
    /// are gone.
    pub fn restart(&self) {
        self.table().restart();
        self.registers().restart();
    }

    pub(crate) fn end_session(&self, id: SessionId) {
        self.table().end_session(id, self.options().clock.now());
    }

    pub(crate) fn table(&self) -> MutexGuard<'_, Table> {
        self.shared.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn registers(&self) -> MutexGuard<'_, Registers> {
        self.shared.registers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn downgrade(&self) -> WeakServer {
        WeakServer(Arc::downgrade(&self.shared))
    }
}

/// A server that may be gone.
#[derive(Debug, Clone)]
pub(crate) struct WeakServer(std::sync::Weak<Shared>);

impl WeakServer {
    pub(crate) fn upgrade(&self) -> Option<MemoryServer> {
        self.0.upgrade().map(|shared| MemoryServer { shared })
    }
}

fn key(namespace: &Namespace, name: &LockName) -> Key {
    Key { namespace: namespace.clone(), name: name.clone() }
}
