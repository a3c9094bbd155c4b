//! Which backend: flag, then environment, then the default.

use std::env;
use std::fs;

use clap::Args;
use lockyard::{LockUrl, Options};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use crate::exit::Failure;
use crate::output::Voice;

/// Where locks live unless told otherwise: files of this host, no server needed.
const DEFAULT_URL: &str = "file:";

/// The options that choose the backend.
#[derive(Debug, Args)]
pub(crate) struct SourceArgs {
    /// Where the locks live: redis:// postgres:// etcd:// zk:// file: memory:
    ///
    /// Without it the URL in the environment variable LOCKYARD_URL, else the one in the file that LOCKYARD_URL_FILE
    /// names, else "file:", which locks on this host only. A URL with a password belongs in one of the two: everybody
    /// on this host can read a command line.
    #[arg(short, long, value_name = "URL")]
    backend: Option<String>,

    /// Where the names live inside the backend; names of two namespaces never meet [default: lockyard]
    #[arg(long, value_name = "NAMESPACE")]
    namespace: Option<String>,
}

/// A backend, chosen and checked without any traffic.
pub(crate) struct Source {
    url: String,
    options: Options,
}

impl SourceArgs {
    /// Chooses and checks the backend; `ttl` overrides the URL's.
    pub(crate) fn resolve(&self, ttl: Option<std::time::Duration>, voice: Voice) -> Result<Source, Failure> {
        let mut url = match &self.backend {
            Some(url) => {
                warn_of_password(url, voice);
                url.clone()
            }
            None => from_environment()?.unwrap_or_else(|| DEFAULT_URL.to_owned()),
        };
        if let Some(namespace) = &self.namespace {
            add_query(&mut url, "namespace", namespace);
        }
        if let Some(ttl) = ttl {
            add_query(&mut url, "ttl", &format!("{}ms", ttl.as_millis()));
        }
        Source::new(url)
    }
}

impl Source {
    pub(crate) fn new(url: String) -> Result<Self, Failure> {
        lockyard::Scheme::of(&url)?;
        let options = LockUrl::parse(&url)?.options()?;
        Ok(Self { url, options })
    }

    /// The URL as a client is opened by it. Never shown.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Server and database, without a password.
    pub(crate) fn shown(&self) -> String {
        // It was taken apart before, when the source was made.
        LockUrl::parse(&self.url).map_or_else(|_| "URL".to_owned(), |url| url.redacted())
    }

    pub(crate) const fn options(&self) -> &Options {
        &self.options
    }

    #[cfg(feature = "file")]
    pub(crate) fn is_file(&self) -> bool {
        self.url.starts_with("file:")
    }

    pub(crate) fn is_memory(&self) -> bool {
        self.url.starts_with("memory:")
    }
}

/// The last of several keys wins, so that adding one overrides.
pub(crate) fn add_query(url: &mut String, key: &str, value: &str) {
    url.push(if url.contains('?') { '&' } else { '?' });
    url.push_str(key);
    url.push('=');
    url.extend(utf8_percent_encode(value, NON_ALPHANUMERIC));
}

fn from_environment() -> Result<Option<String>, Failure> {
    if let Ok(url) = env::var("LOCKYARD_URL")
        && !url.is_empty()
    {
        return Ok(Some(url));
    }
    let Some(path) = env::var_os("LOCKYARD_URL_FILE").filter(|path| !path.is_empty()) else { return Ok(None) };
    let text = fs::read_to_string(&path).map_err(|error| {
        Failure::config(format!("cannot read {} (LOCKYARD_URL_FILE): {error}", path.to_string_lossy()))
    })?;
    match text.trim() {
        "" => Err(Failure::config(format!("{} (LOCKYARD_URL_FILE) is empty", path.to_string_lossy()))),
        url => Ok(Some(url.to_owned())),
    }
}

fn warn_of_password(url: &str, voice: Voice) {
    if LockUrl::parse(url).is_ok_and(|url| url.password.is_some()) {
        voice.warn("the URL on the command line holds a password, which everybody on this host can read: put it into LOCKYARD_URL or a file named by LOCKYARD_URL_FILE");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_added_to_a_url_wins() {
        let mut url = "redis://h/?ttl=5s&namespace=a".to_owned();
        add_query(&mut url, "namespace", "b&c=d");
        add_query(&mut url, "ttl", "1500ms");
        let options = Source::new(url).expect("a URL").options().clone();
        assert_eq!(options.namespace.as_str(), "b&c=d");
        assert_eq!(options.ttl, std::time::Duration::from_millis(1500));
    }

    #[test]
    fn a_url_that_is_wrong_is_a_matter_of_configuration() {
        for url in ["redis//h", "mongodb://h", "redis://h/?ttl=soon", "file:?namespace=a/b"] {
            assert_eq!(Source::new(url.to_owned()).err().expect(url).exit.code(), 78, "{url}");
        }
    }
}
