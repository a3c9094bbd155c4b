//! How to reach ZooKeeper, and with what.

use std::fmt;
use std::time::Duration;

use lockyard_api::{Error, ErrorKind, Host, LockUrl, Options, Result};
use zookeeper_client::{Acls, Client};

use crate::node::Base;

const DEFAULT_PORT: u16 = 2181;
const SCHEMES: &str = "zk://host:2181,host2/chroot or zookeeper://…";

/// Who may use the nodes that a client makes (<https://zookeeper.apache.org/doc/current/zookeeperProgrammers.html#sc_ZooKeeperAccessControl>).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ZkAcl {
    /// Everybody: `acl=world`, the default. Anybody who reaches the server can take and delete locks.
    #[default]
    World,
    /// Only who has the same credentials: `acl=creator`. All clients of a lock need the same user and password.
    Creator,
}

impl ZkAcl {
    pub(crate) const fn acls(self) -> Acls<'static> {
        match self {
            Self::World => Acls::anyone_all(),
            Self::Creator => Acls::creator_all(),
        }
    }
}

/// The configuration of a [`ZkLock`](crate::ZkLock).
///
/// ```
/// use lockyard_zk::ZkConfig;
/// let config = ZkConfig::from_url("zk://zk1,zk2:2182/apps?namespace=shop&ttl=10s")?;
/// assert!(ZkConfig::from_url("zk://zk1?aclx=world").is_err());
/// # let _ = config;
/// # Ok::<(), lockyard_api::Error>(())
/// ```
#[derive(Clone)]
pub struct ZkConfig {
    pub(crate) hosts: Vec<Host>,
    pub(crate) chroot: String,
    pub(crate) credentials: Option<(String, String)>,
    pub(crate) acl: ZkAcl,
    pub(crate) options: Options,
}

impl ZkConfig {
    /// One or several servers of one ensemble, everything else as by default.
    #[must_use]
    pub fn new(hosts: impl IntoIterator<Item = Host>) -> Self {
        Self {
            hosts: hosts.into_iter().collect(),
            chroot: String::new(),
            credentials: None,
            acl: ZkAcl::default(),
            options: Options::default(),
        }
    }

    /// Reads `zk://[user:password@]host[:2181][,host…][/chroot][?acl=world|creator&…]`.
    ///
    /// # Errors
    /// `Config` for what is no such URL, `Unsupported` for `zks://`.
    pub fn from_url(url: &str) -> Result<Self> {
        let mut url = LockUrl::parse(url)?;
        match url.scheme.as_str() {
            "zk" | "zookeeper" => {}
            "zks" => return Err(no_tls()),
            other => return Err(Error::config(format!("{other}:// is no ZooKeeper URL: write {SCHEMES}"))),
        }
        let options = url.options()?;
        if !options.tls.is_empty() {
            return Err(no_tls());
        }
        let acl = match url.take("acl").as_deref() {
            None | Some("world") => ZkAcl::World,
            Some("creator") => ZkAcl::Creator,
            Some(other) => return Err(Error::config(format!("acl={other}: write acl=world or acl=creator"))),
        };
        url.finish(&["acl"])?;
        let credentials = match (url.user, url.password) {
            (Some(user), Some(password)) => Some((user, password)),
            (None, None) => None,
            _ => return Err(Error::config("credentials are a user and a password: zk://user:password@host")),
        };
        Self { hosts: url.hosts, chroot: url.path, credentials, acl, options }.checked()
    }

    /// The directory that everything lies under, made when it is missing: `/apps`. The root unless given.
    #[must_use]
    pub fn with_chroot(mut self, chroot: impl Into<String>) -> Self {
        self.chroot = chroot.into();
        self
    }

    /// User and password for the scheme `digest`. ZooKeeper never refuses a wrong password by itself: it then is
    /// somebody else's, whom an ACL may not let in.
    #[must_use]
    pub fn with_credentials(mut self, user: impl Into<String>, password: impl Into<String>) -> Self {
        self.credentials = Some((user.into(), password.into()));
        self
    }

    /// Who may use the nodes that this client makes.
    #[must_use]
    pub fn with_acl(mut self, acl: ZkAcl) -> Self {
        self.acl = acl;
        self
    }

    /// Namespace, times and clock. `ttl` is the session timeout asked for; the server may grant another.
    #[must_use]
    pub fn with_options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// The shared options as they stand.
    #[must_use]
    pub const fn options(&self) -> &Options {
        &self.options
    }

