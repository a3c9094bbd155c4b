//! What a client is opened with.

use std::fmt;
use std::time::Duration;

use lockyard_api::{Clock, Error, Host, LockUrl, Namespace, Options, Result, TlsFiles};

/// The port of a server whose URL names none.
const PORT: u16 = 6379;
/// The query keys that only Redis URLs have.
const KEYS: &[&str] = &["fair", "min_replicas", "quorum", "token"];

/// How to reach a Redis server, and under which names its locks live.
///
/// ```
/// use lockyard_redis::RedisConfig;
/// let config = RedisConfig::from_url("redis://app:s3cret@db:6380/2?namespace=shop")?;
/// assert!(!format!("{config:?}").contains("s3cret"));
/// # Ok::<(), lockyard_api::Error>(())
/// ```
#[derive(Clone)]
#[must_use]
pub struct RedisConfig {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) db: i64,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) tls: Option<TlsFiles>,
    pub(crate) namespace: Namespace,
    pub(crate) connect_timeout: Duration,
    pub(crate) op_timeout: Duration,
    pub(crate) clock: Clock,
}

impl RedisConfig {
    /// The server at this host and port, database 0, without credentials and TLS.
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        let options = Options::default();
        Self {
            host: host.into(),
            port,
            db: 0,
            user: None,
            password: None,
            tls: None,
            namespace: options.namespace,
            connect_timeout: options.connect_timeout,
            op_timeout: options.op_timeout,
            clock: options.clock,
        }
    }

    /// Reads `redis[s]://[user[:password]@]host[:port][/db][?key=value…]`.
    ///
    /// # Errors
    /// `Config` for what is no such URL and for unknown keys; `Unsupported` for Sentinel, Cluster and quorum URLs and for
    /// the options `fair=false` and `min_replicas`, which this version understands but does not offer.
    pub fn from_url(url: &str) -> Result<Self> {
        let mut url = LockUrl::parse(url)?;
        let options = url.options()?;
        let tls = match url.scheme.as_str() {
            "redis" => None,
            "rediss" => Some(options.tls.clone()),
            _ => return Err(other_topology(&mut url)),
        };
        if tls.is_none() && !options.tls.is_empty() {
            return Err(Error::config("tls_ca, tls_cert and tls_key need TLS: write rediss:// instead of redis://"));
        }
        if url.take_bool("fair")? == Some(false) {
            return Err(Error::unsupported("fair=false is not offered yet: leave it out, waiters then queue in order"));
        }
        refuse_min_replicas(&mut url)?;
        url.finish(KEYS)?;
        let host = only_host(&url)?;
        Ok(Self {
            host: host.name.clone(),
            port: host.port.unwrap_or(PORT),
            db: database(&url.path)?,
            user: url.user.clone(),
            password: url.password.clone(),
            tls,
            namespace: options.namespace,
            connect_timeout: options.connect_timeout,
            op_timeout: options.op_timeout,
            clock: options.clock,
        })
    }

    /// The number of the database. Two databases share no locks.
    pub const fn db(mut self, db: u32) -> Self {
        self.db = db as i64;
        self
    }

    /// The password, and the user of the access control list it belongs to (`None`: the default user).
    pub fn credentials(mut self, user: Option<&str>, password: &str) -> Self {
        self.user = user.map(str::to_owned);
        self.password = Some(password.to_owned());
        self
    }

    /// TLS, with these files; with none of them the usual authorities are trusted.
    pub fn tls(mut self, files: TlsFiles) -> Self {
        self.tls = Some(files);
        self
    }

    /// Where the names live; `lockyard` unless given. Empty: the lock key is the bare name, which lets other programs share
    /// it, and then the name `a:b` is also the name `b` of the namespace `a`.
    pub fn namespace(mut self, namespace: Namespace) -> Self {
        self.namespace = namespace;
        self
    }

    /// How long connecting may take: 5 s unless given. Longer: a start without its server hangs longer. Shorter: a slow
    /// network is taken for a dead server.
    pub const fn connect_timeout(mut self, time: Duration) -> Self {
        self.connect_timeout = time;
        self
    }

    /// How long one call may take before its outcome is unknown: 5 s unless given. Longer: a dead connection is noticed
    /// later. Shorter: a slow server is taken for a dead one. Keep it below a third of the shortest ttl.
    pub const fn op_timeout(mut self, time: Duration) -> Self {
        self.op_timeout = time;
        self
    }

    /// The clock that deadlines are computed from; the system's unless given.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// `host:port`, for messages.
    pub(crate) fn address(&self) -> String {
        Host::new(self.host.clone(), Some(self.port)).with_default_port(self.port)
    }
}

