//! Which server.

use std::fmt;
use std::str::FromStr;

/// A kind of server that the testbed can start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Service {
    /// Redis, a single server.
    Redis,
    /// PostgreSQL, a single primary.
    Postgres,
    /// etcd, a cluster of one.
    Etcd,
    /// Apache ZooKeeper, standalone.
    Zookeeper,
}

impl Service {
    /// Every service, in the order in which reports name them.
    pub const ALL: [Self; 4] = [Self::Redis, Self::Postgres, Self::Etcd, Self::Zookeeper];

    /// The name in test names, reports and `LOCKYARD_REQUIRE`: `redis`, `postgres`, `etcd`, `zookeeper`.
    #[must_use]
    pub const fn id(self) -> &'static str {
        match self {
            Self::Redis => "redis",
            Self::Postgres => "postgres",
            Self::Etcd => "etcd",
            Self::Zookeeper => "zookeeper",
        }
    }

    /// The environment variable whose URL is joined instead of starting a server.
    #[must_use]
    pub const fn env_var(self) -> &'static str {
        match self {
            Self::Redis => "LOCKYARD_REDIS_URL",
            Self::Postgres => "LOCKYARD_POSTGRES_URL",
            Self::Etcd => "LOCKYARD_ETCD_URL",
            Self::Zookeeper => "LOCKYARD_ZOOKEEPER_URL",
        }
    }

    /// How to install the server on Debian and Ubuntu.
    #[must_use]
    pub const fn install_hint(self) -> &'static str {
        match self {
            Self::Redis => "apt-get install redis-server",
            Self::Postgres => "apt-get install postgresql",
            Self::Etcd => "apt-get install etcd-server",
            Self::Zookeeper => "apt-get install zookeeper libslf4j-java default-jre-headless",
        }
    }

    /// The port the service listens on where a URL names none.
    #[must_use]
    pub const fn default_port(self) -> u16 {
        match self {
            Self::Redis => 6379,
            Self::Postgres => 5432,
            Self::Etcd => 2379,
            Self::Zookeeper => 2181,
        }
    }

    /// The scheme of the lock URLs of this service.
    pub(crate) const fn lock_scheme(self) -> &'static str {
        match self {
            Self::Redis => "redis",
            Self::Postgres => "postgres",
            Self::Etcd => "etcd",
            Self::Zookeeper => "zk",
        }
    }
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.id())
    }
}

impl FromStr for Service {
    type Err = String;

    fn from_str(id: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|service| service.id() == id)
            .ok_or_else(|| format!("unknown service {id:?}: expected redis, postgres, etcd or zookeeper"))
    }
}
