//! The directory with the lock files.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use lockyard_api::{Claim, Clock, Error, ErrorKind, FencingToken, LockName, Moment, Result};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use rustix::fs::{FlockOperation, flock};
use sha2::{Digest, Sha256};

use crate::config::FileConfig;
use crate::record::Record;

/// What a file name carries as it is.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.');
/// File systems take 255 bytes; beyond this the name is hashed.
const LONGEST: usize = 200;
/// Numbers of a name whose file was removed begin above the one in here. Only ever raised.
pub(crate) const FLOOR: &str = "floor";

/// The lock files of one namespace.
#[derive(Debug)]
pub(crate) struct Store {
    directory: PathBuf,
    boot: String,
    clock: Clock,
}

/// A file whose lock the kernel gave us. Nobody holds the name until [`Store::take`] has written it down.
#[derive(Debug)]
pub(crate) struct Candidate {
    file: File,
    path: PathBuf,
}

/// A held name: the kernel's lock ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Locked {
    file: File,
    record: Record,
    pub(crate) token: FencingToken,
}

/// The answer to a try.
#[derive(Debug)]
pub(crate) enum Tried {
    Candidate(Candidate),
    /// Another holds the name.
    Busy,
    /// The kernel's lock is taken and nobody holds the name: somebody is about to write down a grant, or a waiter that
    /// gave up is about to give the lock back. Over in a moment.
    Passing,
}

impl Store {
    /// Opens the directory, made when it is missing. Says what is wrong with it before any lock is asked for.
    pub(crate) fn open(config: &FileConfig) -> Result<Self> {
        let directory = config.path();
        let say = |e: io::Error| {
            let text =
                format!("the lock directory {} cannot be used: {e}; name another one in the URL", directory.display());
            Error::new(ErrorKind::Config, text).not_applied().with_source(e)
        };
        DirBuilder::new().recursive(true).mode(0o700).create(&directory).map_err(say)?;
        rustix::fs::access(&directory, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK)
            .map_err(|e| say(e.into()))?;
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        Ok(Self { directory, boot: boot.trim().to_owned(), clock: config.clock.clone() })
    }

    /// Asks the kernel for the name's lock without blocking.
    pub(crate) fn try_lock(&self, name: &LockName) -> Result<Tried> {
        let path = self.path(name);
        match lock_file(&path, FlockOperation::NonBlockingLockExclusive) {
            Ok(file) => Ok(Tried::Candidate(Candidate { file, path })),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                let held = std::fs::read(&path).is_ok_and(|content| Record::read(&content, 0).is_ok_and(|r| r.held));
                Ok(if held { Tried::Busy } else { Tried::Passing })
            }
            Err(e) => Err(trouble(&path, e)),
        }
    }

    /// Asks the kernel for the name's lock; blocks the thread while another has it.
    pub(crate) fn lock(&self, name: &LockName) -> Result<Candidate> {
        let path = self.path(name);
        let file = lock_file(&path, FlockOperation::LockExclusive).map_err(|e| trouble(&path, e))?;
        Ok(Candidate { file, path })
    }

    /// Draws the token and writes down who holds the name. An error gives the lock back.
    pub(crate) fn take(&self, candidate: Candidate, claim: &Claim) -> Result<Locked> {
        let Candidate { mut file, path } = candidate;
        let mut content = Vec::new();
        file.read_to_end(&mut content).map_err(|e| trouble(&path, e))?;
        let floor = if content.is_empty() { self.floor()? } else { 0 };
        let since = nanos(self.clock.now());
        let (record, flush) = Record::read(&content, floor)?.next(claim, &self.boot, since);
        let token = FencingToken::from_server(record.number)?;
        write(&file, &record).map_err(|e| trouble(&path, e))?;
        if flush || self.boot.is_empty() {
            file.sync_data().map_err(|e| trouble(&path, e))?;
        }
        Ok(Locked { file, record, token })
    }

    /// Reads who took the name last, and whether it is locked now, without taking it.
    pub(crate) fn look(&self, name: &LockName) -> Result<Option<(Record, usize)>> {
        let path = self.path(name);
        let mut file = match File::open(&path) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(trouble(&path, e)),
        };
        // The kernel's list may miss a line when others change it while it is read: a holder by the record is looked for
        // again. A crash leaves a record of a holder who is gone.
        for _ in 0..4 {
            let mut content = Vec::new();
            file.seek(SeekFrom::Start(0)).map_err(|e| trouble(&path, e))?;
            file.read_to_end(&mut content).map_err(|e| trouble(&path, e))?;
            let record = Record::read(&content, 0)?;
            if !record.held {
                return Ok(None);
            }
            if let Some(waiting) = kernel_locks(&file).map_err(|e| trouble(&path, e))? {
                return Ok(Some((record, waiting)));
            }
        }
        Ok(None)
    }

    pub(crate) fn path(&self, name: &LockName) -> PathBuf {
        self.directory.join(file_name(name, "lock"))
    }

    /// The file of a name's register. It ends as no other does.
    pub(crate) fn register_path(&self, name: &LockName) -> PathBuf {
        self.directory.join(file_name(name, "register"))
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(crate) fn now(&self) -> Moment {
        self.clock.now()
    }

    pub(crate) async fn pause(&self, time: std::time::Duration) {
        self.clock.sleep(time).await;
    }

    /// How long ago this was, on the clock of the records.
    pub(crate) fn since(&self, nanos_then: u64) -> std::time::Duration {
        std::time::Duration::from_nanos(nanos(self.now()).saturating_sub(nanos_then))
    }

    pub(crate) fn floor(&self) -> Result<u64> {
        let path = self.directory.join(FLOOR);
        match std::fs::read_to_string(&path) {
            Ok(text) => text.trim().parse().map_err(|_| {
                let text = format!("{} holds no number: it keeps tokens from falling, restore it", path.display());
                Error::new(ErrorKind::Protocol, text).not_applied()
            }),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(0),
            Err(e) => Err(trouble(&path, e)),
        }
    }
}

