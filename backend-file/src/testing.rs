//! A directory of lock files as a backend under test.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use lockyard_api::{DistributedLock, LockName, Namespace, Result, async_trait};
use lockyard_conformance::{Client, Harness, RegisterClient};

use crate::store::Store;
use crate::waiters::Claims;
use crate::{FileConfig, FileLock, FileRegister};

/// A directory of its own, removed when the harness goes.
#[derive(Debug)]
pub struct FileHarness {
    directory: tempfile::TempDir,
    /// Weak: the end of a client ends its holds.
    clients: Mutex<Vec<(Weak<Store>, Weak<Claims>)>>,
}

impl FileHarness {
    /// A harness in a new temporary directory.
    ///
    /// # Errors
    /// When the directory cannot be made.
    pub fn new() -> std::io::Result<Self> {
        let directory = tempfile::Builder::new().prefix("lockyard-file-").tempdir()?;
        Ok(Self { directory, clients: Mutex::default() })
    }

    /// The URL of its directory.
    #[must_use]
    pub fn url(&self) -> String {
        format!("file:{}", self.directory.path().display())
    }

    fn live(&self) -> Vec<FileLock> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        clients.retain(|(_, claims)| claims.strong_count() > 0);
        clients
            .iter()
            .filter_map(|(store, claims)| Some(FileLock { store: store.upgrade()?, claims: claims.upgrade()? }))
            .collect()
    }

    async fn client(&self, namespace: Namespace) -> Result<FileLock> {
        FileLock::connect(self.config(namespace)).await
    }

    fn config(&self, namespace: Namespace) -> FileConfig {
        FileConfig::new(self.directory.path()).namespace(namespace)
    }
}

#[async_trait]
impl Harness for FileHarness {
    async fn connect(&self) -> Result<Client> {
        let lock = self.client(Namespace::default()).await?;
        let weak = (Arc::downgrade(&lock.store), Arc::downgrade(&lock.claims));
        self.clients.lock().unwrap_or_else(PoisonError::into_inner).push(weak);
        Ok(Client::new(lock))
    }

    async fn connect_in(&self, namespace: &str) -> Result<Option<Client>> {
        Ok(Some(Client::new(self.client(Namespace::new(namespace)?).await?)))
    }

    async fn register(&self) -> Result<Option<RegisterClient>> {
        Ok(Some(RegisterClient::new(FileRegister::connect(self.config(Namespace::default())).await?)))
    }

    async fn register_in(&self, namespace: &str) -> Result<Option<RegisterClient>> {
        Ok(Some(RegisterClient::new(FileRegister::connect(self.config(Namespace::new(namespace)?)).await?)))
    }

    async fn entries(&self, name: &LockName) -> Option<usize> {
        let clients = self.live();
        let holder = clients.first()?.inspect(name).await.ok()?;
        Some(usize::from(holder.is_some()) + clients.iter().map(|client| client.waiting(name)).sum::<usize>())
    }

    async fn last_token(&self, name: &LockName) -> Option<u64> {
        let holder = self.live().first()?.inspect(name).await.ok()??;
        holder.token.map(lockyard_api::FencingToken::server_number)
    }
}
