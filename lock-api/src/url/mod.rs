//! Backend URLs: one grammar for all backends.
//!
//! Comma lists of hosts are no URLs by the general rules, so the authority is taken apart here.

mod options;
mod parse;

use std::fmt;

pub use options::{Options, TlsFiles};

use crate::{Error, Result};

/// One server of a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Host {
    /// A name or an address; an IPv6 address without its brackets.
    pub name: String,
    /// The port, when one was written.
    pub port: Option<u16>,
}

impl Host {
    /// A host with a port.
    #[must_use]
    pub fn new(name: impl Into<String>, port: Option<u16>) -> Self {
        Self { name: name.into(), port }
    }

    /// `name:port` with this port when none was written.
    #[must_use]
    pub fn with_default_port(&self, port: u16) -> String {
        let port = self.port.unwrap_or(port);
        if self.name.contains(':') { format!("[{}]:{port}", self.name) } else { format!("{}:{port}", self.name) }
    }
}

/// A backend URL taken apart: `scheme://[user[:password]@]host[:port][,host…][/path][?key=value&…]`.
///
/// Percent-encoding is undone everywhere. A backend takes the query keys it knows and calls [`LockUrl::finish`], so that a
/// misspelt key is an error and never silently ignored.
///
/// ```
/// use lockyard_api::LockUrl;
/// let mut url = LockUrl::parse("redis://app:s%40crt@db:6380/2?namespace=shop&ttl=10s&fair=false")?;
/// assert_eq!((url.scheme.as_str(), url.hosts[0].name.as_str(), url.path.as_str()), ("redis", "db", "/2"));
/// let options = url.options()?;
/// assert_eq!(options.namespace.as_str(), "shop");
/// assert_eq!(url.take("fair").as_deref(), Some("false"));
/// url.finish(&["fair"])?;
/// assert!(!format!("{url:?} {}", url.redacted()).contains("s@crt"));
/// # Ok::<(), lockyard_api::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockUrl {
    /// The scheme in lower case.
    pub scheme: String,
    /// The user, when one was written.
    pub user: Option<String>,
    /// The password, when one was written. Never printed.
    pub password: Option<String>,
    /// The hosts in the order written; empty for `memory:` and `file:`.
    pub hosts: Vec<Host>,
    /// The path with its leading slash, or empty.
    pub path: String,
    query: Vec<(String, String)>,
}

impl LockUrl {
    /// Takes a URL apart.
    ///
    /// # Errors
    /// `Config`, saying what is wrong where; never with the password in it.
    pub fn parse(text: &str) -> Result<Self> {
        parse::parse(text)
    }

    /// Takes a key out of the query. The last of several wins.
    pub fn take(&mut self, key: &str) -> Option<String> {
        let mut found = None;
        self.query.retain(|(name, value)| {
            let hit = name == key;
            if hit {
                found = Some(value.clone());
            }
            !hit
        });
        found
    }

    /// Takes a key whose value is `true`/`false` (also `1`/`0`, `yes`/`no`).
    ///
    /// # Errors
    /// `Config` for any other value.
    pub fn take_bool(&mut self, key: &str) -> Result<Option<bool>> {
        let Some(value) = self.take(key) else { return Ok(None) };
        match value.as_str() {
            "true" | "1" | "yes" => Ok(Some(true)),
            "false" | "0" | "no" => Ok(Some(false)),
            _ => Err(Error::config(format!("{key}={value}: write true or false"))),
        }
    }

    /// Takes a key whose value is a number.
    ///
    /// # Errors
    /// `Config` when it is no number of that range.
    pub fn take_number<T: std::str::FromStr>(&mut self, key: &str) -> Result<Option<T>> {
        let Some(value) = self.take(key) else { return Ok(None) };
        value.parse().map(Some).map_err(|_| Error::config(format!("{key}={value}: write a number in its range")))
    }

    /// Takes a key whose value is a time with its unit: `30s`, `500ms`, `2m`.
    ///
    /// # Errors
    /// `Config` when it is none.
    pub fn take_duration(&mut self, key: &str) -> Result<Option<std::time::Duration>> {
        let Some(value) = self.take(key) else { return Ok(None) };
        humantime::parse_duration(&value).map(Some).map_err(|e| {
            Error::config(format!("{key}={value}: write a time with its unit, such as 30s or 500ms ({e})"))
        })
    }

    /// Takes the keys that all backends share out of the query.
    ///
    /// # Errors
    /// `Config`, naming the key and what it takes.
    pub fn options(&mut self) -> Result<Options> {
        Options::take_from(self)
    }

    /// Complains about every key that is left: `known` are the backend's own keys, for finding the nearest one.
    ///
    /// # Errors
    /// `Config`, naming the unknown key and the nearest known one.
    pub fn finish(&self, known: &[&str]) -> Result<()> {
        let Some((key, _)) = self.query.first() else { return Ok(()) };
        if known.contains(&key.as_str()) {
            return Err(Error::config(format!("the key {key:?} does not apply to this {} URL", self.scheme)));
        }
        let all = known.iter().chain(Options::KEYS).copied();
        let nearest = all.clone().min_by_key(|candidate| distance(key, candidate)).unwrap_or_default();
        let list: Vec<&str> = all.collect();
        Err(Error::config(format!(
            "unknown key {key:?} in the URL: did you mean {nearest:?}? Known keys: {}",
            list.join(" ")
        )))
    }

    /// The URL as it may be shown: the password replaced by `***`.
    #[must_use]
    pub fn redacted(&self) -> String {
        let user = match (&self.user, &self.password) {
            (None, None) => String::new(),
            (user, None) => format!("{}@", user.as_deref().unwrap_or_default()),
            (user, Some(_)) => format!("{}:***@", user.as_deref().unwrap_or_default()),
        };
        let hosts: Vec<String> = self.hosts.iter().map(show_host).collect();
        let slashes = if self.hosts.is_empty() && user.is_empty() && !self.path.starts_with('/') { "" } else { "//" };
        format!("{}:{slashes}{user}{}{}", self.scheme, hosts.join(","), self.path)
    }
}

impl fmt::Debug for LockUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LockUrl({})", self.redacted())
    }
}

fn show_host(host: &Host) -> String {
    let name = if host.name.contains(':') { format!("[{}]", host.name) } else { host.name.clone() };
    host.port.map_or(name.clone(), |port| format!("{name}:{port}"))
}

/// The edit distance of two short words.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let cost = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = cost.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests;
