//! Processes, found by the directory they work in.
//!
//! Every process of a server works in the server's own directory, and so do the children it forks. That tells them from all
//! others without a list that could be out of date, and a number that was given to a new process is never hit.

use std::fs;
use std::path::Path;

use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;

/// The live processes whose working directory lies below `dir`. A zombie has none.
pub(crate) fn members(dir: &Path) -> Vec<Pid> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid: &i32| fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd.starts_with(dir)))
        .map(Pid::from_raw)
        .collect()
}

/// Sends `signal` to each of `pids`. One that ended meanwhile is no error: there is nothing left to signal.
pub(crate) fn signal_all(pids: &[Pid], signal: Signal) {
    for pid in pids {
        let _gone = signal::kill(*pid, signal);
    }
}

/// Kills what lives below `dir`, again until a look finds nothing: a process may fork while it is being looked for.
///
/// Bounded: a process that sleeps in the kernel dies later, and cannot be waited for here.
pub(crate) fn kill_members(dir: &Path) {
    for _ in 0..1000 {
        let found = members(dir);
        if found.is_empty() {
            return;
        }
        signal_all(&found, Signal::SIGKILL);
        std::thread::yield_now();
    }
}

/// Whether the kernel shows `pid` as stopped by a signal.
pub(crate) fn is_stopped(pid: Pid) -> bool {
    state(pid) == Some('T')
}

/// Whether `pid` is there and neither stopped nor a zombie.
pub(crate) fn is_going(pid: Pid) -> bool {
    state(pid).is_some_and(|state| !matches!(state, 'T' | 'Z'))
}

/// Whether there is such a process, a zombie included.
pub(crate) fn exists(pid: i32) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
}

/// The state letter of `/proc/PID/stat`; the name before it may hold anything but ends with the last parenthesis.
fn state(pid: Pid) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}
