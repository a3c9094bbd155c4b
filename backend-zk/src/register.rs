//! The fenced register: one node a name, written by its version.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockyard_api::{
    Error, ErrorKind, Fenced, FencedRegister, FencingToken, LockName, Operation, Result, Version, Write, async_trait,
};
use tokio::time::timeout;
use zookeeper_client::{Client, CreateMode, Error as Driver, Stat};

use crate::check;
use crate::config::ZkConfig;
use crate::error;
use crate::node::Base;

/// How many names a client knows the last token of, before it forgets all and has to read again.
const KNOWN: usize = 1000;

/// A client of the fenced registers in ZooKeeper: one session, opened again when it has ended. Cheap to clone; the session
/// ends with the last clone.
///
/// The register of a name is a persistent node below `%register` in the directory of the locks; its data is the token in
/// 20 digits, a space and the value. The server compares versions and nothing else
/// (<https://zookeeper.apache.org/doc/current/zookeeperProgrammers.html#sc_timeInZk>), which is enough: a version of a node
/// has one token, and the client checks the token of the version that it lets the server compare. A write is one request
/// when this client has read or written that version, else one more goes before it. A read is two requests in one flight,
/// since a server alone may be behind the leader.
///
/// A node that is deleted by hand and made anew counts its versions from the beginning: stop who writes it before.
#[derive(Clone)]
pub struct ZkRegister {
    inner: Arc<Inner>,
}

struct Inner {
    config: ZkConfig,
    base: Base,
    client: Mutex<Client>,
    /// The token of the version of a name that was last seen.
    known: Mutex<HashMap<LockName, (Version, FencingToken)>>,
}

impl ZkRegister {
    /// Opens a session, checks the server's version and mode, and makes the directory of the registers.
    ///
    /// # Errors
    /// As [`ZkLock::connect`](crate::ZkLock::connect).
    ///
    /// # Cancel safety
    /// A session that was being opened ends at the server by itself.
    pub async fn connect(config: ZkConfig) -> Result<Self> {
        let config = config.checked()?;
        let limit = config.options.connect_timeout;
        let what = format!("connecting to {}", config.addresses().join(","));
        let opened = async {
            check::server(&config, limit).await?;
            let client = open(&config).await?;
            make_directory(&config, &client).await.map_err(Error::not_applied)?;
            Ok(client)
        };
        let client = timeout(limit, opened).await.unwrap_or_else(|_| Err(error::late(&what, limit).not_applied()))?;
        let (base, client) = (config.base(), Mutex::new(client));
        Ok(Self { inner: Arc::new(Inner { config, base, client, known: Mutex::default() }) })
    }
}

async fn open(config: &ZkConfig) -> Result<Client> {
    let what = format!("opening a session at {}", config.addresses().join(","));
    config.open().await.map_err(|error| error::of_driver(error, &what).not_applied())
}

async fn make_directory(config: &ZkConfig, client: &Client) -> Result<()> {
    let directory = config.base().registers();
    let made = client.mkdir(&directory, &CreateMode::Persistent.with_acls(config.acl.acls())).await;
    made.map_err(|error| error::of_driver(error, &format!("creating {directory}")))
}

impl Inner {
    fn client(&self) -> MutexGuard<'_, Client> {
        self.client.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session in use, or a new one. Several callers may open one each; the first that has one is followed.
    async fn live(&self) -> Result<Client> {
        let client = self.client().clone();
        if !client.state().is_terminated() {
            return Ok(client);
        }
        let opened = open(&self.config).await?;
        let mut client = self.client();
        if client.state().is_terminated() {
            *client = opened;
        }
        Ok(client.clone())
    }

    async fn timely<T>(&self, what: &str, operation: impl Future<Output = Result<T>> + Send) -> Result<T> {
        let limit: Duration = self.config.options.op_timeout;
        timeout(limit, operation).await.unwrap_or_else(|_| Err(error::late(what, limit)))
    }

    /// Reads through the leader: what was answered to anybody before is seen.
    async fn read(&self, client: &Client, name: &LockName) -> Result<Fenced> {
        let path = self.base.register(name);
        let (sync, data) = (client.sync(&path), client.get_data(&path));
        let found = match (sync.await, data.await) {
            (Ok(()), Ok((data, stat))) => Fenced::decode(&data, version(stat.version))?,
            (Ok(()), Err(Driver::NoNode)) => Fenced::absent(),
            (Err(error), _) | (_, Err(error)) => return Err(error::of_driver(error, &format!("reading {path}"))),
        };
        if let Some(token) = found.token {
            self.know(name, found.version, token);
        }
        Ok(found)
    }

