//! Memory servers by URL.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use lockyard_api::{Error, LockUrl, Namespace, Queueing, Result};

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
    /// `queue=fifo|unordered`, `liveness=lease|session` and the keys that all backends share; `ttl` is the sessions' timeout.
    ///
    /// # Errors
    /// `Config` when it is neither, naming the part that is wrong.
    pub fn from_url(url: &str) -> Result<Self> {
        let mut url = LockUrl::parse(url)?;
        let shared = url.options()?;
        if url.scheme != "memory" || url.user.is_some() || url.hosts.len() > 1 || url.path.len() > 1 {
            return Err(Error::config(format!("{}: write memory: or memory://name", url.redacted())));
        }
        let queue = match url.take("queue").as_deref() {
            None | Some("fifo") => Queueing::Fifo,
            Some("unordered") => Queueing::Unordered,
            Some(other) => return Err(Error::config(format!("queue={other}: write fifo or unordered"))),
        };
        let liveness = match url.take("liveness").as_deref() {
            None | Some("lease") => MemoryLiveness::Lease,
            Some("session") => MemoryLiveness::Session,
            Some(other) => return Err(Error::config(format!("liveness={other}: write lease or session"))),
        };
        url.finish(&["queue", "liveness"])?;
        let name = url.hosts.first().map(|host| host.name.clone());
        let options = MemoryOptions::default().queue(queue).liveness(liveness);
        let options = options.session_ttl(shared.ttl).op_timeout(shared.op_timeout).clock(shared.clock);
        Ok(Self { name, options })
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
        for (url, word) in [
            ("redis://x", "memory://name"),
            ("memory://a/b", "memory://name"),
            ("memory:?queue=x", "fifo or unordered"),
            ("memory:?quene=fifo", "queue"),
        ] {
            let error = MemoryConfig::from_url(url).expect_err(url);
            assert!(error.message().contains(word), "{error}");
        }
    }
}
