//! Locks of others on the same servers, measured in the same trials: what people compare with.
//!
//! Each stands behind the two traits of a floor's side, so that it is measured as lockyard is, and against the same floor.
//! What its figures do not show stands in its notes.

mod etcd;
mod postgres;
mod redis;
mod zookeeper;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lockyard_testbed::Server;

use crate::report::Backend;
use crate::side::Side;
use crate::target::Target;
use crate::{Clients, Machine, Names, Scenario};

/// The ttl of all peers that have one: as ours.
const TTL: Duration = Duration::from_secs(30);

/// A lock of somebody else, on the server of a target.
pub(crate) struct Peer {
    pub(crate) id: &'static str,
    version: &'static str,
    notes: &'static [&'static str],
    /// How long a waiter of it may sleep before it looks again; zero when it is told.
    pub(crate) poll: Duration,
    /// Opens clients at a server.
    pub(crate) side: fn(&Server) -> Arc<dyn Side>,
    /// The mode of ours that shares its server, and so its floor.
    beside: &'static str,
}

const PEERS: [Peer; 7] = [
    Peer {
        id: "peer:rslock",
        version: "0.10",
        notes: &[
            "waiters ask again after 0 to 200 ms, without an order, for ever, and errors are not told",
            "sends an unlock after every try that failed",
            "no tokens, and nothing renews a hold",
        ],
        poll: Duration::from_millis(200),
        side: redis::rslock,
        beside: "redis",
    },
    Peer {
        id: "peer:distributed-lock-redis",
        version: "0.2",
        notes: &[
            "does not wait, whatever the timeout: a loop of ours tries every 50 ms",
            "no order, no tokens; sends its whole script each time; the first renewal is sent at once",
        ],
        poll: Duration::from_millis(50),
        side: redis::distributed_lock,
        beside: "redis",
    },
    Peer {
        id: "peer:distributed-lock-postgres",
        version: "0.2",
        notes: &[
            "dropped without release it leaks the lock: the session goes back to the pool with it",
            "its signal that a lock was lost never fires; no tokens",
            "a session for each hold and each waiter, 10 at most for a client",
        ],
        poll: Duration::ZERO,
        side: postgres::distributed_lock,
        beside: "postgres-advisory",
    },
    Peer {
        id: "peer:sqlx-advisory",
        version: "0.9",
        notes: &["a connection for each hold and each waiter; nothing tells that a lock was lost; no tokens"],
        poll: Duration::ZERO,
        side: postgres::sqlx_advisory,
        beside: "postgres-advisory",
    },
    Peer {
        id: "peer:ash-lock",
        version: "0.1",
        notes: &[
            "waiters ask again after 100 ms to 1.6 s, without an order, for one ttl",
            "every try grants a lease and revokes it: three writes to the disk",
        ],
        poll: Duration::from_millis(200),
        side: etcd::ash_lock,
        beside: "etcd",
    },
    Peer {
        id: "peer:etcd-client",
        version: "0.21",
        notes: &[
            "the lock service of etcd, under a lease granted in advance; nobody renews it or tells that it ended",
            "a wait that is given up stays at the server until its lease ends",
        ],
        poll: Duration::ZERO,
        side: etcd::lock_service,
        beside: "etcd",
    },
    Peer {
        id: "peer:zookeeper-client",
        version: "0.11",
        notes: &["release is not awaited: it can only be dropped, so a cycle waits for two of its three requests"],
        poll: Duration::ZERO,
        side: zookeeper::recipe,
        beside: "zookeeper",
    },
];

/// The peers that can be measured beside this target: those of a server that the testbed started.
pub(crate) fn of(target: &Target) -> impl Iterator<Item = (&'static Peer, Arc<Server>)> {
    let server = target.server.as_ref().filter(|server| !server.is_joined()).map(Arc::clone);
    let id = target.id.clone();
    server.into_iter().flat_map(move |server| {
        let peers = PEERS.iter().filter({
            let id = id.clone();
            move |peer| peer.beside == id
        });
        peers.map(move |peer| (peer, Arc::clone(&server)))
    })
}

impl Peer {
    /// Whether it is measured in this scenario.
    pub(crate) const fn runs(scenario: Scenario) -> bool {
        matches!(
            scenario,
            Scenario::Uncontended(Names::Same, Machine::Idle)
                | Scenario::Parallel(8)
                | Scenario::Contended(8, Clients::Own)
                | Scenario::Handoff
                | Scenario::WaitingCost(_, 1)
        )
    }

    /// As the report names it.
    pub(crate) fn backend(&self, target: &Target) -> Backend {
        Backend {
            id: self.id.to_owned(),
            kind: target.kind.clone(),
            mode: "peer".to_owned(),
            version: self.version.to_owned(),
            topology: target.topology.clone(),
            settings: BTreeMap::new(),
            capabilities: BTreeMap::new(),
            round_trip_us: None,
            notes: self.notes.iter().map(|note| (*note).to_owned()).collect(),
        }
    }
}

#[cfg(test)]
mod tests;
