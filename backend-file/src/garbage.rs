//! Removal of the files of unused names.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use lockyard_api::{Collected, Error, ErrorKind, GarbageCollect, Operation, Result, Unused, async_trait};
use percent_encoding::percent_decode_str;
use rustix::fs::FlockOperation;

use crate::FileLock;
use crate::record::Record;
use crate::store::{self, FLOOR, Store, lock_file, trouble};

/// Whose lock a collection holds: one at a time raises the floor.
const COLLECTOR: &str = "collector";
/// Where the next floor is written before it takes the place of the last.
const NEXT_FLOOR: &str = "floor.next";
const ENDING: &str = ".lock";

/// A file goes while its lock is held by the collection, so that nobody else has it; who waits for it then finds the file gone and
/// makes another. Before the first file goes, the number from which new files begin is raised above those of all, and is on the
/// disk. A file was last used when it was last written, at the release.
#[async_trait]
impl GarbageCollect for FileLock {
    async fn collect(&self, unused: &Unused) -> Result<Collected> {
        let (store, unused) = (Arc::clone(&self.store), unused.clone());
        let collected = tokio::task::spawn_blocking(move || collect(&store, &unused)).await;
        let collected = collected.unwrap_or_else(|failed| {
            Err(Error::new(ErrorKind::Shutdown, "the runtime is shutting down").with_source(failed))
        });
        collected.map_err(|error| error.with_operation(Operation::Collect))
    }
}

/// What a look at a file says of its name.
enum Verdict {
    Gone,
    InUse,
    Recent,
    /// Free, with the largest number that it may have given out.
    Unused(u64),
}

fn collect(store: &Store, unused: &Unused) -> Result<Collected> {
    let directory = store.directory();
    let failed = |error| trouble(directory, error);
    let _one = lock_file(&directory.join(COLLECTOR), FlockOperation::LockExclusive).map_err(failed)?;
    let mut collected = Collected::new();
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let Some(name) = name_of(&entry.file_name()).filter(|name| name.starts_with(&unused.prefix)) else { continue };
        let path = entry.path();
        let mut verdict = look(&path, unused).map_err(|error| trouble(&path, error))?;
        if let (Verdict::Unused(number), false) = (&verdict, unused.dry_run) {
            // First, since it takes a while: nobody may find the file locked for long.
            raise(store, *number)?;
            verdict = remove(&path, *number, unused.time).map_err(|error| trouble(&path, error))?;
        }
        match verdict {
            Verdict::Gone => {}
            Verdict::InUse => collected.in_use += 1,
            Verdict::Recent => collected.recent += 1,
            Verdict::Unused(_) => collected.removed.push(name),
        }
    }
    Ok(collected)
}

/// Looks at a file without locking it: others would take that for a holder.
fn look(path: &Path, unused: &Unused) -> io::Result<Verdict> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Verdict::Gone),
        Err(error) => return Err(error),
    };
    let Some(record) = record(&mut file)? else { return Ok(Verdict::InUse) };
    Ok(if (record.held || unused.dry_run) && store::is_locked(&file)? {
        Verdict::InUse
    } else if age(&file)? < unused.time {
        Verdict::Recent
    } else {
        Verdict::Unused(record.last())
    })
}

/// Removes a file whose lock nobody has, and that was not used since it was looked at.
fn remove(path: &Path, number: u64, time: Duration) -> io::Result<Verdict> {
    let mut file = match lock_file(path, FlockOperation::NonBlockingLockExclusive) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Verdict::InUse),
        Err(error) => return Err(error),
    };
    match record(&mut file)? {
        Some(record) if record.last() <= number && age(&file)? >= time => {}
        _ => return Ok(Verdict::Recent),
    }
    std::fs::remove_file(path)?;
    Ok(Verdict::Unused(number))
}

/// What stands in a file; nothing when it is somebody else's, or a newer version's.
fn record(file: &mut File) -> io::Result<Option<Record>> {
    let mut content = Vec::new();
    file.read_to_end(&mut content)?;
    Ok(Record::read(&content, 0).ok())
}

fn age(file: &File) -> io::Result<Duration> {
    Ok(file.metadata()?.modified()?.elapsed().unwrap_or_default())
}

/// Raises the number from which files begin: written elsewhere, flushed and renamed, so that a crash leaves the one or the other.
fn raise(store: &Store, number: u64) -> Result<()> {
    if store.floor()? >= number {
        return Ok(());
    }
    let directory = store.directory();
    let (next, floor) = (directory.join(NEXT_FLOOR), directory.join(FLOOR));
    let raised = || {
        let mut file = File::create(&next)?;
        writeln!(file, "{number}")?;
        file.sync_data()?;
        std::fs::rename(&next, &floor)?;
        // The rename itself.
        File::open(directory)?.sync_all()
    };
    raised().map_err(|error| trouble(&floor, error))
}

/// The name of a lock's file; of a name that was too long and is hashed, the file's own.
fn name_of(file: &OsStr) -> Option<String> {
    let encoded = file.to_str()?.strip_suffix(ENDING)?;
    if encoded.starts_with("%%") {
        return Some(encoded.to_owned());
    }
    percent_decode_str(encoded).decode_utf8().ok().map(Into::into)
}
