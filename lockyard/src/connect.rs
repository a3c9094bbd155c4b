//! From a URL to a backend.

use std::sync::Arc;

use lockyard_api::{
    DistributedLock, Error, FencedRegister, GarbageCollect, LockUrl, Locker, LockerBuilder, Operation, Result,
};

/// The backends that a URL can name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Scheme {
    /// `memory:` – locks of this process.
    Memory,
    /// `file:` – locks of this host.
    File,
    /// `redis://`, `rediss://` and their topologies.
    Redis,
    /// `postgres://`, `postgresql://`.
    Postgres,
    /// `etcd://`, `etcds://`.
    Etcd,
    /// `zk://`, `zks://`, `zookeeper://`.
    Zookeeper,
}

impl Scheme {
    /// The backend that a URL names.
    ///
    /// # Errors
    /// `Config` when the URL cannot be taken apart or names none.
    pub fn of(url: &str) -> Result<Self> {
        let scheme = LockUrl::parse(url)?.scheme;
        match scheme.split('+').next().unwrap_or_default() {
            "memory" => Ok(Self::Memory),
            "file" => Ok(Self::File),
            "redis" | "rediss" => Ok(Self::Redis),
            "postgres" | "postgresql" => Ok(Self::Postgres),
            "etcd" | "etcds" => Ok(Self::Etcd),
            "zk" | "zks" | "zookeeper" => Ok(Self::Zookeeper),
            _ => Err(Error::config(format!(
                "unknown scheme {scheme:?}: a backend URL begins with redis:// postgres:// etcd:// zk:// file: or memory:"
            ))),
        }
    }

    /// The Cargo feature that compiles this backend in.
    #[must_use]
    pub const fn feature(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::File => "file",
            Self::Redis => "redis",
            Self::Postgres => "postgres",
            Self::Etcd => "etcd",
            Self::Zookeeper => "zookeeper",
        }
    }
}

/// Connects to the backend that the URL names.
///
/// The grammar, with the keys that all backends take (`namespace ttl connect_timeout op_timeout drift tls_ca tls_cert
/// tls_key`) and those of each, stands in the README.
///
/// # Errors
/// `Config` for a URL that is wrong, naming what and how to mend it, before any traffic; `Unsupported` for what is not
/// built in or not offered; `Auth`, `WrongServer`, `Unreachable` from the server.
///
/// # Cancel safety
/// Dropped, it leaves no connection behind.
pub async fn connect(url: &str) -> Result<Locker> {
    connect_with(url, |builder| builder).await
}

/// As [`connect`], with options of the [`Locker`] that no URL has.
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// let locks = lockyard::connect_with("memory:", |builder| builder.label("web-2")).await?;
/// # drop(locks); Ok::<(), lockyard::Error>(()) }).unwrap();
/// ```
///
/// # Errors
/// As [`connect`].
///
/// # Cancel safety
/// As [`connect`].
pub async fn connect_with(url: &str, configure: impl FnOnce(LockerBuilder) -> LockerBuilder) -> Result<Locker> {
    let options = LockUrl::parse(url)?.options()?;
    let backend = connect_backend(url).await?;
    configure(Locker::over(backend).options(&options)).build()
}

/// The backend alone, without the front end: for authors and for the conformance suite.
///
/// # Errors
/// As [`connect`].
///
/// # Cancel safety
/// As [`connect`].
pub async fn connect_backend(url: &str) -> Result<Arc<dyn DistributedLock>> {
    let scheme = Scheme::of(url)?;
    let result = match scheme {
        #[cfg(feature = "memory")]
        Scheme::Memory => memory(url),
        #[cfg(feature = "file")]
        Scheme::File => file(url).await,
        #[cfg(feature = "redis")]
        Scheme::Redis => redis(url).await,
        #[cfg(feature = "postgres")]
        Scheme::Postgres => postgres(url).await,
        #[cfg(feature = "etcd")]
        Scheme::Etcd => etcd(url).await,
        #[cfg(feature = "zookeeper")]
        Scheme::Zookeeper => zookeeper(url).await,
        #[allow(unreachable_patterns, reason = "with all features on, nothing is left")]
        other => Err(not_built_in(other)),
    };
    result.map_err(|error| error.with_operation(Operation::Connect))
}

