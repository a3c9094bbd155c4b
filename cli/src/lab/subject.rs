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

    /// As [`Subject::of`]; a server that is started keeps its locks over a restart.
    #[cfg(feature = "lab")]
    pub(super) async fn for_chaos(candidate: &Candidate) -> Result<Self, NoHarness> {
        match candidate {
            #[cfg(feature = "redis")]
            Candidate { kind: Kind::Redis, url: None, .. } => {
                let kept = ["--appendonly", "yes", "--appendfsync", "always"];
                let options = lockyard_testbed::Options::new().args(kept);
                let harness = lockyard_redis::testing::RedisHarness::start_with(options).await?;
                Ok(Self::Redis(Arc::new(harness)))
            }
            _ => Self::of(candidate).await,
        }
    }

    /// The server, when it was started here and may be broken.
    #[cfg(feature = "lab")]
    pub(super) fn own_server(&self) -> Option<&lockyard_testbed::Server> {
        let server = match self {
            #[cfg(feature = "redis")]
            Self::Redis(harness) => harness.server(),
            #[cfg(feature = "postgres")]
            Self::Postgres(harness) => harness.server(),
            #[cfg(feature = "etcd")]
            Self::Etcd(harness) => harness.server(),
            #[cfg(feature = "zookeeper")]
            Self::Zookeeper(harness) => harness.server(),
            #[allow(unreachable_patterns, reason = "with one feature on, nothing may be left")]
            _ => None,
        };
        server.filter(|server| !server.is_joined())
    }

    /// The URL of what is no server that was started here: the folder of the files, the server of the environment.
    #[cfg(feature = "lab")]
    pub(super) fn place(&self) -> Option<String> {
        let service = match self {
            #[cfg(feature = "file")]
            Self::File(harness) => return Some(harness.url()),
            #[cfg(feature = "redis")]
            Self::Redis(_) => lockyard_testbed::Service::Redis,
            #[cfg(feature = "postgres")]
            Self::Postgres(_) => lockyard_testbed::Service::Postgres,
            #[cfg(feature = "etcd")]
            Self::Etcd(_) => lockyard_testbed::Service::Etcd,
            #[cfg(feature = "zookeeper")]
            Self::Zookeeper(_) => lockyard_testbed::Service::Zookeeper,
            #[allow(unreachable_patterns, reason = "with one feature on, nothing may be left")]
            _ => return None,
        };
        std::env::var(service.env_var()).ok()
    }

    /// The namespace of the harness, where it has one of its own.
    #[cfg(feature = "lab")]
    pub(super) fn namespace(&self) -> Option<String> {
        match self {
            #[cfg(feature = "redis")]
            Self::Redis(harness) => Some(harness.namespace().to_string()),
            #[cfg(feature = "postgres")]
            Self::Postgres(harness) => Some(harness.namespace().to_string()),
            #[cfg(feature = "etcd")]
            Self::Etcd(harness) => Some(harness.namespace().to_string()),
            #[cfg(feature = "zookeeper")]
            Self::Zookeeper(harness) => Some(harness.namespace().to_string()),
            #[allow(unreachable_patterns, reason = "with one feature on, nothing may be left")]
            _ => None,
        }
    }

    /// Ends the sessions of a process at the server, or the one that its claim rests on: whichever the server can be asked for.
    #[cfg(feature = "lab")]
    pub(super) async fn end_session_of(&self, _pid: u32, _claim: &lockyard::Claim) {
        match self {
            #[cfg(feature = "postgres")]
            Self::Postgres(harness) => harness.end_sessions_of(_pid).await,
            #[cfg(feature = "etcd")]
            Self::Etcd(harness) => harness.end_session_of(_claim).await,
            #[cfg(feature = "zookeeper")]
            Self::Zookeeper(harness) => harness.end_session_of(_claim).await,
            #[allow(unreachable_patterns, reason = "with one feature on, nothing may be left")]
            _ => {}
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
