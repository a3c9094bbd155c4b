//! The fenced register: one file a name, replaced under the kernel's lock.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use lockyard_api::{
    Error, ErrorKind, Fenced, FencedRegister, FencingToken, LockName, Operation, Result, Version, Write, async_trait,
};
use rustix::fs::FlockOperation;
use tokio::runtime::Handle;

use crate::config::FileConfig;
use crate::store::{Store, lock_file, trouble};

/// How long a write waits for another of the same name, which takes two flushes of the disk unless its process is stopped.
const LIMIT: Duration = Duration::from_secs(5);
/// How long it waits between two looks, at most.
const MOMENT: Duration = Duration::from_millis(2);
/// How many digits the version has in front of the token.
const DIGITS: usize = 20;

/// The fenced registers in a directory of this host. Clones are the same client.
///
/// The register of a name is one file beside its lock. A write makes a new file, flushes it to the disk and renames it over
/// the old one under the kernel's lock of the old one, so that a reader, and a host that crashes, sees one or the other
/// (<https://man7.org/linux/man-pages/man2/rename.2.html>).
///
/// ```
/// # async fn example() -> lockyard_api::Result<()> {
/// use lockyard_api::{FencedRegister, FencingToken, LockName, Version};
/// use lockyard_file::{FileConfig, FileRegister};
/// let directory = std::env::temp_dir().join(format!("lockyard-register-doc-{}", std::process::id()));
/// let register = FileRegister::connect(FileConfig::new(&directory)).await?;
/// let (name, token) = (LockName::new("report")?, FencingToken::new(768)?);
/// let _ = register.write(&name, b"page 1", token, Version::ABSENT).await?;
/// assert_eq!(register.read(&name).await?.token, Some(token));
/// # std::fs::remove_dir_all(directory).ok(); Ok(()) }
/// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Debug, Clone)]
pub struct FileRegister {
    store: Arc<Store>,
}

impl FileRegister {
    /// Opens the directory; makes it when it is missing.
    ///
    /// # Errors
    /// `Config` when it cannot be made or written to.
    ///
    /// # Cancel safety
    /// Nothing is left but the directory.
    #[expect(clippy::unused_async, reason = "every backend connects alike")]
    pub async fn connect(config: FileConfig) -> Result<Self> {
        Ok(Self { store: Arc::new(Store::open(&config)?) })
    }

    /// The file of a name.
    #[must_use]
    pub fn path(&self, name: &LockName) -> PathBuf {
        self.store.register_path(name)
    }

    fn found(&self, name: &LockName) -> Result<Fenced> {
        let path = self.path(name);
        match std::fs::read(&path) {
            Ok(content) => parse(&path, &content),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Fenced::absent()),
            Err(e) => Err(trouble(&path, e)),
        }
    }

    async fn written(&self, name: &LockName, value: &[u8], token: FencingToken, expected: Version) -> Result<Write> {
        Fenced::check(value)?;
        let path = self.path(name);
        let file = self.locked(&path).await?;
        let content = Fenced::encode(value, token);
        let replace = move || replace(&file, &path, &content, token, expected);
        // Away from the caller's thread, for the sake of its flushes; and to its end, whatever becomes of the caller.
        match Handle::try_current() {
            Err(_) => replace(),
            Ok(runtime) => runtime.spawn_blocking(replace).await.unwrap_or_else(|ended| {
                Err(Error::new(ErrorKind::Shutdown, "the runtime ended while a register was written")
                    .with_source(ended))
            }),
        }
    }

    /// The register's file, locked; made when it is missing, and then empty.
    async fn locked(&self, path: &Path) -> Result<File> {
        let until = self.store.now().plus(LIMIT);
        loop {
            match lock_file(path, FlockOperation::NonBlockingLockExclusive) {
                Ok(file) => return Ok(file),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock && self.store.now() < until => {
                    self.store.pause(MOMENT).await;
                }
                Err(e) => return Err(trouble(path, e)),
            }
        }
    }
}

#[async_trait]
impl FencedRegister for FileRegister {
    async fn read(&self, name: &LockName) -> Result<Fenced> {
        self.found(name).map_err(|error| error.with_operation(Operation::Read).with_name(name))
    }

    async fn write(&self, name: &LockName, value: &[u8], token: FencingToken, expected: Version) -> Result<Write> {
        let written = self.written(name, value, token, expected).await;
        written.map_err(|error| error.with_operation(Operation::Write).with_name(name))
    }
}

/// Judges and writes, while the file is locked.
fn replace(mut file: &File, path: &Path, content: &[u8], token: FencingToken, expected: Version) -> Result<Write> {
    let mut present = Vec::new();
    file.read_to_end(&mut present).map_err(|e| trouble(path, e))?;
    let stored = parse(path, &present)?;
    if let Some(refusal) = stored.refusal(token, expected) {
        return Ok(refusal);
    }
    let number = stored.version.get().saturating_add(1);
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let new = PathBuf::from(new);
    // What a crash has left of an earlier write is overwritten: only who has the lock comes here.
    let renamed = write_new(&new, number, content).and_then(|()| std::fs::rename(&new, path));
    renamed.map_err(|e| trouble(&new, e))?;
    let flushed = path.parent().map_or(Ok(()), |directory| File::open(directory)?.sync_all());
    flushed.map_err(|e| {
        let text = format!("{}: written, and perhaps not kept in a crash: {e}", path.display());
        Error::new(ErrorKind::Unreachable, text).with_source(e)
    })?;
    Ok(Write::Written { version: Version::new(number) })
}

fn write_new(path: &Path, number: u64, content: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    write!(file, "{number:0DIGITS$} ")?;
    file.write_all(content)?;
    file.sync_all()
}

/// A file's content: the version in 20 digits, a space, and token and value. Empty: never written.
fn parse(path: &Path, content: &[u8]) -> Result<Fenced> {
    if content.is_empty() {
        return Ok(Fenced::absent());
    }
    let read = || {
        let (version, rest) = content.split_at_checked(DIGITS)?;
        let version = std::str::from_utf8(version).ok()?.parse().ok()?;
        Fenced::decode(rest.strip_prefix(b" ")?, Version::new(version)).ok()
    };
    read().ok_or_else(|| {
        let text = format!("{} holds no register of lockyard: move it away if it is not needed", path.display());
        Error::new(ErrorKind::Protocol, text).not_applied()
    })
}
