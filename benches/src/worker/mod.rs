//! Clients in processes of their own: for scenarios of several processes, for what has to be killed, and for figures of one
//! client alone.

mod order;
mod serve;

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

pub(crate) use order::{Answer, Order, Turn};
pub use serve::serve;

use crate::side::{Outcome, Trouble};

/// Makes the command that runs [`serve`] over the backend of a URL.
pub type Spawn = Arc<dyn Fn(&str) -> Command + Send + Sync>;

/// The other end of a worker process. Killed when dropped.
#[derive(Debug)]
pub(crate) struct Worker {
    child: Child,
    orders: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Worker {
    pub(crate) fn start(spawn: &Spawn, url: &str) -> Outcome<Self> {
        let mut command = spawn(url);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn()?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (orders, answers) = pipes.ok_or_else(|| Trouble::new("a worker without pipes"))?;
        Ok(Self { child, orders, answers: BufReader::new(answers).lines() })
    }

    pub(crate) async fn tell(&mut self, order: &Order) -> Outcome<()> {
        let mut line = serde_json::to_string(order)?;
        line.push('\n');
        self.orders.write_all(line.as_bytes()).await?;
        Ok(self.orders.flush().await?)
    }

    /// The next answer; that it could not is an error.
    pub(crate) async fn hear(&mut self, limit: Duration) -> Outcome<Answer> {
        let line = tokio::time::timeout(limit, self.answers.next_line()).await;
        let line = line.map_err(|_| Trouble::new(format!("a worker said nothing for {} s", limit.as_secs())))??;
        let line = line.ok_or_else(|| Trouble::new("a worker ended early"))?;
        match serde_json::from_str(&line)? {
            Answer::Failed { reason } => Err(Trouble(reason)),
            answer => Ok(answer),
        }
    }

    /// Waits until it stands where it was told to, and returns the time that it tells of then.
    pub(crate) async fn ready(&mut self, limit: Duration) -> Outcome<Option<Duration>> {
        match self.hear(limit).await? {
            Answer::Ready { millis } => Ok(millis.map(Duration::from_millis)),
            other => Err(unexpected(&other)),
        }
    }

    /// Stops it from running; it is killed at the end.
    pub(crate) fn freeze(&self) -> Outcome<()> {
        let pid = self.child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(rustix::process::Pid::from_raw);
        let pid = pid.ok_or_else(|| Trouble::new("a worker has ended"))?;
        Ok(rustix::process::kill_process(pid, rustix::process::Signal::STOP)?)
    }

    /// Kills it, and returns when it is gone.
    pub(crate) async fn kill(&mut self) -> Outcome<()> {
        Ok(self.child.kill().await?)
    }

    /// Lets it end in order.
    pub(crate) async fn end(mut self, limit: Duration) -> Outcome<()> {
        drop(self.orders);
        match tokio::time::timeout(limit, self.child.wait()).await {
            Ok(ended) => ended.map(drop).map_err(Trouble::from),
            Err(_) => Ok(self.child.kill().await?),
        }
    }
}

/// An answer to another question.
pub(crate) fn unexpected(answer: &Answer) -> Trouble {
    Trouble::new(format!("a worker answered out of turn: {answer:?}"))
}
