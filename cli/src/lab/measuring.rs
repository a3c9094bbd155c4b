//! What is measured: each backend on a server of its own, or joined, with a server that counts beside it.

use std::collections::HashMap;
use std::sync::Arc;

use lockyard::{DistributedLock, ErrorKind, Owner};
use lockyard_benches::report::Skipped;
use lockyard_benches::{Connect, Target};
use lockyard_conformance::NoHarness;
use lockyard_testbed::{Options, Server, Service, StartError};
use tempfile::TempDir;

use super::subject::Subject;
use super::targets::{Candidate, Kind, PostgresMode};
use super::worker;
use crate::source::add_query;

/// The backends of a comparison, as long as it runs.
#[derive(Default)]
pub(super) struct Fleet {
    pub(super) targets: Vec<Target>,
    /// What cannot be compared here, with the reason and what would help.
    pub(super) skipped: Vec<Skipped>,
    servers: HashMap<Service, Servers>,
    /// Namespaces on servers of others, to be emptied.
    joined: Vec<Subject>,
    folders: Vec<TempDir>,
}

/// One server for times, one that counts requests: counting costs time.
#[derive(Clone)]
struct Servers {
    timed: Arc<Server>,
    counting: Option<Arc<Server>>,
}

impl Fleet {
    /// Starts or joins the server of a candidate.
    pub(super) async fn add(&mut self, candidate: &Candidate) {
        let made = match (candidate.kind, &candidate.url) {
            (Kind::Memory, None) => Ok(plain(candidate, &format!("memory://{}", Owner::random()))),
            (Kind::File, None) => self.folder(candidate),
            (_, Some(url)) => self.join(candidate, url).await,
            (kind, None) => self.start(candidate, kind).await,
        };
        match made {
            Ok(target) => match refusal(&target).await {
                Some(reason) => self.skipped.push(skipped(candidate, &reason, "")),
                None => self.targets.push(target),
            },
            Err(skipped) => self.skipped.push(skipped),
        }
    }

    /// Removes what was left on servers of others, and ends our own. Says what could not be removed.
    pub(super) async fn end(self) -> Vec<String> {
        let mut troubles = Vec::new();
        for subject in &self.joined {
            if let Err(error) = subject.clean().await {
                troubles.push(error.to_string());
            }
        }
        troubles
    }

    fn folder(&mut self, candidate: &Candidate) -> Result<Target, Skipped> {
        let folder = tempfile::tempdir().map_err(|error| skipped(candidate, &error.to_string(), ""))?;
        let target = plain(candidate, &format!("file:{}", folder.path().display()));
        self.folders.push(folder);
        Ok(target)
    }

    async fn start(&mut self, candidate: &Candidate, kind: Kind) -> Result<Target, Skipped> {
        let service: Service = kind.server().parse().map_err(|error: String| skipped(candidate, &error, ""))?;
        let servers = match self.servers.get(&service) {
            Some(servers) => servers.clone(),
            None => start(service).await.map_err(|error| absent(candidate, error))?,
        };
        self.servers.insert(service, servers.clone());
        if servers.timed.is_joined() {
            let target = self.join(candidate, &with_mode(servers.timed.lock_url(), kind)).await?;
            return Ok(target.with_server(servers.timed));
        }
        let url = with_mode(servers.timed.lock_url(), kind);
        let mut target = plain(candidate, &url).with_server(servers.timed);
        if let Some(counting) = servers.counting {
            let url = in_own_namespace(&with_mode(counting.lock_url(), kind));
            target = target.with_counted(counting, &url.clone(), connector(url));
        }
        Ok(target)
    }

    /// A server of somebody else: the clients live in the namespace that the harness made up and can empty.
    async fn join(&mut self, candidate: &Candidate, url: &str) -> Result<Target, Skipped> {
        let candidate = Candidate { url: Some(url.to_owned()), ..candidate.clone() };
        let subject = Subject::of(&candidate).await.map_err(|no| match no {
            NoHarness::Skip(reason) | NoHarness::Failed(reason) => skipped(&candidate, &reason, ""),
            _ => skipped(&candidate, "there is no harness", ""),
        })?;
        let mut target = plain(&candidate, url);
        if let Some(connect) = subject.connector() {
            target.connect = connect;
        }
        self.joined.push(subject);
        Ok(target)
    }
}

/// Why the backend cannot do what the URL asks for. Other troubles are for the measuring to find.
async fn refusal(target: &Target) -> Option<String> {
    let error = (target.connect)().await.err()?;
    (error.kind() == ErrorKind::Unsupported).then(|| error.message().to_owned())
}

async fn start(service: Service) -> Result<Servers, StartError> {
    // A server that is joined counts for nobody; one that does not start is no reason to measure nothing.
    let (timed, counting) =
        tokio::join!(Server::start(service), Server::start_with(service, Options::new().counting()));
    let timed = Arc::new(timed?);
    let counting = counting.ok().filter(|_| !timed.is_joined()).map(Arc::new);
    Ok(Servers { timed, counting })
}

/// The target of a URL, in a namespace that nobody else uses.
fn plain(candidate: &Candidate, url: &str) -> Target {
    let mode = match candidate.kind {
        Kind::Postgres(mode) => mode.as_str(),
        _ => "single",
    };
    let url = in_own_namespace(url);
    let target = Target::new(&candidate.id, candidate.kind.server(), mode, &url, connector(url.clone()));
    match worker::spawn() {
        // On a server of somebody else all clients share the connections and the namespace of the harness.
        Some(spawn) if candidate.url.is_none() => target.with_worker(spawn),
        _ => target,
    }
}

pub(super) fn connector(url: String) -> Connect {
    Arc::new(move || {
        let url = url.clone();
        Box::pin(async move { lockyard::connect_backend(&url).await })
    })
}

/// Opens clients of a configuration.
pub(super) fn configured<C, L, F>(config: C, open: fn(C) -> F) -> Connect
where
    C: Clone + Send + Sync + 'static,
    L: DistributedLock,
    F: Future<Output = lockyard::Result<L>> + Send + 'static,
{
    Arc::new(move || {
        let opening = open(config.clone());
        Box::pin(async move {
            let lock = opening.await?;
            Ok(Arc::new(lock) as Arc<dyn DistributedLock>)
        })
    })
}

fn in_own_namespace(url: &str) -> String {
    let mut url = url.to_owned();
    add_query(&mut url, "namespace", &format!("lockyard-compare-{}", Owner::random()));
    url
}

fn with_mode(mut url: String, kind: Kind) -> String {
    if let Kind::Postgres(mode) = kind {
        add_query(&mut url, "lock", mode.as_str());
        if mode == PostgresMode::Row {
            // A session for each hold: as many as the largest scenario has tasks of one client.
            add_query(&mut url, "max_sessions", "64");
        }
    }
    url
}

fn skipped(candidate: &Candidate, reason: &str, hint: &str) -> Skipped {
    Skipped::new(&candidate.id, reason, hint)
}

fn absent(candidate: &Candidate, error: StartError) -> Skipped {
    match error {
        StartError::Absent(absent) => skipped(candidate, &absent.reason, absent.hint),
        other => skipped(candidate, &other.to_string(), ""),
    }
}
