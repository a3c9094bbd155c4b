//! The command dies with lockyard, however lockyard dies.

use std::io;

use nix::errno::Errno;
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use nix::unistd::{Pid, getppid};
use tokio::process::Command;

/// Lets the kernel kill the command when the thread that starts it ends (`PR_SET_PDEATHSIG`, prctl(2)): start it from
/// the first thread, which lives as long as the process.
#[expect(unsafe_code, reason = "a parent-death signal can only be asked for between fork and exec")]
pub(super) fn die_with_parent(command: &mut Command) {
    let parent = Pid::this();
    let ask = move || {
        set_pdeathsig(Signal::SIGKILL)?;
        // The parent may have died before the kernel knew.
        if getppid() == parent { Ok(()) } else { Err(io::Error::from(Errno::ESRCH)) }
    };
    // SAFETY: between fork and exec only async-signal-safe calls are allowed. The closure makes two system calls, and
    // allocates nothing: both errors are plain numbers.
    unsafe { command.pre_exec(ask) };
}
