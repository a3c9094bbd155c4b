//! Redis as a backend under test: a server of the testbed, or one that is joined by its URL.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lockyard_api::{Claim, Error, ErrorKind, LockName, Namespace, Owner, Result, async_trait};
use lockyard_conformance::{Client, Fault, Harness, NoHarness, RegisterClient};
use lockyard_faults::{ProxyLink, break_server, no_harness};
use lockyard_testbed::{Options, Proxy, Server, Service};
use redis::aio::MultiplexedConnection;

use crate::keys::Keys;
use crate::{RedisConfig, RedisLock, RedisRegister, connect, reply};

/// A Redis server and the faults that it can make.
#[derive(Debug)]
pub struct RedisHarness {
    config: RedisConfig,
    /// `None` when the server is somebody else's.
    server: Option<Server>,
    /// A client's link may be dropped before the client, which then would lose its way.
    proxies: Mutex<Vec<Arc<Proxy>>>,
}

impl RedisHarness {
    /// How long a call waits for a server that is silent.
    const OP_TIMEOUT: Duration = Duration::from_secs(1);

    /// A server of this machine with every fault, or the one of `LOCKYARD_REDIS_URL`, joined as by [`RedisHarness::join`].
    ///
    /// # Errors
    /// `Skip` when there is no Redis to start, `Failed` when it does not work.
    ///
    /// # Cancel safety
    /// Dropped, it ends what it has started.
    pub async fn start() -> std::result::Result<Self, NoHarness> {
        Self::start_with(Options::new()).await
    }

    /// As [`RedisHarness::start`], with options of the server; where they need an own server none is joined.
    ///
    /// # Errors
    /// As [`RedisHarness::start`].
    ///
    /// # Cancel safety
    /// As [`RedisHarness::start`].
    pub async fn start_with(options: Options) -> std::result::Result<Self, NoHarness> {
        match Server::start_with(Service::Redis, options).await {
            Ok(server) if server.is_joined() => Self::join(&server.lock_url()).await.map_err(NoHarness::from),
            Ok(server) => {
                let config = RedisConfig::from_url(&server.lock_url())?.op_timeout(Self::OP_TIMEOUT);
                Ok(Self { config, server: Some(server), proxies: Mutex::default() })
            }
            Err(error) => Err(no_harness(error)),
        }
    }

    /// The server of this URL, which belongs to somebody else: everything stays in a namespace of its own, which
    /// [`RedisHarness::clean_up`] empties, and no fault is made.
    ///
    /// # Errors
    /// As [`RedisLock::connect`].
    ///
    /// # Cancel safety
    /// Dropped, it leaves nothing.
    pub async fn join(url: &str) -> Result<Self> {
        let namespace = Namespace::new(format!("lockyard-test-{}", Owner::random()))?;
        let config = RedisConfig::from_url(url)?.namespace(namespace);
        drop(RedisLock::connect(config.clone()).await?);
        Ok(Self { config, server: None, proxies: Mutex::default() })
    }

    /// How a client of this harness connects.
    pub fn config(&self) -> RedisConfig {
        self.config.clone()
    }

    /// The namespace of its clients.
    #[must_use]
    pub const fn namespace(&self) -> &Namespace {
        &self.config.namespace
    }

    /// The server, when it is the harness's own.
    #[must_use]
    pub const fn server(&self) -> Option<&Server> {
        self.server.as_ref()
    }

    /// A client and the proxy that it goes through.
    ///
    /// # Errors
    /// `Unsupported` on a server of somebody else; otherwise as [`RedisLock::connect`].
    ///
    /// # Cancel safety
    /// Dropped, it leaves nothing.
    pub async fn connect_through_proxy(&self) -> Result<(RedisLock, Arc<Proxy>)> {
        let (config, proxy) = self.proxied().await?;
        Ok((RedisLock::connect(config).await?, proxy))
    }

    /// A new proxy before the server, and how a client connects through it.
    async fn proxied(&self) -> Result<(RedisConfig, Arc<Proxy>)> {
        let Some(server) = &self.server else {
            return Err(Error::unsupported("a server of somebody else is reached directly"));
        };
        let proxy = Proxy::start(server.addr())
            .await
            .map_err(|e| Error::new(ErrorKind::Capacity, "no port for a proxy").with_source(e).not_applied())?;
        let mut config = self.config();
        config.host = proxy.addr().ip().to_string();
        config.port = proxy.addr().port();
        Ok((config, Arc::new(proxy)))
    }

