//! The fenced registers of a memory server.

use std::collections::HashMap;
use std::sync::Arc;

use lockyard_api::{
    Fenced, FencedRegister, FencingToken, LockName, Namespace, Operation, Result, Version, Write, async_trait,
};

use crate::link::MemoryLink;
use crate::server::MemoryServer;
use crate::table::Key;

/// One client of the registers of a [`MemoryServer`]. Clones are the same client.
///
/// ```
/// use lockyard_api::{FencedRegister, FencingToken, LockName, Namespace, Version, Write};
/// use lockyard_memory::{MemoryOptions, MemoryServer};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> lockyard_api::Result<()> {
/// let register = MemoryServer::new(MemoryOptions::default()).register(Namespace::default());
/// let (name, token) = (LockName::new("report:daily")?, FencingToken::new(768)?);
/// let written = register.write(&name, b"page 1", token, Version::ABSENT).await?;
/// assert!(matches!(written, Write::Written { .. }));
/// assert_eq!(register.read(&name).await?.value.as_deref(), Some(&b"page 1"[..]));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct MemoryRegister {
    server: MemoryServer,
    namespace: Namespace,
    link: Arc<MemoryLink>,
}

impl MemoryRegister {
    pub(crate) fn new(server: MemoryServer, namespace: Namespace) -> Self {
        Self { server, namespace, link: Arc::new(MemoryLink::new()) }
    }

    /// The way between this client and the server, to disturb it.
    #[must_use]
    pub fn link(&self) -> &Arc<MemoryLink> {
        &self.link
    }

    async fn call<T: Send + 'static>(&self, request: impl FnOnce(&mut Registers) -> T + Send + 'static) -> Result<T> {
        let server = self.server.clone();
        let options = self.server.options();
        let arrive = move || request(&mut server.registers());
        self.link.call(&options.clock, options.op_timeout, arrive).await
    }

    fn key(&self, name: &LockName) -> Key {
        Key { namespace: self.namespace.clone(), name: name.clone() }
    }
}

#[async_trait]
impl FencedRegister for MemoryRegister {
    async fn read(&self, name: &LockName) -> Result<Fenced> {
        let key = self.key(name);
        let answer = self.call(move |registers| registers.read(&key)).await;
        answer.map_err(|error| error.with_operation(Operation::Read).with_name(name))
    }

    async fn write(&self, name: &LockName, value: &[u8], token: FencingToken, expected: Version) -> Result<Write> {
        let written = async {
            Fenced::check(value)?;
            let (key, value) = (self.key(name), value.to_vec());
            self.call(move |registers| registers.write(key, value, token, expected)).await
        };
        written.await.map_err(|error| error.with_operation(Operation::Write).with_name(name))
    }
}

/// What the server keeps.
#[derive(Debug, Default)]
pub(crate) struct Registers {
    values: HashMap<Key, Fenced>,
    last_version: u64,
}

impl Registers {
    /// Loses all but the number of the last version: none comes twice.
    pub(crate) fn restart(&mut self) {
        self.values.clear();
    }

    fn read(&self, key: &Key) -> Fenced {
        self.values.get(key).cloned().unwrap_or_default()
    }

    fn write(&mut self, key: Key, value: Vec<u8>, token: FencingToken, expected: Version) -> Write {
        let absent = Fenced::absent();
        if let Some(refusal) = self.values.get(&key).unwrap_or(&absent).refusal(token, expected) {
            return refusal;
        }
        self.last_version += 1;
        let version = Version::new(self.last_version);
        self.values.insert(key, Fenced::new(value, token, version));
        Write::Written { version }
    }
}
