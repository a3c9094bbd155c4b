//! The running command and its process group.

use std::io::{self, IsTerminal};
use std::os::fd::OwnedFd;
use std::process::{ExitStatus, Stdio};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::{Pid, getpgrp};
use tokio::process::{Child as Process, Command};

use super::deathsig::die_with_parent;
use super::env::Facts;
use super::program::Program;
use super::tree;
use crate::args::RunArgs;
use crate::exit::{Exit, Failure};

/// The command, started.
#[derive(Debug)]
pub(super) struct Child {
    process: Process,
    pid: Pid,
    group: Group,
    status: Option<ExitStatus>,
}

/// Where the command's processes are found.
#[derive(Debug, Clone, Copy)]
enum Group {
    /// A group of its own.
    Own,
    /// On a terminal, the group of lockyard: the keys of the terminal reach both, and job control works.
    Shared,
}

impl Child {
    /// Starts the command, with the lock's descriptor where it is to have it. Call it on the first thread.
    pub(super) fn start(
        program: &Program,
        args: &RunArgs,
        facts: &Facts,
        lock: Option<OwnedFd>,
    ) -> Result<Self, Failure> {
        tree::become_reaper();
        let mut command = Command::new(&program.path);
        command.args(&program.arguments);
        facts.put_into(&mut command, args.pass_backend);
        if args.no_stdin {
            command.stdin(Stdio::null());
        }
        let group = if !args.no_stdin && io::stdin().is_terminal() { Group::Shared } else { Group::Own };
        if let Group::Own = group {
            command.process_group(0);
        }
        die_with_parent(&mut command);
        if let Some(lock) = &lock {
            inherit(lock)?;
        }
        let shown = program.path.to_string_lossy();
        let process = command.spawn().map_err(|error| {
            let exit = if error.kind() == io::ErrorKind::NotFound { Exit::NotFound } else { Exit::NotExecutable };
            Failure::new(exit, format!("{shown}: cannot be executed: {error}"))
        })?;
        let pid = process.id().and_then(|pid| i32::try_from(pid).ok()).map(Pid::from_raw);
        let pid = pid.ok_or_else(|| Failure::internal(format!("{shown}: has no process number")))?;
        Ok(Self { process, pid, group, status: None })
    }

    /// Ends when the command itself has ended. Dropped, it misses nothing.
    pub(super) async fn ended(&mut self) -> io::Result<ExitStatus> {
        let status = self.process.wait().await?;
        self.status = Some(status);
        Ok(status)
    }

    /// How the command ended, once it has.
    pub(super) const fn status(&self) -> Option<ExitStatus> {
        self.status
    }

    /// Whether the keys of a terminal reach the command without lockyard.
    pub(super) const fn shares_terminal(&self) -> bool {
        matches!(self.group, Group::Shared)
    }

    /// The living processes of the command's group.
    pub(super) fn members(&self) -> Vec<Pid> {
        let group = self.group_id();
        tree::descendants().into_iter().filter(|process| process.group == group).map(|process| process.pid).collect()
    }

    /// What the command has started and put into other groups.
    pub(super) fn strays(&self) -> Vec<Pid> {
        let group = self.group_id();
        tree::descendants().into_iter().filter(|process| process.group != group).map(|process| process.pid).collect()
    }

    /// Sends a signal to the group. Those that have ended meanwhile do not matter.
    pub(super) fn signal(&self, signal: Signal) {
        match self.group {
            // A number that nobody has any more may belong to another soon.
            Group::Own if self.status.is_some() && self.members().is_empty() => {}
            Group::Own => {
                let _ = killpg(self.pid, signal);
            }
            Group::Shared => {
                for member in self.members() {
                    let _ = kill(member, signal);
                }
            }
        }
    }

    /// Gives orphans of the command their rest.
    pub(super) fn reap_orphans(&self) {
        tree::reap_orphans(self.pid);
    }

    fn group_id(&self) -> Pid {
        match self.group {
            Group::Own => self.pid,
            Group::Shared => getpgrp(),
        }
    }
}

/// Leaves a descriptor open for the command. This copy of it is for nothing else, and no other process is started
/// meanwhile.
fn inherit(descriptor: &OwnedFd) -> Result<(), Failure> {
    let done = fcntl(descriptor, FcntlArg::F_SETFD(FdFlag::empty()));
    done.map(drop).map_err(|error| Failure::internal(format!("the command cannot inherit the lock: {error}")))
}