impl Locked {
    /// The same lock once more: it ends when both are closed, or either is unlocked (flock(2)).
    pub(crate) fn descriptor(&self) -> io::Result<OwnedFd> {
        self.file.try_clone().map(Into::into)
    }

    /// Gives the lock back.
    pub(crate) fn unlock(mut self) {
        self.record.held = false;
        // Unwritten, it makes a waiter's try look busy for a moment longer than it is.
        let _ = write(&self.file, &self.record);
        // Closing ends it as well; unlocking also ends it for a child that inherited the descriptor.
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

/// Opens and locks a file; again when it was removed in between: the lock of a file without a name excludes nobody.
pub(crate) fn lock_file(path: &Path, operation: FlockOperation) -> io::Result<File> {
    loop {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
        match flock(&file, operation) {
            Ok(()) if is_same(&file, path)? => return Ok(file),
            Ok(()) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
}

/// Whether somebody has the lock of this file, as the kernel tells it: asking by locking would be taking.
pub(crate) fn is_locked(file: &File) -> io::Result<bool> {
    Ok(kernel_locks(file)?.is_some())
}

fn write(file: &File, record: &Record) -> io::Result<()> {
    let line = record.to_line();
    file.write_all_at(&line, 0)?;
    file.set_len(line.len() as u64)
}

/// The file of a name. Everything that is not plain is percent-encoded; what is too long is hashed, with a mark that no
/// encoded name can have.
fn file_name(name: &LockName, ending: &str) -> String {
    let encoded = utf8_percent_encode(name.as_str(), PLAIN).to_string();
    if encoded.len() <= LONGEST {
        return format!("{encoded}.{ending}");
    }
    let digest = Sha256::digest(name.as_str().as_bytes());
    let hash: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("%%{hash}.{ending}")
}

fn is_same(file: &File, path: &Path) -> io::Result<bool> {
    let ours = file.metadata()?;
    match std::fs::metadata(path) {
        Ok(there) => Ok((ours.dev(), ours.ino()) == (there.dev(), there.ino())),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(e),
    }
}

/// How many threads are blocked on the file's lock, as the kernel lists them; `None` when nobody holds it. Asking by
/// locking would be taking.
fn kernel_locks(file: &File) -> io::Result<Option<usize>> {
    let metadata = file.metadata()?;
    let device = metadata.dev();
    let inode = format!("{:02x}:{:02x}:{}", rustix::fs::major(device), rustix::fs::minor(device), metadata.ino());
    let (mut held, mut waiting) = (false, 0);
    for line in std::fs::read_to_string("/proc/locks")?.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.contains(&"FLOCK") && words.contains(&inode.as_str()) {
            if words.contains(&"->") { waiting += 1 } else { held = true }
        }
    }
    Ok(held.then_some(waiting))
}

fn nanos(moment: Moment) -> u64 {
    u64::try_from(moment.since_boot().as_nanos()).unwrap_or(u64::MAX)
}

pub(crate) fn trouble(path: &Path, error: io::Error) -> Error {
    let kind = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ErrorKind::Capacity,
        io::ErrorKind::PermissionDenied => ErrorKind::Auth,
        _ => ErrorKind::Unreachable,
    };
    // Whatever was locked is given back when the descriptor is closed on the way out.
    Error::new(kind, format!("{}: {error}", path.display())).not_applied().with_source(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_a_file_of_its_own() {
        let long = "é".repeat(200);
        let names = [
            "a",
            "a/b",
            "a%2Fb",
            "a:b",
            ".",
            "..",
            "A",
            "é",
            "e\u{301}",
            "floor",
            "a.lock",
            "a.register",
            long.as_str(),
        ];
        let endings = ["lock", "register"];
        let files: std::collections::HashSet<String> = names
            .iter()
            .flat_map(|name| endings.map(|ending| file_name(&LockName::new(name).expect("a name"), ending)))
            .collect();
        assert_eq!(files.len(), names.len() * endings.len());
        assert!(files.iter().all(|file| file.len() <= 255 && !file.contains('/') && file.as_str() != FLOOR));
    }
}
