//! A wall clock of a program's own, which a test sets.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// `libfaketime` does the same and more, but not for a program with an allocator that reads the clock, as Redis has with jemalloc:
/// "Cannot recover from unexpected recursive calls to clock_gettime()".
const SOURCE: &str = include_str!("clock.c");
const VARIABLE: &str = "LOCKYARD_TESTBED_CLOCK";

/// Which way a wall clock is set, from what the machine's says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClockOffset {
    /// Ahead of the machine's.
    Ahead(Duration),
    /// Behind the machine's.
    Behind(Duration),
}

/// A wall clock for the programs that it is given to, as an administrator would set that of their machine; what they count by
/// a clock that is never set goes on as before. At first it says what the machine's says.
#[derive(Debug)]
pub struct WallClock {
    library: PathBuf,
    offset: PathBuf,
}

impl WallClock {
    /// Makes a clock, with its two files in this folder. They have to stay as long as a program runs by it.
    ///
    /// # Errors
    ///
    /// When there is no C compiler, which may be a reason to skip, or the file system refuses.
    pub fn new(folder: &Path) -> Result<Self, String> {
        let (source, library, offset) = (folder.join("clock.c"), folder.join("clock.so"), folder.join("clock"));
        let clock = Self { library, offset };
        let prepared = fs::write(&source, SOURCE).and_then(|()| {
            fs::write(&clock.offset, [0; 8])?;
            // A server may run as another user.
            fs::set_permissions(&clock.offset, Permissions::from_mode(0o644))
        });
        prepared.map_err(|error| format!("no place for a clock: {error}"))?;
        let compile =
            Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).arg(&clock.library).arg(&source).output();
        match compile {
            Ok(output) if output.status.success() => Ok(clock),
            Ok(output) => Err(format!("cc makes no clock: {}", String::from_utf8_lossy(&output.stderr))),
            Err(error) => Err(format!("a clock of its own needs a C compiler: {error}")),
        }
    }

    /// Has a program run by this clock, and what it starts as well.
    pub fn give(&self, command: &mut Command) {
        command.env("LD_PRELOAD", &self.library).env(VARIABLE, &self.offset);
    }

    /// Sets the clock, for all who run by it, from their next look at the time on.
    ///
    /// # Errors
    ///
    /// When the file system refuses, or the time is beyond 292 years.
    pub fn set(&self, offset: ClockOffset) -> io::Result<()> {
        let (ClockOffset::Ahead(time) | ClockOffset::Behind(time)) = offset;
        let nanos = i64::try_from(time.as_nanos()).map_err(io::Error::other)?;
        let nanos = if matches!(offset, ClockOffset::Ahead(_)) { nanos } else { -nanos };
        File::options().write(true).open(&self.offset)?.write_all_at(&nanos.to_ne_bytes(), 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn year(clock: &WallClock) -> i32 {
        let mut date = Command::new("date");
        clock.give(date.args(["-u", "+%Y"]));
        String::from_utf8(date.output().expect("it runs").stdout).expect("text").trim().parse().expect("a year")
    }

    #[test]
    fn a_program_runs_by_the_clock_that_was_set() {
        let folder = tempfile::tempdir().expect("a folder");
        let clock = match WallClock::new(folder.path()) {
            Ok(clock) => clock,
            Err(reason) => return eprintln!("SKIPPED: {reason}"),
        };
        let today = year(&clock);
        let years = Duration::from_secs(10 * 366 * 24 * 3600);
        clock.set(ClockOffset::Ahead(years)).expect("set");
        assert!((today + 9..=today + 11).contains(&year(&clock)));
        clock.set(ClockOffset::Behind(years)).expect("set");
        assert!((today - 11..=today - 9).contains(&year(&clock)));
    }
}
