//! The resource that the lock protects: a file per name that refuses tokens below the largest it has seen.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lockyard::Clock;
use nix::fcntl::{Flock, FlockArg};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

/// How often the register is asked again while another writes, and how long: its writer may have been stopped.
const AGAIN: Duration = Duration::from_millis(5);
const TRIES: usize = 40;

/// The register of one name.
pub(super) struct Register {
    path: PathBuf,
}

/// What it answered.
pub(super) enum Answer {
    Written,
    Stale,
}

impl Register {
    pub(super) fn new(folder: &Path, name: &str) -> Self {
        Self { path: folder.join(utf8_percent_encode(name, NON_ALPHANUMERIC).to_string()) }
    }

    /// Writes under a token, in one step as others see it.
    pub(super) async fn write(&self, token: u64) -> io::Result<Answer> {
        let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&self.path)?;
        for _ in 0..TRIES {
            match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
                Ok(locked) => return write(&locked, token),
                Err((back, _)) => file = back,
            }
            Clock::system().sleep(AGAIN).await;
        }
        Err(io::ErrorKind::WouldBlock.into())
    }
}

fn write(file: &File, token: u64) -> io::Result<Answer> {
    let mut largest = [0; 8];
    match file.read_exact_at(&mut largest, 0) {
        Ok(()) if token < u64::from_be_bytes(largest) => return Ok(Answer::Stale),
        Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => return Err(error),
        _ => {}
    }
    file.write_all_at(&token.to_be_bytes(), 0)?;
    Ok(Answer::Written)
}
