//! The processes that a command consists of, as `/proc` shows them.
//!
//! lockyard is the reaper of its descendants (`PR_SET_CHILD_SUBREAPER`): an orphan becomes its child, not that of the
//! system's first process, so that nothing the command starts gets out of sight.

use std::collections::{HashMap, HashSet};
use std::fs;

use nix::errno::Errno;
use nix::sys::prctl::set_child_subreaper;
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::Pid;

/// Looks for a child that has ended, without reaping it or waiting for it.
const LOOK: WaitPidFlag = WaitPidFlag::WEXITED.union(WaitPidFlag::WNOHANG).union(WaitPidFlag::WNOWAIT);

/// One living process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: Pid,
    pub(super) group: Pid,
    parent: Pid,
}

/// Makes this process the reaper of its descendants. Where the kernel refuses, orphans are merely out of sight.
pub(super) fn become_reaper() {
    let _ = set_child_subreaper(true);
}

/// All living descendants of this process.
pub(super) fn descendants() -> Vec<Process> {
    // The usual end. All of `/proc` takes milliseconds to read, and more where much runs.
    if !has_children() {
        return Vec::new();
    }
    let all = processes();
    let mut children: HashMap<Pid, Vec<Process>> = HashMap::new();
    for process in all {
        children.entry(process.parent).or_default().push(process);
    }
    let mut found = Vec::new();
    let mut seen = HashSet::new();
    let mut parents = vec![Pid::this()];
    while let Some(parent) = parents.pop() {
        for child in children.get(&parent).into_iter().flatten().filter(|child| seen.insert(child.pid)) {
            parents.push(child.pid);
            found.push(*child);
        }
    }
    found
}

/// Whether anything that this process started, or reaps, is there, if only to be reaped.
fn has_children() -> bool {
    waitid(Id::All, LOOK) != Err(Errno::ECHILD)
}

/// Reaps the orphans that have ended; never the command itself, whose status is awaited elsewhere.
pub(super) fn reap_orphans(command: Pid) {
    while let Ok(WaitStatus::Exited(pid, _) | WaitStatus::Signaled(pid, ..)) = waitid(Id::All, LOOK) {
        if pid == command || waitpid(pid, Some(WaitPidFlag::WNOHANG)).is_err() {
            return;
        }
    }
}

fn processes() -> Vec<Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter_map(|pid: i32| parse(pid, &fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)).collect()
}

/// `pid (name) state ppid pgrp …`: the name may hold anything (proc(5)). `None` for what has ended.
fn parse(pid: i32, stat: &str) -> Option<Process> {
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    let state = fields.next()?;
    let mut number = || fields.next()?.parse().ok().map(Pid::from_raw);
    let (parent, group) = (number()?, number()?);
    (!matches!(state, "Z" | "X")).then_some(Process { pid: Pid::from_raw(pid), group, parent })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_hold_anything() {
        let process = parse(7, "7 (a) Z 1) S 3 5 5 0 -1").expect("a process");
        assert_eq!((process.parent, process.group), (Pid::from_raw(3), Pid::from_raw(5)));
        assert_eq!(parse(7, "7 (sh) Z 3 5 5 0 -1"), None);
        assert_eq!(parse(7, ""), None);
    }
}
