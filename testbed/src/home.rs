//! The directory of a server, and the watcher that clears up behind a test that was killed.
//!
//! Whatever ends the test process (return, panic, exit with a server in a static, SIGKILL), the servers must end and their
//! directories must go. A parent-death signal would end the server, but follows the thread that forked it, needs unsafe code, does
//! not reach the server's children and removes no directory. So each home has a watcher: a shell in a process group of its own, that
//! reads from a pipe which only this process can write to. When this process is gone, in whatever way, the kernel closes the pipe;
//! the watcher then kills every process that works below the directory and removes it. The pipe closes on exec, so a server that was
//! just forked holds it open until it works in the directory: there is no moment at which the watcher could miss it.
//! Should somebody kill the watcher as well, the next start sweeps the directories of dead processes.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Once;

use tempfile::TempDir;

use crate::process;

const PREFIX: &str = "lockyard-testbed-";

const SCRIPT: &str = include_str!("home.sh");

/// A temporary directory that no death of this process leaves behind, nor any process that works in it.
#[derive(Debug)]
pub(crate) struct Home {
    dir: TempDir,
    watcher: Child,
}

impl Home {
    /// Makes an empty directory, and on the first call of the process sweeps what others left.
    pub(crate) fn new() -> io::Result<Self> {
        static SWEPT: Once = Once::new();
        let parent = std::env::temp_dir().canonicalize()?;
        SWEPT.call_once(|| sweep(&parent));
        let dir = tempfile::Builder::new().prefix(&prefix()?).tempdir_in(parent)?;
        // A server that runs as another user must be able to pass through.
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755))?;
        let watcher = watch(dir.path())?;
        let home = Self { dir, watcher };
        home.make_data()?;
        Ok(home)
    }

    /// The server's data and working directory.
    pub(crate) fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// Removes what the data directory holds, and who works in it.
    pub(crate) fn wipe(&self) -> io::Result<()> {
        end(self.path());
        fs::remove_dir_all(self.data())?;
        self.make_data()
    }

    /// The directory itself, for what must outlive the data.
    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Private, as etcd and Postgres demand.
    fn make_data(&self) -> io::Result<()> {
        DirBuilder::new().mode(0o700).create(self.data())
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        end(self.path());
        // The directory first: while the watcher lives, a kill of this process cannot leave it behind.
        let _kept = fs::remove_dir_all(self.dir.path());
        let _ended = self.watcher.kill();
        let _reaped = self.watcher.wait();
    }
}

/// Ends who works below the home `dir`, and gives back what the kernel keeps for them after their end.
fn end(dir: &Path) {
    process::kill_members(dir);
    // Only a Postgres that did not end in order leaves it.
    if dir.join("data/postmaster.pid").exists() {
        let _kept = script("release", dir).status();
    }
}

fn watch(dir: &Path) -> io::Result<Child> {
    script("watch", dir).process_group(0).stdin(Stdio::piped()).spawn()
}

fn script(task: &str, dir: &Path) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", SCRIPT, "lockyard-testbed", task]).arg(dir).current_dir("/");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Names the process, and the pid namespace in which its number means something: containers may share a temporary directory.
fn prefix() -> io::Result<String> {
    Ok(format!("{PREFIX}{}-{}-", std::process::id(), pid_namespace()?))
}

fn pid_namespace() -> io::Result<u64> {
    Ok(fs::metadata("/proc/self/ns/pid")?.ino())
}

fn sweep(parent: &Path) {
    let Ok(namespace) = pid_namespace() else { return };
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        if entry.file_name().to_str().and_then(|name| owner(name, namespace)).is_some_and(|pid| !process::exists(pid)) {
            end(&entry.path());
            let _others_do_it_too = fs::remove_dir_all(entry.path());
        }
    }
}

/// The process that made the directory `name`, when it is one of ours and of this namespace.
fn owner(name: &str, namespace: u64) -> Option<i32> {
    let mut parts = name.strip_prefix(PREFIX)?.split('-');
    let pid = parts.next()?.parse().ok()?;
    (parts.next()?.parse() == Ok(namespace)).then_some(pid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_directories_of_this_namespace_have_an_owner() {
        assert_eq!(owner("lockyard-testbed-42-7-abc", 7), Some(42));
        assert_eq!(owner("lockyard-testbed-42-8-abc", 7), None);
        assert_eq!(owner("lockyard-testbed-42", 7), None);
        assert_eq!(owner("something-42-7-abc", 7), None);
    }

    #[test]
    fn a_directory_of_a_dead_process_is_swept() {
        let parent = tempfile::tempdir().unwrap();
        let mut dead = Command::new("true").spawn().unwrap();
        dead.wait().unwrap();
        let left = parent.path().join(format!("{PREFIX}{}-{}-abc", dead.id(), pid_namespace().unwrap()));
        let live = parent.path().join(format!("{}abc", prefix().unwrap()));
        fs::create_dir(&left).unwrap();
        fs::create_dir(&live).unwrap();
        sweep(parent.path());
        assert!(!left.exists() && live.exists());
    }
}
