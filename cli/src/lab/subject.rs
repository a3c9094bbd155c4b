//! A backend under test: the harness of its own crate, started here or joined by its URL.

use std::sync::Arc;

use lockyard_conformance::{Harness, NoHarness};

use super::targets::{Candidate, Kind};

/// A harness, and what has to be done with it at the end.
pub(super) enum Subject {
    #[cfg(feature = "memory")]
    Memory(Arc<lockyard_memory::testing::MemoryHarness>),
    #[cfg(feature = "file")]
    File(Arc<lockyard_file::testing::FileHarness>),
    #[cfg(feature = "redis")]
    Redis(Arc<lockyard_redis::testing::RedisHarness>),
    #[cfg(feature = "postgres")]
    Postgres(Arc<lockyard_postgres::testing::PostgresHarness>),
    #[cfg(feature = "etcd")]
    Etcd(Arc<lockyard_etcd::testing::EtcdHarness>),
    #[cfg(feature = "zookeeper")]
    Zookeeper(Arc<lockyard_zk::testing::ZkHarness>),
}

impl Subject {
    /// Starts the candidate's server, or joins it.
    pub(super) async fn of(candidate: &Candidate) -> Result<Self, NoHarness> {
        let url = candidate.url.as_deref();
        match candidate.kind {
            #[cfg(feature = "memory")]
            Kind::Memory => {
                use lockyard_memory::{MemoryLiveness, testing::MemoryHarness};
                let harness = MemoryHarness::new(lockyard::Queueing::Fifo, MemoryLiveness::Lease);
                Ok(Self::Memory(Arc::new(harness)))
            }
            #[cfg(feature = "file")]
            Kind::File => match lockyard_file::testing::FileHarness::new() {
                Ok(harness) => Ok(Self::File(Arc::new(harness))),
                Err(error) => Err(NoHarness::failed(format!("no temporary directory: {error}"))),
            },
            #[cfg(feature = "redis")]
            Kind::Redis => {
                use lockyard_redis::testing::RedisHarness;
                let harness = match url {
                    Some(url) => RedisHarness::join(url).await?,
                    None => RedisHarness::start().await?,
                };
                Ok(Self::Redis(Arc::new(harness)))
            }
            #[cfg(feature = "postgres")]
            Kind::Postgres(mode) => {
                use lockyard_postgres::testing::PostgresHarness;
                let mode = postgres_mode(mode);
                let harness = match url {
                    Some(url) => PostgresHarness::join(url, mode).await?,
                    None => PostgresHarness::start(mode).await?,
                };
                Ok(Self::Postgres(Arc::new(harness)))
            }
            #[cfg(feature = "etcd")]
            Kind::Etcd => {
                use lockyard_etcd::testing::EtcdHarness;
                let harness = match url {
                    Some(url) => EtcdHarness::join(url).await?,
                    None => EtcdHarness::start().await?,
                };
                Ok(Self::Etcd(Arc::new(harness)))
            }
            #[cfg(feature = "zookeeper")]
            Kind::Zookeeper => {
                use lockyard_zk::testing::ZkHarness;
                let harness = match url {
                    Some(url) => ZkHarness::join(url)?,
                    None => ZkHarness::start().await?,
                };
                Ok(Self::Zookeeper(Arc::new(harness)))
            }
            #[allow(unreachable_patterns, reason = "with all features on, nothing is left")]
            other => Err(NoHarness::failed(format!("this build has no {} backend", other.server()))),
        }
    }

    pub(super) fn harness(&self) -> Arc<dyn Harness> {
        match self {
            #[cfg(feature = "memory")]
            Self::Memory(harness) => shared(harness),
            #[cfg(feature = "file")]
            Self::File(harness) => shared(harness),
            #[cfg(feature = "redis")]
            Self::Redis(harness) => shared(harness),
            #[cfg(feature = "postgres")]
            Self::Postgres(harness) => shared(harness),
            #[cfg(feature = "etcd")]
            Self::Etcd(harness) => shared(harness),
            #[cfg(feature = "zookeeper")]
            Self::Zookeeper(harness) => shared(harness),
        }
    }

    /// Opens clients in the harness's namespace, straight to the server. `None` where there is no server.
    #[cfg(feature = "lab")]
    pub(super) fn connector(&self) -> Option<lockyard_benches::Connect> {
        use super::measuring::configured;
        match self {
            #[cfg(feature = "redis")]
            Self::Redis(harness) => Some(configured(harness.config(), lockyard_redis::RedisLock::connect)),
            #[cfg(feature = "postgres")]
            Self::Postgres(harness) => Some(configured(harness.config(), lockyard_postgres::PostgresLock::connect)),
            #[cfg(feature = "etcd")]
            Self::Etcd(harness) => Some(configured(harness.config().clone(), lockyard_etcd::EtcdLock::connect)),
            #[cfg(feature = "zookeeper")]
            Self::Zookeeper(harness) => Some(configured(harness.config().clone(), lockyard_zk::ZkLock::connect)),
            #[allow(unreachable_patterns, reason = "with one feature on, nothing may be left")]
            _ => None,
        }
    }

    /// Removes what was left in the harness's namespace: the server may be somebody else's.
    pub(super) async fn clean(&self) -> lockyard::Result<()> {
        match self {
            #[cfg(feature = "redis")]
            Self::Redis(harness) => harness.clean_up().await,
            #[cfg(feature = "postgres")]
            Self::Postgres(harness) => harness.clean_up().await,
            #[cfg(feature = "etcd")]
            Self::Etcd(harness) => harness.clean_up().await,
            #[cfg(feature = "zookeeper")]
            Self::Zookeeper(harness) => harness.clean().await,
            #[allow(unreachable_patterns, reason = "with one feature on, nothing may be left")]
            _ => Ok(()),
        }
    }
}

fn shared<H: Harness>(harness: &Arc<H>) -> Arc<dyn Harness> {
    Arc::<H>::clone(harness)
}

#[cfg(feature = "postgres")]
const fn postgres_mode(mode: super::targets::PostgresMode) -> lockyard_postgres::Mode {
    use super::targets::PostgresMode;
    match mode {
        PostgresMode::Advisory => lockyard_postgres::Mode::Advisory,
        PostgresMode::Row => lockyard_postgres::Mode::Row,
        PostgresMode::Lease => lockyard_postgres::Mode::Lease,
    }
}
