//! ZooKeeper: the Debian jar under `java` (<https://zookeeper.apache.org/doc/r3.8.0/zookeeperAdmin.html>).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::signal::Signal;

use super::{Launch, Site, on_path};

const SERVER_JAR: &str = "/usr/share/java/zookeeper.jar";
const LOG_JAR: &str = "/usr/share/java/slf4j-simple.jar";
const MAIN: &str = "org.apache.zookeeper.server.quorum.QuorumPeerMain";

/// Logs every request with its type, pings included, before it is answered.
const COUNTING: &str = "-Dorg.slf4j.simpleLogger.log.org.apache.zookeeper.server.FinalRequestProcessor=debug";

/// How long an election may take beyond what it takes, in ms. A member that lost its leader waits 10 s for requests that nobody
/// answers before it stands for election, and one that found no leader asks again after twice the time, up to a minute.
const ELECTION: [&str; 2] =
    ["-Dzookeeper.request_throttler.shutdownTimeout=200", "-Dzookeeper.fastleader.maxNotificationInterval=500"];

#[derive(Debug)]
pub(super) struct Zookeeper {
    java: PathBuf,
}

impl Zookeeper {
    pub(super) fn find() -> Result<Self, String> {
        let java = on_path("java")?;
        match [SERVER_JAR, LOG_JAR].into_iter().find(|jar| !Path::new(jar).exists()) {
            Some(jar) => Err(format!("no {jar}")),
            None => Ok(Self { java }),
        }
    }
}

impl Launch for Zookeeper {
    fn prepare(&self, site: &Site) -> io::Result<()> {
        if let Some(member) = &site.member {
            fs::write(site.data.join("myid"), number(member.me).to_string())?;
        }
        fs::write(config(site), settings(site))
    }

    fn command(&self, site: &Site) -> Command {
        let mut command = Command::new(&self.java);
        command.args(["-Xms32m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]);
        // What it counts for its tools lies outside of the home, and outlives it when it is killed.
        command.arg("-XX:-UsePerfData");
        if site.options.counting {
            command.arg(COUNTING);
        }
        if site.member.is_some() {
            command.args(ELECTION);
        }
        command.args(["-cp", &format!("{SERVER_JAR}:{LOG_JAR}"), MAIN]).arg(config(site));
        command
    }

    fn stop_signal(&self) -> Signal {
        Signal::SIGTERM
    }
}

fn config(site: &Site) -> PathBuf {
    site.home.join("zoo.cfg")
}

/// Servers are numbered from one.
const fn number(at: usize) -> usize {
    at + 1
}

/// The session timeout is between two and twenty ticks unless both bounds are given.
fn settings(site: &Site) -> String {
    let mut lines = vec![
        "tickTime=200".to_owned(),
        "minSessionTimeout=400".to_owned(),
        "maxSessionTimeout=300000".to_owned(),
        format!("dataDir={}", site.data.display()),
        format!("clientPort={}", site.port),
        "clientPortAddress=127.0.0.1".to_owned(),
        "admin.enableServer=false".to_owned(),
        "4lw.commands.whitelist=*".to_owned(),
        "maxClientCnxns=0".to_owned(),
    ];
    if let Some(member) = &site.member {
        // In ticks: how long a follower may take to join, and to be in step with its leader.
        lines.extend(["initLimit=50", "syncLimit=20", "standaloneEnabled=false"].map(str::to_owned));
        lines.extend(
            member
                .peers
                .iter()
                .enumerate()
                .map(|(at, peer)| format!("server.{}=127.0.0.1:{}:{}", number(at), peer.port, peer.election)),
        );
    }
    lines.extend(site.options.args.iter().cloned());
    lines.push(String::new());
    lines.join("\n")
}