    /// By the leader's clock, which stamps every write. It cannot be asked for the time, so the directory of the registers,
    /// whose data nobody uses, is written: its stamp is now.
    async fn age(&self, client: &Client, name: &LockName) -> Result<Option<Duration>> {
        let (path, directory) = (self.base.register(name), self.base.registers());
        let failed = |error| error::of_driver(error, &format!("asking for the age of {path}"));
        let now = match client.set_data(&directory, &[], None).await {
            Ok(stat) => stat.mtime,
            Err(Driver::NoNode) => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        // Read after a write of this session, by which its server has caught up with the leader.
        let Some(stat) = client.check_stat(&path).await.map_err(failed)? else { return Ok(None) };
        Ok(Some(Duration::from_millis(u64::try_from(now.saturating_sub(stat.mtime)).unwrap_or(0))))
    }

    async fn write(&self, name: &LockName, value: &[u8], token: FencingToken, expected: Version) -> Result<Write> {
        let client = self.live().await?;
        // A version that is not there has no token, and the token of the others has to be known.
        let is_newer =
            expected == Version::ABSENT || self.token_of(name, expected).is_some_and(|stored| token >= stored);
        if !is_newer && let Some(refusal) = self.read(&client, name).await?.refusal(token, expected) {
            return Ok(refusal);
        }
        if let Some(written) = self.replace(&client, name, value, token, expected).await? {
            self.know(name, written, token);
            return Ok(Write::Written { version: written });
        }
        // The server refused by the version; what is stored now says which answer that is.
        let refusal = self.read(&client, name).await?.refusal(token, expected);
        refusal.ok_or_else(|| {
            Error::new(ErrorKind::Unreachable, "the register changes too fast: write again").not_applied()
        })
    }

    /// Sends the write itself; `None` when another version is stored, or none.
    async fn replace(
        &self,
        client: &Client,
        name: &LockName,
        value: &[u8],
        token: FencingToken,
        expected: Version,
    ) -> Result<Option<Version>> {
        let (path, data) = (self.base.register(name), Fenced::encode(value, token));
        let failed = |error| {
            let refused = error::is_refusal(&error);
            let error = error::of_driver(error, &format!("writing {path}"));
            if refused { error.not_applied() } else { error }
        };
        if expected == Version::ABSENT {
            let options = CreateMode::Persistent.with_acls(self.config.acl.acls());
            let mut created = client.create(&path, &data, &options).await;
            if matches!(created, Err(Driver::NoNode)) {
                // Somebody has removed the directory since this client connected.
                make_directory(&self.config, client).await?;
                created = client.create(&path, &data, &options).await;
            }
            return match created {
                Ok((stat, _)) => Ok(Some(version(stat.version))),
                Err(Driver::NodeExists) => Ok(None),
                Err(error) => Err(failed(error)),
            };
        }
        let Some(number) = number(expected) else { return Ok(None) };
        match client.set_data(&path, &data, Some(number)).await {
            Ok(Stat { version: number, .. }) => Ok(Some(version(number))),
            Err(Driver::BadVersion | Driver::NoNode) => Ok(None),
            Err(error) => Err(failed(error)),
        }
    }

    fn known(&self) -> MutexGuard<'_, HashMap<LockName, (Version, FencingToken)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn know(&self, name: &LockName, version: Version, token: FencingToken) {
        let mut known = self.known();
        if known.len() >= KNOWN && !known.contains_key(name) {
            known.clear();
        }
        known.insert(name.clone(), (version, token));
    }

    fn token_of(&self, name: &LockName, version: Version) -> Option<FencingToken> {
        self.known().get(name).filter(|(seen, _)| *seen == version).map(|(_, token)| *token)
    }
}

/// The server counts from 0, and wraps.
fn version(number: i32) -> Version {
    Version::new(u64::from(number.cast_unsigned()) + 1)
}

/// The reverse; `None` for what no node ever has. By -1 the server would mean any version.
fn number(version: Version) -> Option<i32> {
    let number = u32::try_from(version.get().checked_sub(1)?).ok()?.cast_signed();
    (number != -1).then_some(number)
}

#[async_trait]
impl FencedRegister for ZkRegister {
    async fn read(&self, name: &LockName) -> Result<Fenced> {
        let inner = &*self.inner;
        let read = inner.timely("reading a register", async { inner.read(&inner.live().await?, name).await });
        read.await.map_err(|error| error.with_operation(Operation::Read).with_name(name))
    }

    async fn write(&self, name: &LockName, value: &[u8], token: FencingToken, expected: Version) -> Result<Write> {
        let written = async {
            Fenced::check(value)?;
            self.inner.timely("writing a register", self.inner.write(name, value, token, expected)).await
        };
        written.await.map_err(|error| error.with_operation(Operation::Write).with_name(name))
    }

    fn tells_age(&self) -> bool {
        true
    }

    async fn age(&self, name: &LockName) -> Result<Option<Duration>> {
        let inner = &*self.inner;
        let aged = inner.timely("asking for an age", async { inner.age(&inner.live().await?, name).await });
        aged.await.map_err(|error| error.with_operation(Operation::Read).with_name(name))
    }
}

impl fmt::Debug for ZkRegister {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ZkRegister").field("config", &self.inner.config).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_read_back_across_the_wrap() {
        for at in [0, 1, i32::MAX, i32::MIN, -2] {
            assert_eq!(number(version(at)), Some(at));
            assert_ne!(version(at), Version::ABSENT);
        }
        for odd in [0, u64::from(u32::MAX) + 1, u64::MAX] {
            assert_eq!(number(Version::new(odd)), None);
        }
    }
}