    fn keep(&self, proxy: &Arc<Proxy>) {
        self.proxies.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(proxy));
    }

    /// How a client in another namespace connects.
    fn config_in(&self, namespace: &str) -> Result<RedisConfig> {
        // On a server of somebody else everything stays below the harness's namespace, which is a prefix of this one.
        let namespace = match self.server {
            Some(_) => namespace.to_owned(),
            None => format!("{}-{namespace}", self.config.namespace),
        };
        Ok(self.config().namespace(Namespace::new(namespace)?))
    }

    /// A connection of its own, beside those of the clients.
    ///
    /// # Errors
    /// When the server cannot be reached.
    ///
    /// # Cancel safety
    /// Dropped, it leaves nothing.
    pub async fn side(&self) -> Result<MultiplexedConnection> {
        let client = connect::client(&self.config)?;
        client
            .get_multiplexed_async_connection()
            .await
            .map_err(|error| crate::error::unconnected(error, &self.config.address()).into())
    }

    /// Removes every key of the harness's namespace, and of those that [`Harness::connect_in`] made of it.
    ///
    /// # Errors
    /// When the server cannot be reached or refuses.
    ///
    /// # Cancel safety
    /// Dropped, some keys may be left.
    pub async fn clean_up(&self) -> Result<()> {
        let mut side = self.side().await?;
        for pattern in [format!("{}*", self.config.namespace), format!("{{{}*", self.config.namespace)] {
            let mut cursor = 0_u64;
            loop {
                let (next, keys): (u64, Vec<Vec<u8>>) = redis::cmd("SCAN")
                    .arg(cursor)
                    .arg("MATCH")
                    .arg(&pattern)
                    .arg("COUNT")
                    .arg(1000)
                    .query_async(&mut side)
                    .await
                    .map_err(refused)?;
                if !keys.is_empty() {
                    redis::cmd("DEL").arg(keys).exec_async(&mut side).await.map_err(refused)?;
                }
                cursor = next;
                if cursor == 0 {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Asks beside the clients; `None` when that fails.
    async fn ask<T: redis::FromRedisValue>(&self, command: &redis::Cmd) -> Option<T> {
        command.query_async(&mut self.side().await.ok()?).await.ok()
    }

    fn keys(&self, name: &LockName) -> [String; 4] {
        let mut all = Vec::with_capacity(4);
        Keys::new(&self.config.namespace).of(name).for_each(|key| all.push(key.to_owned()));
        all.try_into().unwrap_or_default()
    }
}

#[async_trait]
impl Harness for RedisHarness {
    async fn connect(&self) -> Result<Client> {
        if self.server.is_none() {
            return Ok(Client::new(RedisLock::connect(self.config()).await?));
        }
        let (lock, proxy) = self.connect_through_proxy().await?;
        self.keep(&proxy);
        Ok(Client::new(lock).with_link(Arc::new(ProxyLink::new(proxy))))
    }

    async fn connect_in(&self, namespace: &str) -> Result<Option<Client>> {
        Ok(Some(Client::new(RedisLock::connect(self.config_in(namespace)?).await?)))
    }

    async fn register(&self) -> Result<Option<RegisterClient>> {
        if self.server.is_none() {
            return Ok(Some(RegisterClient::new(RedisRegister::connect(self.config()).await?)));
        }
        let (config, proxy) = self.proxied().await?;
        self.keep(&proxy);
        let register = RedisRegister::connect(config).await?;
        Ok(Some(RegisterClient::new(register).with_link(Arc::new(ProxyLink::new(proxy)))))
    }

    async fn register_in(&self, namespace: &str) -> Result<Option<RegisterClient>> {
        Ok(Some(RegisterClient::new(RedisRegister::connect(self.config_in(namespace)?).await?)))
    }

    fn op_timeout(&self) -> Duration {
        self.config.op_timeout
    }

    async fn revoke(&self, claim: &Claim) -> Fault {
        let [lock, ..] = self.keys(&claim.name);
        match self.ask::<i64>(redis::cmd("DEL").arg(lock)).await {
            Some(_) => Fault::Done,
            None => Fault::not_offered("the server did not answer"),
        }
    }

    async fn entries(&self, name: &LockName) -> Option<usize> {
        let [lock, _, queue, _] = self.keys(name);
        let held: usize = self.ask(redis::cmd("EXISTS").arg(lock)).await?;
        let waiting: usize = self.ask(redis::cmd("LLEN").arg(queue)).await?;
        Some(held + waiting)
    }

    async fn last_token(&self, name: &LockName) -> Option<u64> {
        let [_, token, ..] = self.keys(name);
        match self.ask::<Option<Vec<u8>>>(redis::cmd("GET").arg(token)).await? {
            Some(record) => reply::last_number(&record),
            None => Some(0),
        }
    }

    async fn freeze_server(&self) -> Fault {
        break_server(self.server.as_ref(), Server::freeze).await
    }

    async fn thaw_server(&self) -> Fault {
        break_server(self.server.as_ref(), Server::thaw).await
    }

    async fn kill_server(&self) -> Fault {
        break_server(self.server.as_ref(), Server::kill).await
    }

    async fn restart_server(&self) -> Fault {
        break_server(self.server.as_ref(), Server::restart).await
    }
}

fn refused(error: redis::RedisError) -> Error {
    Error::new(ErrorKind::Protocol, "the server refused").with_source(error)
}