    pub(crate) fn checked(self) -> Result<Self> {
        if self.hosts.is_empty() {
            return Err(Error::config(format!("a ZooKeeper URL names a server: {SCHEMES}")));
        }
        let bad = |part: &str| part.is_empty() || matches!(part, "." | "..") || part.chars().any(char::is_control);
        let chroot = self.chroot.trim_end_matches('/');
        if !chroot.is_empty() && (!chroot.starts_with('/') || chroot[1..].split('/').any(bad)) {
            return Err(Error::config(format!("chroot {:?} is no path: write /apps or /apps/locks", self.chroot)));
        }
        if chroot == "/zookeeper" || chroot.starts_with("/zookeeper/") {
            return Err(Error::config("chroot /zookeeper is the server's own directory: choose another"));
        }
        if self.acl == ZkAcl::Creator && self.credentials.is_none() {
            return Err(Error::config("acl=creator needs credentials: zk://user:password@host"));
        }
        let (ttl, max) = (self.options.ttl, Duration::from_millis(i32::MAX.unsigned_abs().into()));
        if ttl < Duration::from_millis(1) || ttl > max {
            let message = format!("ttl {ttl:?} is no session timeout: ZooKeeper takes 1 ms to {max:?}");
            return Err(Error::new(ErrorKind::InvalidTtl, message).not_applied());
        }
        Ok(self)
    }

    pub(crate) fn base(&self) -> Base {
        Base::new(&self.chroot, &self.options.namespace)
    }

    /// `host:port` of each server.
    pub(crate) fn addresses(&self) -> Vec<String> {
        self.hosts.iter().map(|host| host.with_default_port(DEFAULT_PORT)).collect()
    }

    /// How long a server may be silent before another is tried. The driver's own choice, 2/5 of the session, is longer
    /// than one operation when the session is long.
    pub(crate) fn silence(&self) -> Duration {
        let hosts = u32::try_from(self.hosts.len()).unwrap_or(u32::MAX);
        let share = self.options.connect_timeout / hosts.saturating_add(1);
        (self.options.ttl * 2 / 5).min(share.max(Duration::from_millis(1500)))
    }

    /// Opens a session; `Ok` when a server has granted one.
    pub(crate) async fn open(&self) -> Result<Client, zookeeper_client::Error> {
        let mut connector = Client::connector()
            .with_session_timeout(self.options.ttl)
            .with_connection_timeout(self.silence())
            .with_fail_eagerly();
        if let Some((user, password)) = &self.credentials {
            connector = connector.with_auth("digest", format!("{user}:{password}").as_bytes());
        }
        connector.connect(&self.addresses().join(",")).await
    }
}

impl fmt::Debug for ZkConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ZkConfig")
            .field("hosts", &self.addresses())
            .field("chroot", &self.chroot)
            .field("user", &self.credentials.as_ref().map(|(user, _)| user))
            .field("acl", &self.acl)
            .field("options", &self.options)
            .finish()
    }
}

fn no_tls() -> Error {
    Error::unsupported(
        "this build opens no TLS sessions to ZooKeeper: use zk:// on a trusted network, or a local TLS proxy such as stunnel",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read() {
        let config = ZkConfig::from_url("zookeeper://u:p%40ss@zk1,[::1]:7/apps/x?acl=creator&ttl=10s").expect("a URL");
        assert_eq!(config.addresses(), ["zk1:2181", "[::1]:7"]);
        assert_eq!(config.base().path(), "/apps/x/lockyard");
        assert_eq!((config.acl, config.options.ttl), (ZkAcl::Creator, Duration::from_secs(10)));
        assert!(!format!("{config:?}").contains("p@ss"), "{config:?}");
        assert_eq!(ZkConfig::from_url("zk://h/?namespace=").expect("a URL").base().path(), "/");
    }

    #[test]
    fn what_is_no_url_says_what_to_write() {
        for (url, kind, word) in [
            ("redis://h", ErrorKind::Config, "zk://"),
            ("zk:", ErrorKind::Config, "names a server"),
            ("zks://h", ErrorKind::Unsupported, "TLS"),
            ("zk://h?tls_ca=/x", ErrorKind::Unsupported, "TLS"),
            ("zk://h?acl=all", ErrorKind::Config, "acl=world"),
            ("zk://h?alc=world", ErrorKind::Config, "did you mean \"acl\""),
            ("zk://h?acl=creator", ErrorKind::Config, "credentials"),
            ("zk://u@h", ErrorKind::Config, "password"),
            ("zk://h/a//b", ErrorKind::Config, "chroot"),
            ("zk://h/a/..", ErrorKind::Config, "chroot"),
            ("zk://h/zookeeper/x", ErrorKind::Config, "server's own"),
            ("zk://h?ttl=30days", ErrorKind::InvalidTtl, "session timeout"),
        ] {
            let error = ZkConfig::from_url(url).expect_err(url);
            assert_eq!(error.kind(), kind, "{url}: {error}");
            assert!(error.message().contains(word), "{url}: {error}");
        }
    }
}