impl fmt::Debug for RedisConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisConfig")
            .field("address", &self.address())
            .field("db", &self.db)
            .field("user", &self.user)
            .field("password", &self.password.as_ref().map(|_| "***"))
            .field("tls", &self.tls)
            .field("namespace", &self.namespace)
            .field("connect_timeout", &self.connect_timeout)
            .field("op_timeout", &self.op_timeout)
            .finish_non_exhaustive()
    }
}

/// Why a URL of another scheme is not taken: its mistakes first, then that this version does not offer it.
fn other_topology(url: &mut LockUrl) -> Error {
    let topology = match url.scheme.as_str() {
        "redis+sentinel" | "rediss+sentinel" => "Sentinel",
        "redis+cluster" | "rediss+cluster" => "Cluster",
        "redis+redlock" | "rediss+redlock" => "a quorum of independent servers (Redlock)",
        other => return Error::config(format!("{other:?} is no scheme of Redis: write redis:// or rediss://")),
    };
    for key in KEYS {
        url.take(key);
    }
    if let Err(error) = url.finish(KEYS) {
        return error;
    }
    if url.hosts.is_empty() {
        return Error::config(format!("a {} URL names its servers: {}://h1,h2", url.scheme, url.scheme));
    }
    Error::unsupported(format!("{topology} is not offered yet: name one primary by redis://host"))
}

fn refuse_min_replicas(url: &mut LockUrl) -> Result<()> {
    match url.take_number::<u32>("min_replicas")? {
        None | Some(0) => Ok(()),
        Some(_) => Err(Error::unsupported(
            "min_replicas is not offered yet: leave it out, and set min-replicas-to-write at the server",
        )),
    }
}

fn only_host(url: &LockUrl) -> Result<Host> {
    match url.hosts.as_slice() {
        [] => Ok(Host::new("127.0.0.1", None)),
        [host] => Ok(host.clone()),
        [..] => Err(Error::config(
            "redis:// names one server; several are redis+sentinel://, redis+cluster:// or redis+redlock://",
        )),
    }
}

fn database(path: &str) -> Result<i64> {
    match path.trim_start_matches('/') {
        "" => Ok(0),
        number => number.parse::<u32>().map(i64::from).map_err(|_| {
            Error::config(format!("the path /{number} is no database: write its number, such as /0, or leave it out"))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockyard_api::ErrorKind;

    #[test]
    fn a_url_says_everything() {
        let config = RedisConfig::from_url("rediss://app:s%40crt@db:6380/2?namespace=&op_timeout=2s&tls_ca=/ca.pem")
            .expect("a good URL");
        assert_eq!((config.host.as_str(), config.port, config.db), ("db", 6380, 2));
        assert_eq!((config.user.as_deref(), config.password.as_deref()), (Some("app"), Some("s@crt")));
        assert_eq!((config.op_timeout, config.namespace.as_str()), (Duration::from_secs(2), ""));
        assert!(!format!("{config:?}").contains("s@crt"));
        let bare = RedisConfig::from_url("redis://").expect("all defaults");
        assert_eq!((bare.address().as_str(), bare.db), ("127.0.0.1:6379", 0));
        assert_eq!(RedisConfig::from_url("redis://[::1]:7").expect("IPv6").address(), "[::1]:7");
    }

    #[test]
    fn what_is_wrong_is_said_with_what_to_write() {
        for (url, kind, word) in [
            ("redis://h?nmespace=x", ErrorKind::Config, "namespace"),
            ("redis://h?quorum=2", ErrorKind::Config, "does not apply"),
            ("redis://h/x", ErrorKind::Config, "database"),
            ("redis://h1,h2", ErrorKind::Config, "redis+sentinel"),
            ("redis://h?tls_ca=x", ErrorKind::Config, "rediss://"),
            ("redis://h?fair=perhaps", ErrorKind::Config, "true or false"),
            ("valkey://h", ErrorKind::Config, "redis://"),
            ("redis://h?fair=false", ErrorKind::Unsupported, "fair"),
            ("redis://h?min_replicas=1", ErrorKind::Unsupported, "min_replicas"),
            ("redis+sentinel://h1,h2/service/3", ErrorKind::Unsupported, "Sentinel"),
            // B66
            ("rediss+cluster://h1,h2", ErrorKind::Unsupported, "Cluster"),
            ("redis+redlock://h1,h2,h3?quorum=2&token=write-back", ErrorKind::Unsupported, "Redlock"),
            ("redis+redlock://h1?quorom=2", ErrorKind::Config, "quorum"),
        ] {
            let error = RedisConfig::from_url(url).expect_err(url);
            assert_eq!(error.kind(), kind, "{url}: {error}");
            assert!(error.message().contains(word), "{url}: {error}");
        }
    }
}
