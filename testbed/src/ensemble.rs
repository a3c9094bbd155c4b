//! Several servers of one service that elect a leader, and the links between them.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, MutexGuard};
use tokio::task::JoinSet;

use crate::launch::{Member, Peer};
use crate::native::Native;
use crate::ports::Port;
use crate::timing::eventually;
use crate::{Absent, FailedStart, Options, Proxy, Server, Service, StartError, launch, wire};

/// An election takes a few heartbeats of an idle machine, and far more of a busy one.
const ELECTION_LIMIT: Duration = Duration::from_secs(60);

/// One ensemble a process at a time: many servers that start and elect at once take each other's processor, and then each
/// other for dead.
static TURN: Mutex<()> = Mutex::const_new(());

/// An etcd cluster or a ZooKeeper ensemble of processes of this machine, each a [`Server`] that can be frozen, killed and restarted
/// by itself. What the members say to each other passes proxies, so that they can be cut off from each other while clients
/// reach all of them. It ends as its servers do. A process has one at a time: the next start waits for the end of the last.
#[derive(Debug)]
pub struct Ensemble {
    servers: Vec<Server>,
    links: Links,
    /// Declared last: given back when the servers have ended.
    _turn: MutexGuard<'static, ()>,
}

/// The proxies between members. ZooKeeper's members may each have their own view of the others; etcd's compare theirs, so
/// that all of them reach one member by the same way.
#[derive(Debug)]
enum Links {
    /// By who connects and to whom.
    Each(HashMap<(usize, usize), Proxy>),
    /// By to whom.
    Into(Vec<Proxy>),
}

impl Ensemble {
    /// Starts `size` servers and returns when all of them serve.
    ///
    /// # Errors
    ///
    /// [`StartError::Absent`] when the service is not installed, or is none that elects a leader; [`StartError::Failed`] when a
    /// member does not serve in time.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends what was started.
    pub async fn start(service: Service, size: usize) -> Result<Self, StartError> {
        if !matches!(service, Service::Etcd | Service::Zookeeper) {
            return Err(Absent::new(service, "its servers elect no leader among themselves").into());
        }
        let turn = TURN.lock().await;
        let launcher = launch::find(service).map_err(|reason| Absent::new(service, reason))?;
        let no_place = |error: io::Error| FailedStart::new(service, format!("no place to start it in: {error}"));
        let ports = (0..size).map(|_| MemberPorts::reserve()).collect::<io::Result<Vec<_>>>().map_err(no_place)?;
        let links = Links::start(service, &ports).await.map_err(no_place)?;
        let views: Vec<Member> = (0..size).map(|me| links.view(me, &ports)).collect();
        let mut starting = JoinSet::new();
        for (member, ports) in views.into_iter().zip(ports) {
            let (launcher, options) = (Arc::clone(&launcher), Options::new().native_only());
            starting.spawn(async move {
                let me = member.me;
                let started = Native::start_member(service, launcher, options, ports.0.into(), member).await;
                started.map(|(native, version)| (me, Server::of_ensemble(service, native, version)))
            });
        }
        let mut servers = Vec::with_capacity(size);
        while let Some(started) = starting.join_next().await {
            servers.push(started.map_err(|panic| FailedStart::new(service, panic.to_string()))??);
        }
        servers.sort_by_key(|(me, _)| *me);
        Ok(Self { servers: servers.into_iter().map(|(_, server)| server).collect(), links, _turn: turn })
    }

    /// Starts three servers, or `None` after saying why not on stderr, unless `LOCKYARD_REQUIRE` names the service.
    ///
    /// # Errors
    ///
    /// As [`Ensemble::start`], but [`StartError::Absent`] only for a required service.
    ///
    /// # Cancel safety
    ///
    /// As [`Ensemble::start`].
    pub async fn three_or_skip(service: Service) -> Result<Option<Self>, StartError> {
        crate::require::or_skip(service, Self::start(service, 3).await)
    }

    /// The members.
    #[must_use]
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// The URL by which a lock backend is opened with all members to choose from.
    #[must_use]
    pub fn lock_url(&self) -> String {
        let hosts: Vec<String> = self.servers.iter().map(|server| server.addr().to_string()).collect();
        let scheme = self.servers.first().map_or("", |server| server.service().lock_scheme());
        format!("{scheme}://{}", hosts.join(","))
    }

    /// Which member leads, asked until one says so; `None` when none does within a minute times the time factor.
    ///
    /// # Cancel safety
    ///
    /// Only asks.
    pub async fn leader(&self) -> Option<usize> {
        eventually(ELECTION_LIMIT, || async {
            for (at, server) in self.servers.iter().enumerate() {
                if leads(server).await.unwrap_or(false) {
                    return Some(at);
                }
            }
            None
        })
        .await
    }

    /// The way from one member to another. Of etcd it is the way from all others to `to`.
    #[must_use]
    pub fn link(&self, from: usize, to: usize) -> Option<&Proxy> {
        match &self.links {
            Links::Each(links) => links.get(&(from, to)),
            Links::Into(links) => links.get(to),
        }
    }
}

/// For clients, for other members, and for elections.
struct MemberPorts([Port; 3]);

impl MemberPorts {
    fn reserve() -> io::Result<Self> {
        Ok(Self([Port::reserve()?, Port::reserve()?, Port::reserve()?]))
    }

    fn peer(&self) -> Peer {
        Peer { port: self.0[1].number(), election: self.0[2].number() }
    }

    fn peer_addr(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.peer().port).into()
    }
}

impl Links {
    async fn start(service: Service, ports: &[MemberPorts]) -> io::Result<Self> {
        if service == Service::Etcd {
            let mut links = Vec::new();
            for to in ports {
                links.push(Proxy::start(to.peer_addr()).await?);
            }
            return Ok(Self::Into(links));
        }
        let mut links = HashMap::new();
        for (at, to) in ports.iter().enumerate() {
            for from in (0..ports.len()).filter(|from| *from != at) {
                links.insert((from, at), Proxy::start(to.peer_addr()).await?);
            }
        }
        Ok(Self::Each(links))
    }

    /// How member `me` reaches all of them.
    fn view(&self, me: usize, ports: &[MemberPorts]) -> Member {
        let peer = |to: usize| {
            let direct = ports[to].peer();
            let link = match self {
                Self::Each(links) => links.get(&(me, to)),
                Self::Into(links) => links.get(to),
            };
            Peer { port: link.map_or(direct.port, |proxy| proxy.addr().port()), ..direct }
        };
        Member { me, peers: (0..ports.len()).map(peer).collect() }
    }
}

async fn leads(server: &Server) -> io::Result<bool> {
    match server.service() {
        Service::Etcd => Ok(wire::http_get(server.addr(), "/metrics").await?.contains("\netcd_server_is_leader 1")),
        _ => Ok(wire::four_letters(server.addr(), "srvr").await?.contains("Mode: leader")),
    }
}
