//! Where the files are.

use std::path::{Path, PathBuf};

use lockyard_api::{Clock, Error, LockUrl, Namespace, Result};

/// Where the files are.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct FileConfig {
    /// The directory; made with mode 0700 when it is missing. Everybody who is to share locks names the same one, on a
    /// local file system: on a network file system the kernel's locks may not reach other hosts.
    pub directory: PathBuf,
    /// A directory inside it for the names of this namespace.
    pub namespace: Namespace,
    /// The clock for what the guard tells of time.
    pub clock: Clock,
}

impl FileConfig {
    /// Locks in this directory, in the default namespace.
    #[must_use]
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into(), namespace: Namespace::default(), clock: Clock::system() }
    }

    /// The same directory with this namespace.
    #[must_use]
    pub fn namespace(mut self, namespace: Namespace) -> Self {
        self.namespace = namespace;
        self
    }

    /// Reads `file:///absolute/directory`, `file:relative/directory`, or `file:` for the directory of the user's session.
    ///
    /// # Errors
    /// `Config` when the URL names a host, a user or an unknown key.
    pub fn from_url(url: &str) -> Result<Self> {
        let mut url = LockUrl::parse(url)?;
        if url.scheme != "file" {
            return Err(Error::config(format!("{:?} is no file URL: write file:///directory", url.scheme)));
        }
        let options = url.options()?;
        url.finish(&[])?;
        if !url.hosts.is_empty() || url.user.is_some() || url.password.is_some() {
            return Err(Error::config("a file URL names no host: write file:///directory with three slashes"));
        }
        let directory = if url.path.is_empty() { runtime_directory() } else { PathBuf::from(&url.path) };
        Ok(Self { directory, namespace: options.namespace, clock: options.clock })
    }

    pub(crate) fn path(&self) -> PathBuf {
        // An empty namespace has a name that no other can have: they hold no '%'.
        let inner = if self.namespace.is_empty() { "%" } else { self.namespace.as_str() };
        self.directory.join(inner)
    }
}

/// The directory for what lives as long as the user's session; root has that of the system.
fn runtime_directory() -> PathBuf {
    if let Some(directory) = std::env::var_os("XDG_RUNTIME_DIR").filter(|d| Path::new(d).is_absolute()) {
        return PathBuf::from(directory).join("lockyard");
    }
    let user = rustix::process::geteuid();
    if user.is_root() {
        return PathBuf::from("/run/lockyard");
    }
    std::env::temp_dir().join(format!("lockyard-{}", user.as_raw()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        let config = FileConfig::from_url("file:///var/lock/jobs?namespace=shop").expect("fine");
        assert_eq!(config.path(), Path::new("/var/lock/jobs/shop"));
        assert_eq!(FileConfig::from_url("file:locks").expect("relative").directory, Path::new("locks"));
        assert!(FileConfig::from_url("file:").expect("the session's").directory.is_absolute());
        assert_eq!(FileConfig::from_url("file:/d?namespace=").expect("empty").path(), Path::new("/d/%"));
        for (url, word) in
            [("file://host/x", "three slashes"), ("file:/x?fair=true", "fair"), ("memory:", "no file URL")]
        {
            let error = FileConfig::from_url(url).expect_err(url);
            assert!(error.message().contains(word), "{error}");
        }
    }
}
