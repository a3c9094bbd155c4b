//! How a client finds its servers, and how it behaves.

use std::fmt;
use std::time::Duration;

use lockyard_api::{Error, Host, LockUrl, Namespace, Options, Result};

/// The port that etcd serves clients on unless told otherwise.
const PORT: u16 = 2379;

/// The settings of an [`EtcdLock`](crate::EtcdLock).
#[derive(Clone)]
#[non_exhaustive]
pub struct EtcdConfig {
    pub(crate) hosts: Vec<Host>,
    pub(crate) tls: bool,
    pub(crate) login: Option<(String, String)>,
    pub(crate) prefix: String,
    pub(crate) options: Options,
    pub(crate) watch_linger: Duration,
}

impl EtcdConfig {
    /// The settings for a server at this host and port, without TLS and login, everything else by default.
    #[must_use]
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        Self {
            hosts: vec![Host::new(host, Some(port))],
            tls: false,
            login: None,
            prefix: String::new(),
            options: Options::default(),
            watch_linger: Duration::from_secs(3),
        }
    }

    /// The settings that a URL names: `etcd://[user:password@]host[:2379][,host…][/prefix][?key=value&…]`, with TLS
    /// `etcds://` (then `tls_ca` names the authority that signed the server's certificate).
    ///
    /// Query keys are the common ones alone ([`Options::KEYS`]).
    ///
    /// # Errors
    /// `Config`, saying what is wrong and what would be right, without the password.
    pub fn from_url(url: &str) -> Result<Self> {
        let mut url = LockUrl::parse(url)?;
        let tls = match url.scheme.as_str() {
            "etcd" => false,
            "etcds" => true,
            other => return Err(Error::config(format!("{other}:// is no etcd URL: write etcd:// or etcds://"))),
        };
        if url.hosts.is_empty() {
            return Err(Error::config("an etcd URL names at least one host: etcd://host:2379/prefix"));
        }
        let options = url.options()?;
        url.finish(&[])?;
        if !tls && !options.tls.is_empty() {
            return Err(Error::config("tls_ca, tls_cert and tls_key need TLS: write etcds:// instead of etcd://"));
        }
        if tls && options.tls.ca.is_none() {
            return Err(Error::config(
                "etcds:// needs tls_ca=FILE: the certificate of the authority that signed the server's certificate",
            ));
        }
        if options.tls.cert.is_some() != options.tls.key.is_some() {
            return Err(Error::config("tls_cert and tls_key belong together: name both or neither"));
        }
        let login = match (url.user.take(), url.password.take()) {
            (None, None) => None,
            (Some(user), Some(password)) => Some((user, password)),
            (Some(user), None) => {
                return Err(Error::config(format!("user {user:?} has no password: write etcd://{user}:PASSWORD@…")));
            }
            (None, Some(_)) => {
                return Err(Error::config("a password needs a user: write etcd://USER:PASSWORD@…"));
            }
        };
        let prefix = url.path.trim_matches('/').to_owned();
        let hosts = std::mem::take(&mut url.hosts);
        Ok(Self { hosts, tls, login, prefix, options, ..Self::new("", PORT) })
    }

    /// The same settings with one more member of the cluster to turn to.
    #[must_use]
    pub fn and_host(mut self, host: impl Into<String>, port: u16) -> Self {
        self.hosts.push(Host::new(host, Some(port)));
        self
    }

    /// The same settings with this login.
    #[must_use]
    pub fn login(mut self, user: impl Into<String>, password: impl Into<String>) -> Self {
        self.login = Some((user.into(), password.into()));
        self
    }

    /// The same settings with keys below this prefix.
    #[must_use]
    pub fn prefix(mut self, prefix: impl AsRef<str>) -> Self {
        prefix.as_ref().trim_matches('/').clone_into(&mut self.prefix);
        self
    }

    /// The same settings in this namespace.
    #[must_use]
    pub fn namespace(mut self, namespace: Namespace) -> Self {
        self.options.namespace = namespace;
        self
    }

    /// The same settings with these common options.
    #[must_use]
    pub fn with_options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// How long the watch of a name is kept after its last waiter: 3 s unless set.
    ///
    /// Longer: a name that is waited for again finds its watch open and saves two requests, but every release of the
    /// name by anybody is told to this client for that long. Shorter: the reverse.
    #[must_use]
    pub fn watch_linger(mut self, time: Duration) -> Self {
        self.watch_linger = time;
        self
    }

    /// The common options.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.options
    }

    pub(crate) fn endpoints(&self) -> Vec<String> {
        let scheme = if self.tls { "https" } else { "http" };
        self.addresses().iter().map(|address| format!("{scheme}://{address}")).collect()
    }

    pub(crate) fn addresses(&self) -> Vec<String> {
        self.hosts.iter().map(|host| host.with_default_port(PORT)).collect()
    }

    /// The servers as messages name them.
    pub(crate) fn servers(&self) -> String {
        self.addresses().join(", ")
    }
}

impl fmt::Debug for EtcdConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdConfig")
            .field("servers", &self.servers())
            .field("tls", &self.tls)
            .field("user", &self.login.as_ref().map(|(user, _)| user))
            .field("prefix", &self.prefix)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use lockyard_api::ErrorKind;

    use super::*;

    #[test]
    fn a_url_names_servers_login_and_prefix() {
        let config = EtcdConfig::from_url("etcd://me:s%40crt@h1,h2:9/a/b/?namespace=shop").expect("a URL");
        assert_eq!(config.endpoints(), ["http://h1:2379", "http://h2:9"]);
        assert_eq!(config.login, Some(("me".to_owned(), "s@crt".to_owned())));
        assert_eq!((config.prefix.as_str(), config.options.namespace.as_str()), ("a/b", "shop"));
        assert!(!format!("{config:?}").contains("s@crt"));
        let secure = EtcdConfig::from_url("etcds://h?tls_ca=/ca.pem").expect("a URL");
        assert_eq!(secure.endpoints(), ["https://h:2379"]);
    }

    #[test]
    fn a_wrong_url_says_what_would_be_right() {
        for (url, word) in [
            ("redis://h", "etcd://"),
            ("etcd:///x", "host"),
            ("etcd://h?tls_ca=x", "etcds://"),
            ("etcds://h", "tls_ca"),
            ("etcds://h?tls_ca=x&tls_key=y", "tls_cert"),
            ("etcd://me@h", "password"),
            ("etcd://:secret@h", "user"),
            ("etcd://h?fair=true", "fair"),
        ] {
            let error = EtcdConfig::from_url(url).expect_err(url);
            assert_eq!(error.kind(), ErrorKind::Config, "{url}");
            assert!(error.message().contains(word) && !error.message().contains("secret"), "{url}: {error}");
        }
    }
}
