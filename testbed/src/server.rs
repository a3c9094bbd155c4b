//! A server, whoever runs it.

use std::fmt;
use std::net::SocketAddr;

use tokio::sync::OnceCell;

#[cfg(feature = "container")]
use crate::container::Container;
use crate::join::Joined;
use crate::native::Native;
use crate::ready::Contact;
use crate::{Absent, FailedStart, Options, Service, StartError, launch, require};

/// A server that answered when it was started or joined.
///
/// Dropped, also by a panic, it is gone with everything it wrote. It is gone as well when the test process ends in any way,
/// `SIGKILL` and a server in a static included. A joined server is left alone.
pub struct Server {
    service: Service,
    version: String,
    pub(crate) source: Source,
}

#[derive(Debug)]
pub(crate) enum Source {
    Joined(Joined, Contact),
    Native(Box<Native>),
    #[cfg(feature = "container")]
    Container(Box<Container>),
}

impl Server {
    /// Provides a server: the one whose URL is in the environment, else a process of this machine's installation, else, with the
    /// feature `container`, a container.
    ///
    /// # Errors
    ///
    /// [`StartError::Absent`] when there is nothing to start; [`StartError::Failed`] when there is and it does not answer in
    /// time (15 s times the time factor), or when the URL leads nowhere.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends a process that was started already.
    pub async fn start(service: Service) -> Result<Self, StartError> {
        Self::start_with(service, Options::new()).await
    }

    /// Provides a server that was started with `options`; where they name anything that only an own server can have, none is joined.
    ///
    /// # Errors
    ///
    /// As [`Server::start`].
    ///
    /// # Cancel safety
    ///
    /// As [`Server::start`].
    pub async fn start_with(service: Service, options: Options) -> Result<Self, StartError> {
        if let Some(url) = given_url(service)
            && options.may_join()
        {
            return Ok(Self::join(service, url).await?);
        }
        let mut missing = Vec::new();
        if options.may_join() {
            missing.push(format!("{} is not set", service.env_var()));
        }
        if options.may_run_a_process() {
            match launch::find(service) {
                Ok(launcher) => {
                    let (native, version) = Native::start(service, launcher, options).await?;
                    return Ok(Self { service, version, source: Source::Native(Box::new(native)) });
                }
                Err(reason) => missing.push(reason),
            }
        }
        #[cfg(feature = "container")]
        if options.may_run_a_container() {
            match Container::start(service, options).await? {
                Ok((container, version)) => {
                    return Ok(Self { service, version, source: Source::Container(Box::new(container)) });
                }
                Err(reason) => missing.push(reason),
            }
        }
        Err(Absent::new(service, missing.join(", ")).into())
    }

    /// Provides a server, or `None` after saying why not on stderr, unless `LOCKYARD_REQUIRE` names the service.
    ///
    /// # Errors
    ///
    /// As [`Server::start`], but [`StartError::Absent`] only for a required service.
    ///
    /// # Cancel safety
    ///
    /// As [`Server::start`].
    pub async fn start_or_skip(service: Service) -> Result<Option<Self>, StartError> {
        Self::start_or_skip_with(service, Options::new()).await
    }

    /// As [`Server::start_or_skip`], with options.
    ///
    /// # Errors
    ///
    /// As [`Server::start_or_skip`].
    ///
    /// # Cancel safety
    ///
    /// As [`Server::start`].
    pub async fn start_or_skip_with(service: Service, options: Options) -> Result<Option<Self>, StartError> {
        require::or_skip(service, Self::start_with(service, options).await)
    }

