//! The examples, against real servers.

mod support;

use std::process::Stdio;

use lockyard_testbed::Service;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use support::{Checked, server_of, soon};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

/// An example that runs.
struct Example {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Example {
    /// Starts it as it was built with this test.
    fn start(name: &str, url: &str) -> Checked<Self> {
        let folder =
            std::env::current_exe()?.parent().and_then(|deps| deps.parent()).ok_or("no folder")?.join("examples");
        let mut command = Command::new(folder.join(name));
        command.arg(url).stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child =
            command.spawn().map_err(|error| format!("{name}: {error}: build it by cargo build --examples"))?;
        let lines = BufReader::new(child.stdout.take().ok_or("no output")?).lines();
        Ok(Self { child, lines })
    }

    /// The next line that begins so.
    async fn says(&mut self, start: &str) -> Checked<String> {
        let found = async {
            while let Some(line) = self.lines.next_line().await? {
                if line.starts_with(start) {
                    return Ok(line);
                }
            }
            Err(format!("it ended without {start:?}").into())
        };
        soon(found).await?
    }

    async fn interrupt(mut self) -> Checked {
        let pid = self.child.id().ok_or("it has ended")?;
        kill(Pid::from_raw(i32::try_from(pid)?), Signal::SIGINT)?;
        self.ends().await
    }

    async fn ends(&mut self) -> Checked {
        let status = soon(self.child.wait()).await??;
        assert!(status.success(), "{status}");
        Ok(())
    }
}

#[tokio::test]
async fn cluster_cron() -> Checked {
    let Some(server) = server_of(Service::Redis).await? else { return Ok(()) };
    let mut replicas =
        [Example::start("cluster_cron", &server.lock_url())?, Example::start("cluster_cron", &server.lock_url())?];
    for replica in &mut replicas {
        // Of the other replica's slots it says that they are used, or just being run.
        let line = replica.says("").await?;
        assert!(line.starts_with("ran ") || line.starts_with("skipped "), "{line}");
    }
    for replica in replicas {
        replica.interrupt().await?;
    }
    Ok(())
}

#[tokio::test]
async fn sharded_job() -> Checked {
    let Some(server) = server_of(Service::Redis).await? else { return Ok(()) };
    let mut first = Example::start("sharded_job", &server.lock_url())?;
    first.says("owned [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]").await?;
    let mut second = Example::start("sharded_job", &server.lock_url())?;
    // One of the items that the first gives back.
    while second.says("owned [").await? == "owned []" {}
    second.interrupt().await?;
    first.says("owned [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]").await?;
    first.interrupt().await
}

#[tokio::test]
async fn leader() -> Checked {
    let Some(server) = server_of(Service::Postgres).await? else { return Ok(()) };
    let mut first = Example::start("leader", &server.lock_url())?;
    first.says("leading").await?;
    let mut second = Example::start("leader", &server.lock_url())?;
    second.says("waiting").await?;
    first.interrupt().await?;
    second.says("leading").await?;
    second.interrupt().await
}

#[tokio::test]
async fn fenced_write() -> Checked {
    let Some(server) = server_of(Service::Etcd).await? else { return Ok(()) };
    let mut example = Example::start("fenced_write", &server.lock_url())?;
    let late = example.says("paused holder").await?;
    assert!(late.contains("StaleToken"), "{late}");
    example.ends().await
}
