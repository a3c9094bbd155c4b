//! ZooKeeper as a backend under test: the faults that a test can make.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use lockyard_api::{Claim, Error, LockName, Namespace, Options, Owner, Result, async_trait};
use lockyard_conformance::{Client, Fault, Harness, NoHarness, RegisterClient};
use lockyard_faults::{ProxyLink, break_server, no_harness, told};
use lockyard_testbed::{Proxy, Server, Service, end_zookeeper_session};
use zookeeper_client::{Client as Driver, Error as DriverError, SessionInfo, SessionState};

use crate::node::{self, Place};
use crate::{ZkConfig, ZkLock, ZkRegister};

/// A ZooKeeper server, the clients that compete on it, and what can be broken between and behind them.
#[derive(Debug)]
pub struct ZkHarness {
    config: ZkConfig,
    server: Option<Server>,
    /// A proxy lives as long as its client and the client's connection, whatever becomes of the [`Link`].
    proxies: Mutex<Vec<(Weak<ZkLock>, Arc<Proxy>)>>,
}

impl ZkHarness {
    /// The session timeout of the clients: long enough for a server to be restarted in it.
    const TTL: Duration = Duration::from_secs(3);
    const OP_TIMEOUT: Duration = Duration::from_secs(2);
    const PATIENCE: Duration = Duration::from_secs(30);

    /// Starts a server of its own, or joins the one that `LOCKYARD_ZOOKEEPER_URL` names.
    ///
    /// # Errors
    /// `Skip` when there is none here, `Failed` when it does not work.
    ///
    /// # Cancel safety
    /// A server that was started ends.
    pub async fn start() -> Result<Self, NoHarness> {
        match Server::start(Service::Zookeeper).await {
            Ok(server) => Ok(Self::over(server)?),
            Err(error) => Err(no_harness(error)),
        }
    }

    /// Joins the server of a URL. Everything lies in a namespace of its own; nothing on the server is broken, nor are the
    /// connections to it.
    ///
    /// # Errors
    /// As [`ZkConfig::from_url`].
    pub fn join(url: &str) -> Result<Self> {
        Self::with(ZkConfig::from_url(url)?, None)
    }

    /// The harness of a server that the testbed has started.
    ///
    /// # Errors
    /// As [`ZkConfig::from_url`], for a server that was joined.
    pub fn over(server: Server) -> Result<Self> {
        Self::with(ZkConfig::from_url(&server.lock_url())?, Some(server))
    }

    fn with(config: ZkConfig, server: Option<Server>) -> Result<Self> {
        let mut options = Options::default();
        options.ttl = Self::TTL;
        options.op_timeout = Self::OP_TIMEOUT;
        options.namespace = Namespace::new(format!("conformance-{}", Owner::random()))?;
        Ok(Self { config: config.with_options(options), server, proxies: Mutex::default() })
    }

    /// The server, when it is not joined by a URL.
    #[must_use]
    pub const fn server(&self) -> Option<&Server> {
        self.server.as_ref()
    }

    /// How the clients of this harness are configured.
    #[must_use]
    pub const fn config(&self) -> &ZkConfig {
        &self.config
    }

    /// The namespace of its clients.
    #[must_use]
    pub const fn namespace(&self) -> &Namespace {
        &self.config.options.namespace
    }

    /// The path of a lock's directory.
    #[must_use]
    pub fn directory(&self, name: &LockName) -> String {
        self.config.base().directory(name)
    }

    /// A client of this configuration, through a proxy of its own where the server may be broken.
    ///
    /// # Errors
    /// As [`ZkLock::connect`].
    ///
    /// # Cancel safety
    /// Nothing is left behind.
    pub async fn client(&self, config: ZkConfig) -> Result<(Arc<ZkLock>, Option<Arc<Proxy>>)> {
        let (config, proxy) = self.proxied(config).await?;
        let lock = Arc::new(ZkLock::connect(config).await?);
        if let Some(proxy) = &proxy {
            let mut proxies = self.proxies.lock().unwrap_or_else(PoisonError::into_inner);
            proxies.retain(|(lock, proxy)| lock.strong_count() > 0 || proxy.connections() > 0);
            proxies.push((Arc::downgrade(&lock), Arc::clone(proxy)));
        }
        Ok((lock, proxy))
    }

    /// This configuration, through a proxy of its own where the server may be broken.
    async fn proxied(&self, mut config: ZkConfig) -> Result<(ZkConfig, Option<Arc<Proxy>>)> {
        let Some(server) = self.server.as_ref().filter(|server| server.faults_allowed() && !server.is_joined()) else {
            return Ok((config, None));
        };
        let proxy = proxy(server.addr()).await?;
        config.hosts = vec![lockyard_api::Host::new(proxy.addr().ip().to_string(), Some(proxy.addr().port()))];
        Ok((config, Some(Arc::new(proxy))))
    }

    async fn register_client(&self, config: ZkConfig) -> Result<RegisterClient> {
        let (config, proxy) = self.proxied(config).await?;
        let register = RegisterClient::new(ZkRegister::connect(config).await?);
        Ok(match proxy {
            Some(proxy) => register.with_link(Arc::new(ProxyLink::new(proxy))),
            None => register,
        })
    }

    /// How a client in another namespace is configured: one whose name begins with that of the harness.
    fn config_in(&self, namespace: &str) -> Result<ZkConfig> {
        let mut config = self.config.clone();
        config.options.namespace = Namespace::new(format!("{}-{namespace}", config.options.namespace))?;
        Ok(config)
    }

