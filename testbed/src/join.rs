//! Servers of others, joined by a URL of the environment.

use std::io;
use std::net::SocketAddr;

use crate::Service;
use crate::ready::Contact;

/// A URL, taken apart as far as asking the server needs it.
pub(crate) struct Joined {
    url: String,
    service: Service,
}

impl std::fmt::Debug for Joined {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Joined").field("service", &self.service).finish_non_exhaustive()
    }
}

impl Joined {
    pub(crate) fn new(service: Service, url: String) -> Self {
        Self { url, service }
    }

    /// The URL as the client library of the service takes it.
    pub(crate) fn url(&self) -> String {
        let (scheme, rest) = self.split();
        match (self.service, scheme) {
            (Service::Etcd, "etcds" | "https") => format!("https://{rest}"),
            (Service::Etcd, _) => format!("http://{rest}"),
            (Service::Zookeeper, _) => rest.to_owned(),
            _ => self.url.clone(),
        }
    }

    /// The URL as a lock is opened by it.
    pub(crate) fn lock_url(&self) -> String {
        let (scheme, rest) = self.split();
        match (self.service, scheme) {
            (Service::Etcd, "https") => format!("etcds://{rest}"),
            (Service::Etcd, "http" | "") => format!("etcd://{rest}"),
            (Service::Zookeeper, "") => format!("zk://{rest}"),
            _ => self.url.clone(),
        }
    }

    /// Whether the plain protocols of the testbed can ask this server; it speaks no TLS.
    pub(crate) fn is_plain(&self) -> bool {
        !matches!(self.split().0, "rediss" | "https" | "etcds" | "zks")
    }

    /// Finds the first host of the URL.
    pub(crate) async fn contact(&self) -> io::Result<Contact> {
        let parts = Parts::of(self.split().1);
        let addr = first_address(parts.host, self.service.default_port()).await?;
        let mut contact = Contact::new(self.service, addr);
        contact.user = parts.user.map(str::to_owned);
        contact.password = parts.password.map(str::to_owned);
        contact.database = parts.path.map(str::to_owned);
        Ok(contact)
    }

    fn split(&self) -> (&str, &str) {
        self.url.split_once("://").unwrap_or(("", &self.url))
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Parts<'a> {
    user: Option<&'a str>,
    password: Option<&'a str>,
    host: &'a str,
    path: Option<&'a str>,
}

impl<'a> Parts<'a> {
    /// Of `[user[:password]@]host[:port][,host…][/path][?query]`.
    fn of(rest: &'a str) -> Self {
        let rest = rest.split(['?', '#']).next().unwrap_or_default();
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (login, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (user, password) = login.split_once(':').unwrap_or((login, ""));
        let some = |text: &'a str| (!text.is_empty()).then_some(text);
        Self {
            user: some(user),
            password: some(password),
            host: hosts.split(',').next().unwrap_or_default(),
            path: some(path),
        }
    }
}

async fn first_address(host: &str, default_port: u16) -> io::Result<SocketAddr> {
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let host = if has_port { host.to_owned() } else { format!("{host}:{default_port}") };
    tokio::net::lookup_host(&host)
        .await?
        .next()
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("{host} has no address")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart() {
        let parts = Parts::of("me:se:cret@h1:1,h2:2/db?x=y");
        assert_eq!(parts, Parts { user: Some("me"), password: Some("se:cret"), host: "h1:1", path: Some("db") });
        assert_eq!(Parts::of("h"), Parts { user: None, password: None, host: "h", path: None });
    }

    #[test]
    fn each_reader_gets_its_scheme() {
        let etcd = Joined::new(Service::Etcd, "etcd://h:1".into());
        assert_eq!((etcd.url(), etcd.lock_url()), ("http://h:1".into(), "etcd://h:1".into()));
        let secure = Joined::new(Service::Etcd, "https://h:1".into());
        assert_eq!(
            (secure.url(), secure.lock_url(), secure.is_plain()),
            ("https://h:1".into(), "etcds://h:1".into(), false)
        );
        let zk = Joined::new(Service::Zookeeper, "zk://h:1/root".into());
        assert_eq!((zk.url(), zk.lock_url()), ("h:1/root".into(), "zk://h:1/root".into()));
    }

    #[test]
    fn debug_shows_no_password() {
        let joined = Joined::new(Service::Redis, "redis://:secret@h".into());
        assert!(!format!("{joined:?}").contains("secret"));
    }
}
