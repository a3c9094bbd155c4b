//! Where a run takes place: the server, what may be broken there, and what it promises.

use std::io;
use std::time::Duration;

use lockyard::{Capabilities, Claim, LivenessKind, LockName, Owner};
use lockyard_conformance::NoHarness;
use lockyard_conformance::history::{FaultKind, Rules};
use lockyard_testbed::{Proxy, Server};

use super::super::subject::Subject;
use super::super::targets::{Candidate, Kind, PostgresMode};
use crate::source::add_query;

/// How long a call of the clients waits for an answer.
const OP_TIMEOUT: Duration = Duration::from_secs(1);

/// What can be done to every client, wherever its server is.
const OF_CLIENTS: [FaultKind; 2] = [FaultKind::ClientFrozen, FaultKind::ClientKilled];
/// What can be done to a client's way to a server of ours.
const OF_LINKS: [FaultKind; 6] = [
    FaultKind::LinkHeld,
    FaultKind::RequestsDropped,
    FaultKind::RepliesDropped,
    FaultKind::LinkCut,
    FaultKind::RepliesSwallowed,
    FaultKind::LinkDelayed,
];
/// What can be done to a server of ours.
const OF_SERVERS: [FaultKind; 2] = [FaultKind::ServerFrozen, FaultKind::ServerRestarted];

/// The place of a run.
pub(super) struct Site {
    subject: Subject,
    /// The URL of a place that is not a server of ours.
    joined: Option<String>,
    query: String,
    pub(super) promises: Capabilities,
    pub(super) rules: Rules,
    /// The lease that is granted for the ttl asked for.
    pub(super) granted: Duration,
    /// What may be broken here.
    pub(super) offered: Vec<FaultKind>,
}

impl Site {
    /// Starts the candidate's server, or joins it, and asks what it promises.
    pub(super) async fn of(candidate: &Candidate, ttl: Duration, allow_faults: bool) -> Result<Self, NoHarness> {
        if candidate.kind == Kind::Memory {
            return Err(NoHarness::skip("locks in memory live in one process, and chaos is made of several"));
        }
        let subject = Subject::for_chaos(candidate).await?;
        let joined = match (&candidate.url, subject.own_server()) {
            (Some(url), _) => Some(url.clone()),
            (None, Some(_)) => None,
            (None, None) => Some(subject.place().ok_or_else(|| NoHarness::failed("the server has no URL"))?),
        };
        let mut url = joined.clone().or_else(|| Some(subject.own_server()?.lock_url())).unwrap_or_default();
        let query = query(candidate.kind, ttl, subject.namespace());
        let query = query.iter().fold(String::new(), |mut text, (key, value)| {
            add_query(&mut url, key, value);
            add_query(&mut text, key, value);
            text
        });
        let locks = lockyard::connect(&url).await?;
        let promises = locks.capabilities().clone();
        let guard = locks.acquire("chaos").await?;
        let granted = guard.ttl().unwrap_or(ttl);
        guard.release().await?;
        let mut rules = Rules::of(&promises, granted, OP_TIMEOUT);
        if candidate.kind == Kind::Redis && joined.is_none() {
            rules.keep_over_restart();
        }
        let offered = offered(candidate, &promises, joined.is_none(), allow_faults);
        Ok(Self { subject, joined, query, promises, rules, granted, offered })
    }

    /// The URL of a new client, through a proxy of its own where the server is ours.
    pub(super) async fn way(&self) -> io::Result<(String, Option<Proxy>)> {
        let (mut url, proxy) = match (&self.joined, self.subject.own_server()) {
            (Some(url), _) => (url.clone(), None),
            (None, Some(server)) => {
                let proxy = Proxy::start(server.addr()).await?;
                (server.lock_url_via(proxy.addr()), Some(proxy))
            }
            (None, None) => return Err(io::ErrorKind::NotFound.into()),
        };
        // The query begins with a question mark, unless the URL has one already.
        let query = self.query.trim_start_matches('?');
        url.push(if url.contains('?') { '&' } else { '?' });
        url.push_str(query);
        Ok((url, proxy))
    }

    pub(super) fn server(&self) -> Option<&Server> {
        self.subject.own_server()
    }

    /// How long a name may stay closed to a client when nothing is broken any more.
    pub(super) fn recovery(&self) -> Duration {
        let recheck = self.promises.recheck.max(self.granted);
        self.granted + self.promises.slack + recheck + lockyard_conformance::scaled(Duration::from_secs(5))
    }

    /// The claim of a client, as the server knows it.
    fn claim(&self, name: &str, owner: &str) -> Option<Claim> {
        Some(Claim::new(LockName::new(name).ok()?, self.granted).with_owner(Owner::parse(owner)?))
    }

    /// Removes a hold by hand. Whether it was still there is for the history to say.
    pub(super) async fn revoke(&self, name: &str, owner: &str) {
        if let Some(claim) = self.claim(name, owner) {
            let _made = self.subject.harness().revoke(&claim).await;
        }
    }

    /// Ends the session of a holder at the server, in the process `pid`.
    pub(super) async fn end_session(&self, pid: u32, name: &str, owner: &str) {
        if let Some(claim) = self.claim(name, owner) {
            self.subject.end_session_of(pid, &claim).await;
        }
    }

    /// How many claims the server still has on a name, where that can be told.
    pub(super) async fn entries(&self, name: &str) -> Option<usize> {
        self.subject.harness().entries(&LockName::new(name).ok()?).await
    }

    /// Removes what is left on a server of others.
    pub(super) async fn clean(&self) -> lockyard::Result<()> {
        self.subject.clean().await
    }
}

fn query(kind: Kind, ttl: Duration, namespace: Option<String>) -> Vec<(&'static str, String)> {
    let mut query = vec![("ttl", format!("{}ms", ttl.as_millis()))];
    query.extend(namespace.map(|namespace| ("namespace", namespace)));
    if let Kind::Postgres(mode) = kind {
        query.push(("lock", mode.as_str().to_owned()));
    }
    query.extend(
        [("op_timeout", OP_TIMEOUT), ("connect_timeout", OP_TIMEOUT * 2)]
            .map(|(key, time)| (key, format!("{}ms", time.as_millis()))),
    );
    query
}

fn offered(candidate: &Candidate, promises: &Capabilities, ours: bool, allow_faults: bool) -> Vec<FaultKind> {
    let mut offered = Vec::new();
    if ours || candidate.kind == Kind::File || allow_faults {
        offered.extend(OF_CLIENTS);
    }
    if ours {
        offered.extend(OF_LINKS);
        offered.extend(OF_SERVERS);
        // The lease table of Postgres lives over sessions as well, and has to outlive them.
        if promises.liveness == LivenessKind::Session || matches!(candidate.kind, Kind::Postgres(_)) {
            offered.push(FaultKind::SessionEnded);
        }
        // Nobody but its own session can give a lock of a session back on Postgres.
        if !matches!(candidate.kind, Kind::Postgres(PostgresMode::Advisory | PostgresMode::Row)) {
            offered.push(FaultKind::Revoked);
        }
    }
    offered
}
