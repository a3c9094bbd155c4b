//! What is compared: a backend that can be connected to.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use lockyard_api::{DistributedLock, Error, LockUrl, Result};
use lockyard_testbed::Server;

use crate::worker::Spawn;
use crate::{Clients, Fault, Scenario};

/// A client that is being opened.
pub type Connecting = Pin<Box<dyn Future<Output = Result<Arc<dyn DistributedLock>>> + Send>>;

/// Opens a new client, with a session of its own, at each call.
pub type Connect = Arc<dyn Fn() -> Connecting + Send + Sync>;

/// One backend of a comparison. Cheap to clone.
#[derive(Clone)]
#[non_exhaustive]
pub struct Target {
    /// `redis`, `postgres-advisory`, `postgres-row`, `postgres-lease`, `etcd`, `zookeeper`, `memory`, `file`.
    pub id: String,
    /// The server: `redis`, `postgres`, `etcd`, `zookeeper`, `memory`, `file`. Decides the floor.
    pub kind: String,
    /// Which of the kind's ways to lock: `advisory`, `row`, `lease`, `single`, …
    pub mode: String,
    /// The URL, with a namespace that nobody else uses; the floor puts its own things there too.
    pub url: String,
    /// How the server stands: `single server on this machine`, `joined`, `in this process`.
    pub topology: String,
    /// The server behind the URL, where the testbed started it.
    pub server: Option<Arc<Server>>,
    /// Opens a client of that URL.
    pub connect: Connect,
    /// The same backend on a server that counts requests, for `waiting_cost`: counting costs time, so times are measured
    /// elsewhere. Targets that share one are counted one after the other, others at the same time.
    pub counted: Option<Counted>,
    /// How a client is started in a process of its own, for what needs several or breaks one.
    pub worker: Option<Spawn>,
}

/// A server that counts its requests, and how to open clients of it.
#[derive(Clone)]
#[non_exhaustive]
pub struct Counted {
    /// Started with [`lockyard_testbed::Options::counting`].
    pub server: Arc<Server>,
    /// Its URL, with a namespace that nobody else uses.
    pub url: String,
    /// Opens a client of it.
    pub connect: Connect,
}

impl Target {
    /// A target without a server that could be asked for anything; add what there is.
    #[must_use]
    pub fn new(id: &str, kind: &str, mode: &str, url: &str, connect: Connect) -> Self {
        let in_process = matches!(kind, "memory" | "file");
        let topology = if in_process { "in this process, no server" } else { "joined by its URL" };
        Self {
            id: id.to_owned(),
            kind: kind.to_owned(),
            mode: mode.to_owned(),
            url: url.to_owned(),
            topology: topology.to_owned(),
            server: None,
            connect,
            counted: None,
            worker: None,
        }
    }

    /// The target with the server that the testbed started for it.
    #[must_use]
    pub fn with_server(mut self, server: Arc<Server>) -> Self {
        if !server.is_joined() {
            "one server of its own, on this machine".clone_into(&mut self.topology);
        }
        self.server = Some(server);
        self
    }

    /// The target with a server that counts.
    #[must_use]
    pub fn with_counted(mut self, server: Arc<Server>, url: &str, connect: Connect) -> Self {
        self.counted = Some(Counted { server, url: url.to_owned(), connect });
        self
    }

    /// The target with a way to start its clients in processes of their own: a command that runs [`serve`](crate::serve)
    /// over the backend of the URL it is made for.
    #[must_use]
    pub fn with_worker(mut self, spawn: Spawn) -> Self {
        self.worker = Some(spawn);
        self
    }

    /// Whether there is a server, and so a bare driver to compare with.
    #[must_use]
    pub fn has_server(&self) -> bool {
        !matches!(self.kind.as_str(), "memory" | "file")
    }

    /// Whether a scenario makes sense here.
    pub(crate) fn runs(&self, scenario: Scenario) -> bool {
        match scenario {
            // It has no backend; the runner measures it once, beside the targets.
            Scenario::Noop => false,
            Scenario::WaitingCost(..) => self.has_server(),
            _ => true,
        }
    }

    /// Why a scenario cannot be measured here, though others can be there.
    pub(crate) fn refusal(&self, scenario: Scenario) -> Option<String> {
        let reason = match scenario {
            Scenario::Contended(_, Clients::Spread(_)) | Scenario::Takeover(_) if self.kind == "memory" => {
                "locks in memory live in one process"
            }
            Scenario::HoldCost(_) if self.mode == "row" => "a session for each hold: nobody holds so many",
            Scenario::Connections(_) if !self.has_server() => "there is no server to connect to",
            Scenario::Failover if !self.has_server() => "there is no server that could crash",
            Scenario::Takeover(Fault::Frozen) if self.kind == "file" => {
                "the kernel keeps the lock of a process that is stopped (expires_hung: no)"
            }
            Scenario::Takeover(Fault::CutOff) if self.kind == "file" => "there is no connection that could be cut",
            Scenario::Takeover(_) | Scenario::Failover if self.has_server() && !self.is_ours() => {
                "nothing is broken at a server that was joined"
            }
            Scenario::Contended(_, Clients::Spread(_)) | Scenario::WaitingCost(_, 2..) | Scenario::Takeover(_)
                if self.worker.is_none() =>
            {
                "clients in other processes cannot be started here"
            }
            _ => return None,
        };
        Some(format!("n.a.: {reason}"))
    }

    /// Whether the testbed started the server for this.
    fn is_ours(&self) -> bool {
        self.server.as_ref().is_some_and(|server| !server.is_joined())
    }

    /// The URL taken apart, and its namespace.
    pub(crate) fn parsed(&self) -> Result<(LockUrl, String)> {
        let mut url = LockUrl::parse(&self.url)?;
        let namespace = url.options()?.namespace;
        if url.hosts.is_empty() {
            return Err(Error::config(format!("the URL of {} names no host", self.id)));
        }
        Ok((url, namespace.as_str().to_owned()))
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let server = self.server.as_ref().map(|server| server.service());
        f.debug_struct("Target")
            .field("id", &self.id)
            .field("mode", &self.mode)
            .field("server", &server)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counted").field("server", &self.server.service()).finish_non_exhaustive()
    }
}
