//! Which backend: flag, then environment, then the configuration files, then the default.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use lockyard::{LockUrl, Options};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use crate::config::{Config, Key, warn_of_password};
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
    /// names, else that of the configuration file, else "file:", which locks on this host only. A URL with a password belongs in one of the two: everybody
    /// on this host can read a command line.
    #[arg(short, long, value_name = "URL")]
    backend: Option<String>,

    /// Where the names live inside the backend; names of two namespaces never meet [default: lockyard]
    #[arg(long, value_name = "NAMESPACE")]
    namespace: Option<String>,

    /// Read settings from this file instead of ~/.config/lockyard/config.toml and /etc/lockyard/config.toml
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// What the files and the environment say, once read.
    #[arg(skip)]
    loaded: Option<Arc<Config>>,
}

/// A backend, chosen and checked without any traffic.
pub(crate) struct Source {
    url: String,
    options: Options,
}

impl SourceArgs {
    /// Reads the configuration, where it was not read before.
    ///
    /// # Errors
    /// `Config` for a file that is wrong.
    pub(crate) fn load(&mut self) -> Result<Arc<Config>, Failure> {
        let config = self.configured()?;
        self.loaded = Some(Arc::clone(&config));
        Ok(config)
    }

    /// Takes no setting but the URL: for who was told the rest.
    #[cfg(feature = "lab")]
    pub(crate) fn without_settings(mut self) -> Self {
        self.loaded = Some(Arc::new(Config::of_the_url_alone()));
        self
    }

    pub(crate) const fn loaded(&self) -> Option<&Arc<Config>> {
        self.loaded.as_ref()
    }

    fn configured(&self) -> Result<Arc<Config>, Failure> {
        match &self.loaded {
            Some(config) => Ok(Arc::clone(config)),
            None => Config::load(self.config.as_deref()).map(Arc::new),
        }
    }

    pub(crate) fn backend(&self) -> Option<&str> {
        self.backend.as_deref()
    }

    pub(crate) fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// Chooses and checks the backend; `ttl` overrides the URL's.
    ///
    /// # Errors
    /// `Config` for a URL or a configuration that is wrong.
    pub(crate) fn resolve(&self, ttl: Option<Duration>, voice: Voice) -> Result<Source, Failure> {
        let config = self.configured()?;
        config.warn(voice);
        let mut url = match &self.backend {
            Some(url) => {
                warn_of_password(url, voice);
                url.clone()
            }
            None => config.url()?.map_or_else(|| DEFAULT_URL.to_owned(), |found| found.text),
        };
        // The URL comes from the command line, the environment or the nearer file: it says more than a file does.
        for key in [Key::Namespace, Key::Ttl] {
            if let Some(found) = config.of_files(key) {
                add_weaker_query(&mut url, key.name(), &found.text);
            }
        }
        let namespace =
            self.namespace.clone().map_or_else(|| config.of_environment(Key::Namespace), |n| Ok(Some(n)))?;
        if let Some(namespace) = namespace {
            add_query(&mut url, "namespace", &namespace);
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

/// Adds a key that yields to one of the same name that is there.
fn add_weaker_query(url: &mut String, key: &str, value: &str) {
    let value = utf8_percent_encode(value, NON_ALPHANUMERIC);
    match url.split_once('?') {
        Some((place, query)) => *url = format!("{place}?{key}={value}&{query}"),
        None => *url = format!("{url}?{key}={value}"),
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
        assert_eq!(options.ttl, Duration::from_millis(1500));
    }

    #[test]
    fn what_a_file_adds_to_a_url_yields() {
        let mut url = "redis://h/?ttl=5s".to_owned();
        add_weaker_query(&mut url, "namespace", "b&c=d");
        add_weaker_query(&mut url, "ttl", "7s");
        let options = Source::new(url).expect("a URL").options().clone();
        assert_eq!((options.namespace.as_str(), options.ttl), ("b&c=d", Duration::from_secs(5)));
    }

    #[test]
    fn a_url_that_is_wrong_is_a_matter_of_configuration() {
        for url in ["redis//h", "mongodb://h", "redis://h/?ttl=soon", "file:?namespace=a/b"] {
            assert_eq!(Source::new(url.to_owned()).err().expect(url).exit.code(), 78, "{url}");
        }
    }
}
