//! Keeps the processors awake: an idle one halts, and waking it costs more than a message to a server.

use std::io;
use std::process::{Child, Command, Stdio};

use crate::side::{Outcome, Trouble};

/// One spinner a processor, at the priority that only gets what nobody else wants. They end when this is dropped, and by
/// themselves when this process is gone.
#[derive(Debug)]
pub(crate) struct Spinners(Vec<Child>);

/// Counts in rounds, and looks between them whether its parent is still there.
const SPIN: &str = "while kill -0 \"$0\" 2>/dev/null; do i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; done";

impl Spinners {
    pub(crate) fn start() -> Outcome<Self> {
        let cores = std::thread::available_parallelism()?.get();
        let mut spinners = Self(Vec::with_capacity(cores));
        for _ in 0..cores {
            spinners
                .0
                .push(spawn().map_err(|error| Trouble::new(format!("cannot keep the machine awake: chrt: {error}")))?);
        }
        Ok(spinners)
    }
}

fn spawn() -> io::Result<Child> {
    // https://man7.org/linux/man-pages/man1/chrt.1.html
    Command::new("chrt")
        .args(["--idle", "0", "sh", "-c", SPIN, &std::process::id().to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
}

impl Drop for Spinners {
    fn drop(&mut self) {
        for spinner in &mut self.0 {
            // One that has ended already needs neither.
            let _ = spinner.kill();
            let _ = spinner.wait();
        }
    }
}
