//! A server, whoever runs it.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::sync::OnceCell;
use tokio::time::timeout;

use crate::join::Joined;
use crate::native::{self, Native};
use crate::ready::Contact;
use crate::{Absent, FailedStart, FaultError, Options, Requests, Service, StartError, launch, require, timing};

/// A server that answered when it was started or joined.
///
/// Dropped, also by a panic, it is gone with everything it wrote. It is gone as well when the test process ends in any way,
/// `SIGKILL` and a server in a static included. A joined server is left alone.
#[derive(Debug)]
pub struct Server {
    service: Service,
    version: String,
    source: Source,
}

#[derive(Debug)]
enum Source {
    Joined(Joined, Contact),
    Native(Box<Native>),
}

impl Server {
    /// Provides a server: the one whose URL is in the environment, else one of this machine's installation.
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
            && !options.needs_own()
        {
            return Ok(Self::join(service, url).await?);
        }
        match launch::find(service) {
            Ok(launcher) => {
                let (native, version) = Native::start(service, launcher, options).await?;
                Ok(Self { service, version, source: Source::Native(Box::new(native)) })
            }
            Err(missing) => Err(Absent::new(service, format!("{} is not set, {missing}", service.env_var())).into()),
        }
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
        match Self::start(service).await {
            Ok(server) => Ok(Some(server)),
            Err(StartError::Absent(absent)) if !require::required(service) => {
                eprintln!("SKIPPED: {absent}");
                Ok(None)
            }
            Err(error) => Err(error),
        }
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
        match (&self.source, self.service) {
            (Source::Joined(joined, _), _) => joined.url(),
            (_, Service::Etcd) => format!("http://{}", self.addr()),
            (_, Service::Zookeeper) => self.addr().to_string(),
            _ => self.lock_url(),
        }
    }

    /// The URL by which a lock backend is opened: `redis://…`, `postgres://…`, `etcd://…`, `zk://…`.
    #[must_use]
    pub fn lock_url(&self) -> String {
        match &self.source {
            Source::Joined(joined, _) => joined.lock_url(),
            Source::Native(_) => self.lock_url_via(self.addr()),
        }
    }

    /// The lock URL of this server, started by the testbed, when it is reached through `addr`: that of a [`Proxy`](crate::Proxy).
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
            Source::Joined(..) => None,
            Source::Native(native) => native.pid(),
        }
    }

    /// Whether it answers a request within `limit` times the time factor: it does not while it is frozen or dead.
    ///
    /// # Cancel safety
    ///
    /// Only asks.
    pub async fn answers(&self, limit: Duration) -> bool {
        timeout(timing::scaled(limit), self.contact().version()).await.is_ok_and(|answer| answer.is_ok())
    }

    /// Stops all its processes with `SIGSTOP`. Connections still open and stay open, and nothing is answered.
    ///
    /// # Errors
    ///
    /// When it is not ours or does not run.
    ///
    /// # Cancel safety
    ///
    /// Some of the processes may be stopped; [`thaw`](Self::thaw) undoes it.
    pub async fn freeze(&self) -> Result<(), FaultError> {
        self.native()?.freeze().await
    }

    /// Lets a frozen server go on with `SIGCONT`.
    ///
    /// # Errors
    ///
    /// When it is not ours or does not run.
    ///
    /// # Cancel safety
    ///
    /// The signals are sent at the first poll.
    pub async fn thaw(&self) -> Result<(), FaultError> {
        self.native()?.thaw().await
    }

    /// Kills all its processes with `SIGKILL`, and returns when they are gone. Its data and its port stay reserved.
    ///
    /// # Errors
    ///
    /// When it is not ours. None when it does not run.
    ///
    /// # Cancel safety
    ///
    /// The signal may have been sent; calling it again waits for the end.
    pub async fn kill(&self) -> Result<(), FaultError> {
        self.native()?.kill().await
    }

    /// Ends it in order, or by [`kill`](Self::kill) when that takes more than 5 s times the time factor.
    ///
    /// # Errors
    ///
    /// When it is not ours. None when it does not run.
    ///
    /// # Cancel safety
    ///
    /// It may go on stopping; calling it again waits for the end.
    pub async fn stop(&self) -> Result<(), FaultError> {
        self.native()?.stop().await
    }

    /// Starts it again on the same port with the same data; first stops it if it runs.
    ///
    /// # Errors
    ///
    /// When it is not ours, or does not start.
    ///
    /// # Cancel safety
    ///
    /// It may be left stopped or half started; calling it again repairs that.
    pub async fn restart(&self) -> Result<(), FaultError> {
        self.native()?.restart().await
    }

    /// Starts it again on the same port without any data; first kills it if it runs.
    ///
    /// # Errors
    ///
    /// When it is not ours, or does not start.
    ///
    /// # Cancel safety
    ///
    /// As [`restart`](Self::restart); the data is gone or not.
    pub async fn restart_empty(&self) -> Result<(), FaultError> {
        self.native()?.restart_empty().await
    }

    /// The client requests it has executed since its process was started, without this question.
    ///
    /// # Errors
    ///
    /// When it was not started with [`Options::counting`] (etcd counts always), or does not answer.
    ///
    /// # Cancel safety
    ///
    /// Only asks.
    pub async fn requests(&self) -> Result<Requests, FaultError> {
        match &self.source {
            Source::Native(native) if self.service != Service::Etcd => native.requests().await,
            _ if self.service == Service::Etcd => native::etcd_requests(self.contact()).await,
            _ => Err(FaultError::NotCounting(self.service)),
        }
    }

    fn contact(&self) -> &Contact {
        match &self.source {
            Source::Joined(_, contact) => contact,
            Source::Native(native) => &native.contact,
        }
    }

    fn native(&self) -> Result<&Native, FaultError> {
        match &self.source {
            Source::Native(native) => Ok(native),
            Source::Joined(..) if self.faults_allowed() => Err(FaultError::OutOfReach(self.service)),
            Source::Joined(..) => Err(FaultError::NotAllowed(self.service)),
        }
    }
}

fn given_url(service: Service) -> Option<String> {
    std::env::var(service.env_var()).ok().filter(|url| !url.is_empty())
}
