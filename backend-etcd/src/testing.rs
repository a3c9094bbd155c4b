//! An etcd server as a backend under test.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use lockyard_api::{Claim, Host, LockName, Namespace, Result, async_trait};
use lockyard_conformance::{Client, Fault, Harness, NoHarness, RegisterClient};
use lockyard_faults::{ProxyLink, break_server, no_harness};
use lockyard_testbed::{Options, Proxy, Server, Service, timing};

use crate::connect;
use crate::keys::KeySpace;
use crate::operations::Operations;
use crate::rpc::Rpc;
use crate::{EtcdConfig, EtcdLock, EtcdRegister};

/// How long a swallowed reply has to be written: longer than a flush to the disk takes.
const WRITTEN: Duration = Duration::from_millis(200);

/// An etcd server, and the faults that it can make.
///
/// Everything is kept under one random namespace and those that begin with it. Locks hang on leases; registers stay until
/// [`EtcdHarness::clean_up`].
#[derive(Debug)]
pub struct EtcdHarness {
    config: EtcdConfig,
    side: Rpc,
    /// Where clients' proxies lead, when there can be proxies.
    upstream: Option<SocketAddr>,
    /// A proxy lives as long as its client, whatever becomes of the [`Link`].
    proxies: Mutex<Vec<(Weak<Operations>, Arc<Proxy>)>>,
    server: Option<Server>,
}

impl EtcdHarness {
    /// How long a call of the harness's clients waits for an answer.
    const OP_TIMEOUT: Duration = Duration::from_secs(2);

    /// The server of `LOCKYARD_ETCD_URL`, or one of this machine's installation.
    ///
    /// # Errors
    /// `Skip` when there is none, `Failed` when it does not work.
    ///
    /// # Cancel safety
    /// Dropping the future ends a server that was started already.
    pub async fn start() -> Result<Self, NoHarness> {
        Self::start_with(Options::new()).await
    }

    /// As [`EtcdHarness::start`], with a server that was started with these options.
    ///
    /// # Errors
    /// As [`EtcdHarness::start`].
    ///
    /// # Cancel safety
    /// As [`EtcdHarness::start`].
    pub async fn start_with(options: Options) -> Result<Self, NoHarness> {
        let server = Server::start_with(Service::Etcd, options).await.map_err(no_harness)?;
        Self::over(server).await
    }

    /// This server, which the harness may break if [`Server::faults_allowed`] says so.
    ///
    /// # Errors
    /// `Failed` when no client can be made.
    ///
    /// # Cancel safety
    /// Dropping the future ends the server.
    pub async fn over(server: Server) -> Result<Self, NoHarness> {
        let config = EtcdConfig::from_url(&server.lock_url())?;
        let mut harness = Self::with_config(config).await?;
        harness.server = Some(server);
        Ok(harness)
    }

    /// The server of this URL. It is somebody else's: no fault but those of our own keys and connections.
    ///
    /// # Errors
    /// `Failed` when the URL is wrong or leads nowhere.
    ///
    /// # Cancel safety
    /// Nothing is left behind.
    pub async fn join(url: &str) -> Result<Self, NoHarness> {
        Self::with_config(EtcdConfig::from_url(url)?).await
    }

    async fn with_config(config: EtcdConfig) -> Result<Self, NoHarness> {
        let namespace = Namespace::new(format!("lockyard-{:016x}", fastrand::u64(..)))?;
        let mut config = config.namespace(namespace);
        config.options.op_timeout = timing::scaled(Self::OP_TIMEOUT);
        let side = connect::open(&config, &KeySpace::new(&config.prefix, &config.options.namespace)).await?;
        // A certificate names the server, not the proxy; and a proxy before one member of several disturbs little.
        let upstream = match config.hosts.as_slice() {
            [host] if !config.tls => resolve(host).await,
            _ => None,
        };
        Ok(Self { config, side, upstream, proxies: Mutex::default(), server: None })
    }

    /// The server, when the harness started it or was given it.
    #[must_use]
    pub fn server(&self) -> Option<&Server> {
        self.server.as_ref()
    }

    /// The namespace of its clients.
    #[must_use]
    pub const fn namespace(&self) -> &Namespace {
        &self.config.options.namespace
    }

    /// The settings of the harness's clients, without a proxy.
    #[must_use]
    pub fn config(&self) -> &EtcdConfig {
        &self.config
    }

    /// A client straight to the server.
    ///
    /// # Errors
    /// What connecting answers.
    ///
    /// # Cancel safety
    /// Nothing is left behind.
    pub async fn client(&self) -> Result<EtcdLock> {
        EtcdLock::connect(self.config.clone()).await
    }

    /// A client through a proxy of its own.
    ///
    /// # Errors
    /// What connecting answers, and `Unsupported` for a server that no proxy can stand before.
    ///
    /// # Cancel safety
    /// Nothing is left behind.
    pub async fn client_via_proxy(&self) -> Result<(EtcdLock, Arc<Proxy>)> {
        let (config, proxy) = self.proxied().await?;
        let lock = EtcdLock::connect(config).await?;
        let mut proxies = self.proxies.lock().unwrap_or_else(PoisonError::into_inner);
        proxies.retain(|(client, _)| client.strong_count() > 0);
        proxies.push((Arc::downgrade(lock.inner()), Arc::clone(&proxy)));
        Ok((lock, proxy))
    }