/// Connects to the fenced registers of the service that the URL names: by the same URL as the locks, and over connections
/// of its own.
///
/// ```
/// use lockyard::{FencedRegister, LockName, Write};
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// let url = "memory://shop"; // or redis:// postgres:// etcd:// zk:// file:
/// let (locks, register) = (lockyard::connect(url).await?, lockyard::connect_register(url).await?);
/// let guard = locks.acquire("report:daily").await?;
/// let (name, token) = (LockName::new("report:daily")?, guard.fencing_token().expect("memory has tokens"));
/// let found = register.read(&name).await?;
/// match register.write(&name, b"page 1", token, found.version).await? {
///     Write::Written { .. } => {}
///     Write::StaleToken { stored } => println!("lost to the holder with token {stored}"),
///     other => println!("somebody else writes under this token: {other:?}"),
/// }
/// # guard.release().await?; Ok::<(), lockyard::Error>(()) }).unwrap();
/// ```
///
/// # Errors
/// As [`connect`].
///
/// # Cancel safety
/// As [`connect`].
pub async fn connect_register(url: &str) -> Result<Arc<dyn FencedRegister>> {
    let scheme = Scheme::of(url)?;
    let result = match scheme {
        #[cfg(feature = "memory")]
        Scheme::Memory => memory_register(url),
        #[cfg(feature = "file")]
        Scheme::File => file_register(url).await,
        #[cfg(feature = "redis")]
        Scheme::Redis => redis_register(url).await,
        #[cfg(feature = "postgres")]
        Scheme::Postgres => postgres_register(url).await,
        #[cfg(feature = "etcd")]
        Scheme::Etcd => etcd_register(url).await,
        #[cfg(feature = "zookeeper")]
        Scheme::Zookeeper => zookeeper_register(url).await,
        #[allow(unreachable_patterns, reason = "with all features on, nothing is left")]
        other => Err(not_built_in(other)),
    };
    result.map_err(|error| error.with_operation(Operation::Connect))
}

/// Connects to what removes unused names at the service that the URL names.
///
/// ```
/// use std::time::Duration;
/// use lockyard::{GarbageCollect, Unused};
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// # let directory = std::env::temp_dir().join(format!("lockyard-gc-doc-{}", std::process::id()));
/// # let url = format!("file://{}", directory.display());
/// let garbage = lockyard::connect_garbage(&url).await?; // redis:// postgres:// etcd:// zk:// file:
/// let month = Duration::from_secs(30 * 24 * 3600);
/// let collected = garbage.collect(&Unused::for_at_least(month).with_prefix("job:")).await?;
/// println!("{} names removed, {} in use", collected.removed.len(), collected.in_use);
/// # std::fs::remove_dir_all(directory).ok(); Ok::<(), lockyard::Error>(()) }).unwrap();
/// ```
///
/// # Errors
/// As [`connect`]; `Unsupported` for locks in memory, which end with their process.
///
/// # Cancel safety
/// As [`connect`].
pub async fn connect_garbage(url: &str) -> Result<Arc<dyn GarbageCollect>> {
    let scheme = Scheme::of(url)?;
    let result: Result<Arc<dyn GarbageCollect>> = match scheme {
        Scheme::Memory => Err(Error::unsupported("locks in memory end with their process: nothing is left to remove")),
        #[cfg(feature = "file")]
        Scheme::File => shared(lockyard_file::FileLock::connect(lockyard_file::FileConfig::from_url(url)?).await),
        #[cfg(feature = "redis")]
        Scheme::Redis => shared(lockyard_redis::RedisLock::connect(lockyard_redis::RedisConfig::from_url(url)?).await),
        #[cfg(feature = "postgres")]
        Scheme::Postgres => {
            shared(lockyard_postgres::PostgresLock::connect(lockyard_postgres::PostgresConfig::from_url(url)?).await)
        }
        #[cfg(feature = "etcd")]
        Scheme::Etcd => shared(lockyard_etcd::EtcdLock::connect(lockyard_etcd::EtcdConfig::from_url(url)?).await),
        #[cfg(feature = "zookeeper")]
        Scheme::Zookeeper => shared(lockyard_zk::ZkLock::connect(lockyard_zk::ZkConfig::from_url(url)?).await),
        #[allow(unreachable_patterns, reason = "with all features on, nothing is left")]
        other => Err(not_built_in(other)),
    };
    result.map_err(|error| error.with_operation(Operation::Connect))
}

