//! The floors: what the bare drivers cost for the work of each mode. Uncontended and in parallel it draws the token that the
//! mode promises; contended it is the best push of the server, with a token or without.
//!
//! | mode | uncontended, parallel | contended, handoff |
//! |---|---|---|
//! | redis | the acquire and release scripts | the same scripts, subscribed |
//! | postgres-advisory | prepared try that draws a token, and unlock; parallel on 4 sessions | blocking `pg_advisory_lock`, a session each |
//! | postgres-row | `BEGIN; SELECT … FOR UPDATE SKIP LOCKED` that draws a token, and `COMMIT`, two flights | blocking `FOR UPDATE`, a session each |
//! | postgres-lease | the two statements | the two statements and `NOTIFY` |
//! | etcd | transaction and delete under a lease held in advance | a standing watch, a get after the predecessor's delete |
//! | zookeeper | create, list, delete, awaited | the same and a watch on the predecessor |

mod etcd;
mod postgres;
mod redis;
mod zookeeper;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;

use crate::Target;
use crate::side::{Contender, Outcome, Side, Trouble};

/// The bare driver.
#[async_trait]
pub(crate) trait Floor: Side {
    /// What the server's settings are that decide about cost and durability.
    async fn settings(&self) -> Outcome<BTreeMap<String, String>>;

    /// Another way to lock that people compare with, and its name.
    async fn beside(&self) -> Outcome<Option<(&'static str, Box<dyn Contender>)>> {
        Ok(None)
    }

    /// Removes what the floor left at the server.
    async fn finish(&self) -> Outcome<()> {
        Ok(())
    }
}

/// The floor of a target; `None` where there is no server.
pub(crate) fn of(target: &Target) -> Outcome<Option<Arc<dyn Floor>>> {
    if !target.has_server() {
        return Ok(None);
    }
    let (url, namespace) = target.parsed()?;
    let scheme = url.scheme.as_str();
    if !matches!(scheme, "redis" | "postgres" | "postgresql" | "etcd" | "zk" | "zookeeper") {
        return Err(Trouble::new(format!("there is no bare driver to compare with for {scheme}:// URLs")));
    }
    let floor: Arc<dyn Floor> = match (target.kind.as_str(), target.mode.as_str()) {
        ("redis", _) => Arc::new(redis::RedisFloor::new(&url, &namespace)?),
        ("postgres", mode) => Arc::new(postgres::PostgresFloor::new(&url, &namespace, mode)?),
        ("etcd", _) => Arc::new(etcd::EtcdFloor::new(&url, &namespace)),
        ("zookeeper", _) => Arc::new(zookeeper::ZookeeperFloor::new(&url, &namespace)),
        (kind, mode) => return Err(Trouble::new(format!("there is no floor for {kind} {mode}"))),
    };
    Ok(Some(floor))
}

#[cfg(test)]
mod tests;