    /// The children of a lock's directory that are contenders, in their order; empty without the directory.
    ///
    /// # Errors
    /// What the server or the network did.
    ///
    /// # Cancel safety
    /// Only asks.
    pub async fn contenders(&self, name: &LockName) -> Result<Vec<String>> {
        let directory = self.directory(name);
        let children = match self.side().await?.list_children(&directory).await {
            Ok(children) => children,
            Err(DriverError::NoNode) => Vec::new(),
            Err(error) => return Err(crate::error::of_driver(error, &directory)),
        };
        Ok(node::queue(&children).into_iter().map(str::to_owned).collect())
    }

    /// Ends the session that this claim rests on, whichever process its client is in. Whether there was one is not told.
    ///
    /// # Cancel safety
    /// It may have ended.
    pub async fn end_session_of(&self, claim: &Claim) {
        let Some(server) = &self.server else { return };
        let place = Place::new(&self.config.base(), &claim.name, claim.owner);
        let Ok(contenders) = self.contenders(&claim.name).await else { return };
        for child in place.all(&contenders) {
            let Ok(side) = self.side().await else { return };
            if let Ok(Some(stat)) = side.check_stat(&place.child(child)).await {
                // A server that does not answer ends no session.
                let _ended = end_zookeeper_session(server.addr(), stat.ephemeral_owner).await;
            }
        }
    }

    /// Removes everything that was made in this harness's namespaces, for a server that goes on.
    ///
    /// # Errors
    /// What the server or the network did.
    ///
    /// # Cancel safety
    /// Some of it may be left; calling it again removes the rest.
    pub async fn clean(&self) -> Result<()> {
        let (side, base) = (self.side().await?, self.config.base());
        let (above, namespace) = base.path().rsplit_once('/').unwrap_or_default();
        let root = if above.is_empty() { "/" } else { above };
        for own in side.list_children(root).await.unwrap_or_default() {
            if own.starts_with(namespace) {
                clean_directory(&side, &format!("{above}/{own}")).await?;
            }
        }
        Ok(())
    }

    /// A session beside those of the clients, which a server that is silent for some seconds does not end.
    async fn side(&self) -> Result<Driver> {
        let what = "opening a session for the harness";
        let mut options = self.config.options().clone();
        (options.ttl, options.connect_timeout) = (Self::PATIENCE, Self::PATIENCE);
        self.config.clone().with_options(options).open().await.map_err(|error| crate::error::of_driver(error, what))
    }

    /// Connects with the session of a client and closes it.
    async fn close(&self, session: SessionInfo) -> Result<(), DriverError> {
        let thief = Driver::connector().with_session(session).connect(&self.config.addresses().join(",")).await?;
        let mut states = thief.state_watcher();
        drop(thief);
        // Closed is told when the server has answered, Expired when somebody was faster.
        while !matches!(states.changed().await, SessionState::Closed | SessionState::Expired) {}
        Ok(())
    }
}

fn forgiven(deleted: Result<(), DriverError>) -> Result<()> {
    match deleted {
        Ok(()) | Err(DriverError::NoNode | DriverError::NotEmpty) => Ok(()),
        Err(error) => Err(crate::error::of_driver(error, "cleaning up")),
    }
}

/// Removes a namespace: directories of locks and registers, and what is in them.
async fn clean_directory(side: &Driver, directory: &str) -> Result<()> {
    for path in side.list_children(directory).await.unwrap_or_default() {
        let path = format!("{directory}/{path}");
        for child in side.list_children(&path).await.unwrap_or_default() {
            forgiven(side.delete(&format!("{path}/{child}"), None).await)?;
        }
        forgiven(side.delete(&path, None).await)?;
    }
    forgiven(side.delete(directory, None).await)
}

async fn proxy(server: SocketAddr) -> Result<Proxy> {
    Proxy::start(server).await.map_err(|error| Error::config("no proxy to the server").with_source(error))
}

fn linked((lock, proxy): (Arc<ZkLock>, Option<Arc<Proxy>>)) -> Client {
    // A check may be about the end of the client.
    let client = Client::new(Arc::clone(&lock)).with_own(Arc::downgrade(&lock));
    match proxy {
        Some(proxy) => client.with_link(Arc::new(ProxyLink::new(proxy))),
        None => client,
    }
}

#[async_trait]
impl Harness for ZkHarness {
    async fn connect(&self) -> Result<Client> {
        Ok(linked(self.client(self.config.clone()).await?))
    }

    async fn connect_in(&self, namespace: &str) -> Result<Option<Client>> {
        Ok(Some(linked(self.client(self.config_in(namespace)?).await?)))
    }

    async fn register(&self) -> Result<Option<RegisterClient>> {
        Ok(Some(self.register_client(self.config.clone()).await?))
    }

    async fn register_in(&self, namespace: &str) -> Result<Option<RegisterClient>> {
        Ok(Some(self.register_client(self.config_in(namespace)?).await?))
    }

    fn ttl(&self) -> Duration {
        Self::TTL
    }

    fn op_timeout(&self) -> Duration {
        Self::OP_TIMEOUT
    }

    async fn revoke(&self, claim: &Claim) -> Fault {
        let place = Place::new(&self.config.base(), &claim.name, claim.owner);
        let deleted = async {
            let side = self.side().await?;
            for child in place.all(&self.contenders(&claim.name).await?) {
                forgiven(side.delete(&place.child(child), None).await)?;
            }
            Ok(())
        };
        told::<Error>(deleted.await)
    }

    async fn end_session(&self, client: &Client) -> Fault {
        match client.own::<Weak<ZkLock>>().and_then(Weak::upgrade) {
            Some(lock) => told(self.close(lock.session_info()).await),
            None => Fault::not_offered("not a client of this harness"),
        }
    }

    async fn entries(&self, name: &LockName) -> Option<usize> {
        self.contenders(name).await.ok().map(|contenders| contenders.len())
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
