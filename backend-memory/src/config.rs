//! Memory servers by URL.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use lockyard_api::{Error, Namespace, Queueing, Result};

use crate::lock::MemoryLock;
use crate::options::{MemoryLiveness, MemoryOptions};
use crate::server::{MemoryServer, WeakServer};

/// The servers that have a name, while anybody uses them.
static NAMED: Mutex<Option<HashMap<String, WeakServer>>> = Mutex::new(None);

/// Which memory server to use.
///
/// ```
/// use lockyard_memory::MemoryConfig;
/// let own = MemoryConfig::from_url("memory:")?;
/// let shared = MemoryConfig::from_url("memory://tests?queue=unordered&liveness=session")?;
/// # Ok::<(), lockyard_api::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct MemoryConfig {
    /// The name of a server that all of this process who say the same name share. `None`: a server of one's own.
    pub name: Option<String>,
    /// How the server works. A server that is running already keeps its own options.
    pub options: MemoryOptions,
}

impl MemoryConfig {
    /// Reads `memory:` (a server of one's own) or `memory://name` (shared by all in this process who say that name), with
    /// `?queue=fifo|unordered` and `liveness=lease|session`.
    ///
    /// # Errors
    /// `Config` when it is neither, naming the part that is wrong.
    pub fn from_url(url: &str) -> Result<Self> {
        let Some(rest) = url.strip_prefix("memory:") else {
            return Err(Error::config(format!("{url:?} is no memory URL: write memory: or memory://name")));
        };
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let name = match path.strip_prefix("//") {
            None if path.is_empty() => None,
            Some("") => None,
            Some(name) if !name.contains(['/', '@', '#']) => Some(name.to_owned()),
            _ => return Err(Error::config(format!("{url:?}: after memory: comes nothing or //name, not {path:?}"))),
        };
        let mut config = Self { name, options: MemoryOptions::default() };
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            config.set(pair)?;
        }
        Ok(config)
    }

    fn set(&mut self, pair: &str) -> Result<()> {
        match pair {
            "queue=fifo" => self.options.queue = Queueing::Fifo,
            "queue=unordered" => self.options.queue = Queueing::Unordered,
            "liveness=lease" => self.options.liveness = MemoryLiveness::Lease,
            "liveness=session" => self.options.liveness = MemoryLiveness::Session,
            _ => {
                return Err(Error::config(format!(
                    "unknown option {pair:?}: a memory URL takes queue=fifo|unordered and liveness=lease|session"
                )));
            }
        }
        Ok(())
    }

    /// The server meant: the running one of that name, or a new one.
    #[must_use]
    pub fn server(&self) -> MemoryServer {
        let Some(name) = &self.name else { return MemoryServer::new(self.options.clone()) };
        let mut named = NAMED.lock().unwrap_or_else(PoisonError::into_inner);
        let named = named.get_or_insert_default();
        if let Some(server) = named.get(name).and_then(WeakServer::upgrade) {
            return server;
        }
        named.retain(|_, server| server.upgrade().is_some());
        let server = MemoryServer::new(self.options.clone());
        named.insert(name.clone(), server.downgrade());
        server
    }

    /// A client of the server meant.
    #[must_use]
    pub fn connect(&self, namespace: Namespace) -> MemoryLock {
        self.server().connect(namespace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_shared_and_no_name_is_not() {
        let named = MemoryConfig::from_url("memory://config-test").expect("a name");
        let first = named.server();
        let name = lockyard_api::LockName::new("x").expect("a name");
        assert_eq!(first.entries(&Namespace::default(), &name), 0);
        assert!(named.server().options().queue == Queueing::Fifo);
        let other = MemoryConfig::from_url("memory://config-test?queue=unordered").expect("the same name");
        assert_eq!(other.server().options().queue, Queueing::Fifo, "a running server keeps its options");
        drop(first);
        assert_eq!(other.server().options().queue, Queueing::Unordered, "a server that nobody uses is gone");
        let own = MemoryConfig::from_url("memory:?liveness=session").expect("no name");
        assert_eq!((own.name, own.options.liveness), (None, MemoryLiveness::Session));
    }

    #[test]
    fn urls_that_are_wrong_say_what() {
        for (url, word) in
            [("redis://x", "no memory URL"), ("memory:x", "\"x\""), ("memory://a/b", "a/b"), ("memory:?q=1", "q=1")]
        {
            let error = MemoryConfig::from_url(url).expect_err(url);
            assert!(error.message().contains(word), "{error}");
        }
    }
}
