//! A client of locks in a process of its own, which can be stopped and killed. Tests include this module by its path.

mod order;

use std::io;
use std::path::Path;
use std::process::Stdio;

use lockyard_conformance::history::Event;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::mpsc::UnboundedSender;

pub(crate) use order::{Do, Order};

/// The other end of a `lockyard chaos-client`. Killed when dropped.
#[derive(Debug)]
pub(crate) struct Puppet {
    process: u32,
    pid: Pid,
    child: Child,
    orders: Option<ChildStdin>,
    told: UnboundedSender<Event>,
}

impl Puppet {
    /// Starts the client: `lockyard`, whose environment says where the locks are. Its registers are in the folder. `told`
    /// hears of all that it does, its end included.
    pub(crate) fn start(
        lockyard: Command,
        process: u32,
        registers: &Path,
        told: UnboundedSender<Event>,
    ) -> io::Result<Self> {
        Self::start_several(lockyard, process, 1, registers, told)
    }

    /// As [`Puppet::start`], so many clients in one process. The number of an order, modulo theirs, says whose it is.
    pub(crate) fn start_several(
        mut lockyard: Command,
        process: u32,
        clients: u64,
        registers: &Path,
        told: UnboundedSender<Event>,
    ) -> io::Result<Self> {
        lockyard.args(["chaos-client", "--process", &process.to_string(), "--clients", &clients.to_string()]);
        lockyard.arg("--register").arg(registers);
        lockyard.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = lockyard.spawn()?;
        let gone = || io::Error::other("the client ended at once");
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).map(Pid::from_raw).ok_or_else(gone)?;
        let (orders, events) = child.stdin.take().zip(child.stdout.take()).ok_or_else(gone)?;
        tokio::spawn(listen(events, process, told.clone()));
        Ok(Self { process, pid, child, orders: Some(orders), told })
    }

    /// Its number in histories.
    pub(crate) const fn process(&self) -> u32 {
        self.process
    }

    /// The number of its process.
    pub(crate) fn pid(&self) -> u32 {
        self.pid.as_raw().unsigned_abs()
    }

    /// Tells it to do something. A frozen client does it when it is thawed, a dead one never.
    pub(crate) async fn order(&mut self, op: u64, what: Do) -> io::Result<()> {
        let mut line = serde_json::to_string(&Order { op, what })?;
        line.push('\n');
        let orders = self.orders.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        orders.write_all(line.as_bytes()).await?;
        orders.flush().await
    }

    /// Stops it from running.
    pub(crate) fn freeze(&self) -> io::Result<()> {
        Ok(kill(self.pid, Signal::SIGSTOP)?)
    }

    /// Lets it run on.
    pub(crate) fn thaw(&self) -> io::Result<()> {
        Ok(kill(self.pid, Signal::SIGCONT)?)
    }

    /// Kills it, and returns when it is gone.
    pub(crate) async fn kill(mut self) -> io::Result<()> {
        // Before the signal, so that nothing the client could not have done any more counts as done.
        let ended = Event::ended(now(), self.process);
        self.child.start_kill()?;
        let _nobody_listens = self.told.send(ended);
        self.child.wait().await.map(drop)
    }

    /// Closes its input, so that it gives back what it has and ends; returns whether it did so in order.
    pub(crate) async fn end(&mut self) -> io::Result<bool> {
        drop(self.orders.take());
        Ok(self.child.wait().await?.success())
    }
}

async fn listen(events: ChildStdout, process: u32, told: UnboundedSender<Event>) {
    let mut lines = BufReader::new(events).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        // A client that is killed may leave half a line.
        if let Ok(event) = serde_json::from_str(&line)
            && told.send(event).is_err()
        {
            return;
        }
    }
    let _nobody_listens = told.send(Event::ended(now(), process));
}

/// The time of an event that happens now.
pub(crate) fn now() -> u64 {
    nanos(lockyard::Clock::system().now())
}

/// A moment as the time of an event.
pub(crate) fn nanos(moment: lockyard::Moment) -> u64 {
    u64::try_from(moment.since_boot().as_nanos()).unwrap_or(u64::MAX)
}