    /// The server that everybody in this process shares, started at the first call. It ends with the process.
    ///
    /// # Errors
    ///
    /// As [`Server::start`]; a failure is not kept, the next call tries again.
    ///
    /// # Cancel safety
    ///
    /// As [`Server::start`]; another caller then starts it.
    pub async fn shared(service: Service) -> Result<&'static Self, StartError> {
        static SHARED: [OnceCell<Server>; Service::ALL.len()] = [const { OnceCell::const_new() }; Service::ALL.len()];
        SHARED[service as usize].get_or_try_init(|| Self::start(service)).await
    }

    /// One member of an ensemble.
    pub(crate) fn of_ensemble(service: Service, native: Native, version: String) -> Self {
        Self { service, version, source: Source::Native(Box::new(native)) }
    }

    async fn join(service: Service, url: String) -> Result<Self, FailedStart> {
        let joined = Joined::new(service, url);
        let failed =
            |error| FailedStart::new(service, format!("the server of {} does not answer: {error}", service.env_var()));
        let contact = joined.contact().await.map_err(failed)?;
        let version = if joined.is_plain() { contact.version().await.map_err(failed)? } else { String::new() };
        Ok(Self { service, version, source: Source::Joined(joined, contact) })
    }

    /// Which service it is.
    #[must_use]
    pub fn service(&self) -> Service {
        self.service
    }

    /// The version it states, like `7.0.15`; empty when it does not say.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The address for its client library: `redis://…`, `postgres://postgres@…/postgres`, `http://…` for etcd, `host:port` for ZooKeeper.
    #[must_use]
    pub fn url(&self) -> String {
        match &self.source {
            Source::Joined(joined, _) => joined.url(),
            _ => self.url_via(self.addr()),
        }
    }

    /// The URL by which a lock backend is opened: `redis://…`, `postgres://…`, `etcd://…`, `zk://…`.
    #[must_use]
    pub fn lock_url(&self) -> String {
        match &self.source {
            Source::Joined(joined, _) => joined.lock_url(),
            _ => self.lock_url_via(self.addr()),
        }
    }

    /// The [`url`](Self::url) of a server of our own when it is reached through `addr`, that of a [`Proxy`](crate::Proxy).
    #[must_use]
    pub fn url_via(&self, addr: SocketAddr) -> String {
        match self.service {
            Service::Etcd => format!("http://{addr}"),
            Service::Zookeeper => addr.to_string(),
            _ => self.lock_url_via(addr),
        }
    }

    /// The [`lock_url`](Self::lock_url) of a server of our own when it is reached through `addr`, that of a [`Proxy`](crate::Proxy).
    #[must_use]
    pub fn lock_url_via(&self, addr: SocketAddr) -> String {
        let scheme = self.service.lock_scheme();
        match (self.service, &self.contact().password) {
            (Service::Redis, Some(password)) => format!("{scheme}://:{password}@{addr}"),
            (Service::Postgres, _) => format!("{scheme}://postgres@{addr}/postgres"),
            _ => format!("{scheme}://{addr}"),
        }
    }

    /// Where it listens; of a joined server, the first host of the URL.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.contact().addr
    }

    /// Whether it was found by a URL of the environment, and is somebody else's.
    #[must_use]
    pub fn is_joined(&self) -> bool {
        matches!(self.source, Source::Joined(..))
    }

    /// Whether it may be broken: it is our own, or `LOCKYARD_ALLOW_FAULTS=1` says so.
    #[must_use]
    pub fn faults_allowed(&self) -> bool {
        !self.is_joined() || std::env::var("LOCKYARD_ALLOW_FAULTS").is_ok_and(|value| value == "1")
    }

    /// The process number of the server's first process, while it runs as a process of ours.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        match &self.source {
            Source::Native(native) => native.pid(),
            _ => None,
        }
    }

    pub(crate) fn contact(&self) -> &Contact {
        match &self.source {
            Source::Joined(_, contact) => contact,
            Source::Native(native) => &native.contact,
            #[cfg(feature = "container")]
            Source::Container(container) => &container.contact,
        }
    }
}

/// Without the options and the URL, which may hold a password.
impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = f.debug_struct("Server");
        fields.field("service", &self.service).field("version", &self.version).field("addr", &self.addr());
        fields.field("pid", &self.pid()).finish_non_exhaustive()
    }
}

fn given_url(service: Service) -> Option<String> {
    std::env::var(service.env_var()).ok().filter(|url| !url.is_empty())
}