    /// Removes every key of the harness's namespace, and of those that [`Harness::connect_in`] made of it.
    ///
    /// # Errors
    /// When the server cannot be reached or refuses.
    ///
    /// # Cancel safety
    /// The request may have been sent.
    pub async fn clean_up(&self) -> Result<()> {
        let keys = self.keys();
        self.side.delete_all(keys.base().trim_end_matches('/')).await.map_err(crate::error::Failure::into_error)
    }

    /// A new proxy before the server, and how a client connects through it.
    async fn proxied(&self) -> Result<(EtcdConfig, Arc<Proxy>)> {
        let Some(upstream) = self.upstream else {
            return Err(lockyard_api::Error::unsupported("no proxy can stand before this server"));
        };
        let proxy = Proxy::start(upstream)
            .await
            .map_err(|error| lockyard_api::Error::config(format!("no port for a proxy: {error}")).with_source(error))?;
        let mut config = self.config.clone();
        config.hosts = vec![Host::new(proxy.addr().ip().to_string(), Some(proxy.addr().port()))];
        Ok((config, Arc::new(proxy)))
    }

    /// How a client in another namespace connects.
    fn config_in(&self, namespace: &str) -> Result<EtcdConfig> {
        // A harness's namespaces are its own, so that two of them on one server do not meet.
        let namespace = Namespace::new(format!("{}-{namespace}", self.config.options.namespace))?;
        Ok(self.config.clone().namespace(namespace))
    }

    /// Ends a lease at the server.
    ///
    /// # Errors
    /// What the server answers; a lease that is gone is none.
    ///
    /// # Cancel safety
    /// The request may have been sent.
    pub async fn revoke_lease(&self, id: i64) -> Result<()> {
        match self.side.revoke(id).await {
            Err(failure) if !failure.lease_is_gone() => Err(failure.into_error()),
            _ => Ok(()),
        }
    }

    /// Ends the session that this claim rests on, whichever process its client is in. Whether there was one is not told.
    ///
    /// # Cancel safety
    /// The request may have been sent.
    pub async fn end_session_of(&self, claim: &Claim) {
        let key = self.keys().lock(&claim.name).key(claim.owner);
        if let Ok(Some(own)) = self.side.own(&key).await {
            // A server that does not answer ends no session.
            let _ended = self.revoke_lease(own.lease).await;
        }
    }

    fn keys(&self) -> KeySpace {
        KeySpace::new(&self.config.prefix, &self.config.options.namespace)
    }
}

async fn resolve(host: &Host) -> Option<SocketAddr> {
    tokio::net::lookup_host(host.with_default_port(2379)).await.ok()?.next()
}

#[async_trait]
impl Harness for EtcdHarness {
    async fn connect(&self) -> Result<Client> {
        if self.upstream.is_none() {
            let lock = self.client().await?;
            let own = Own(Arc::downgrade(lock.inner()));
            return Ok(Client::new(lock).with_own(own));
        }
        let (lock, proxy) = self.client_via_proxy().await?;
        let own = Own(Arc::downgrade(lock.inner()));
        Ok(Client::new(lock).with_own(own).with_link(Arc::new(ProxyLink::swallowing_for(proxy, WRITTEN))))
    }

    async fn connect_in(&self, namespace: &str) -> Result<Option<Client>> {
        Ok(Some(Client::new(EtcdLock::connect(self.config_in(namespace)?).await?)))
    }

    async fn register(&self) -> Result<Option<RegisterClient>> {
        if self.upstream.is_none() {
            return Ok(Some(RegisterClient::new(EtcdRegister::connect(self.config.clone()).await?)));
        }
        let (config, proxy) = self.proxied().await?;
        let register = EtcdRegister::connect(config).await?;
        Ok(Some(RegisterClient::new(register).with_link(Arc::new(ProxyLink::swallowing_for(proxy, WRITTEN)))))
    }

    async fn register_in(&self, namespace: &str) -> Result<Option<RegisterClient>> {
        Ok(Some(RegisterClient::new(EtcdRegister::connect(self.config_in(namespace)?).await?)))
    }

    fn ttl(&self) -> Duration {
        // A session has to outlive a busy machine between two heartbeats.
        Duration::from_secs(2)
    }

    fn op_timeout(&self) -> Duration {
        self.config.options.op_timeout
    }

    async fn revoke(&self, claim: &Claim) -> Fault {
        let key = self.keys().lock(&claim.name).key(claim.owner);
        match self.side.delete(&key).await {
            Ok(_) => Fault::Done,
            Err(failure) => Fault::not_offered(failure.message()),
        }
    }

    async fn end_session(&self, client: &Client) -> Fault {
        let Some(inner) = client.own::<Own>().and_then(|own| own.0.upgrade()) else {
            return Fault::not_offered("not a client of this harness");
        };
        for id in inner.leases() {
            if let Err(error) = self.revoke_lease(id).await {
                return Fault::not_offered(error.to_string());
            }
        }
        Fault::Done
    }

    async fn entries(&self, name: &LockName) -> Option<usize> {
        let list = self.side.list(&self.keys().lock(name)).await.ok()?;
        Some(list.contenders.len())
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

/// The client, without keeping it alive: a check may be about its end.
struct Own(Weak<Operations>);