#[allow(dead_code, reason = "with all features on, nothing is left out")]
fn shared<T: GarbageCollect>(connected: Result<T>) -> Result<Arc<dyn GarbageCollect>> {
    Ok(Arc::new(connected?))
}

#[allow(dead_code, reason = "with all features on, nothing is left out")]
fn not_built_in(scheme: Scheme) -> Error {
    let feature = scheme.feature();
    Error::unsupported(format!("this build has no {feature} backend: build it with --features {feature}"))
}

#[cfg(feature = "memory")]
fn memory(url: &str) -> Result<Arc<dyn DistributedLock>> {
    let namespace = LockUrl::parse(url)?.options()?.namespace;
    let config = lockyard_memory::MemoryConfig::from_url(url)?;
    Ok(Arc::new(config.connect(namespace)))
}

#[cfg(feature = "file")]
async fn file(url: &str) -> Result<Arc<dyn DistributedLock>> {
    let config = lockyard_file::FileConfig::from_url(url)?;
    Ok(Arc::new(lockyard_file::FileLock::connect(config).await?))
}

#[cfg(feature = "redis")]
async fn redis(url: &str) -> Result<Arc<dyn DistributedLock>> {
    let config = lockyard_redis::RedisConfig::from_url(url)?;
    Ok(Arc::new(lockyard_redis::RedisLock::connect(config).await?))
}

#[cfg(feature = "postgres")]
async fn postgres(url: &str) -> Result<Arc<dyn DistributedLock>> {
    let config = lockyard_postgres::PostgresConfig::from_url(url)?;
    Ok(Arc::new(lockyard_postgres::PostgresLock::connect(config).await?))
}

#[cfg(feature = "etcd")]
async fn etcd(url: &str) -> Result<Arc<dyn DistributedLock>> {
    let config = lockyard_etcd::EtcdConfig::from_url(url)?;
    Ok(Arc::new(lockyard_etcd::EtcdLock::connect(config).await?))
}

#[cfg(feature = "zookeeper")]
async fn zookeeper(url: &str) -> Result<Arc<dyn DistributedLock>> {
    let config = lockyard_zk::ZkConfig::from_url(url)?;
    Ok(Arc::new(lockyard_zk::ZkLock::connect(config).await?))
}

#[cfg(feature = "memory")]
fn memory_register(url: &str) -> Result<Arc<dyn FencedRegister>> {
    let namespace = LockUrl::parse(url)?.options()?.namespace;
    let config = lockyard_memory::MemoryConfig::from_url(url)?;
    Ok(Arc::new(config.server().register(namespace)))
}

#[cfg(feature = "file")]
async fn file_register(url: &str) -> Result<Arc<dyn FencedRegister>> {
    let config = lockyard_file::FileConfig::from_url(url)?;
    Ok(Arc::new(lockyard_file::FileRegister::connect(config).await?))
}

#[cfg(feature = "redis")]
async fn redis_register(url: &str) -> Result<Arc<dyn FencedRegister>> {
    let config = lockyard_redis::RedisConfig::from_url(url)?;
    Ok(Arc::new(lockyard_redis::RedisRegister::connect(config).await?))
}

#[cfg(feature = "postgres")]
async fn postgres_register(url: &str) -> Result<Arc<dyn FencedRegister>> {
    let config = lockyard_postgres::PostgresConfig::from_url(url)?;
    Ok(Arc::new(lockyard_postgres::PostgresRegister::connect(config).await?))
}

#[cfg(feature = "etcd")]
async fn etcd_register(url: &str) -> Result<Arc<dyn FencedRegister>> {
    let config = lockyard_etcd::EtcdConfig::from_url(url)?;
    Ok(Arc::new(lockyard_etcd::EtcdRegister::connect(config).await?))
}

#[cfg(feature = "zookeeper")]
async fn zookeeper_register(url: &str) -> Result<Arc<dyn FencedRegister>> {
    let config = lockyard_zk::ZkConfig::from_url(url)?;
    Ok(Arc::new(lockyard_zk::ZkRegister::connect(config).await?))
}
