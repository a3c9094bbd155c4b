//! etcd: alone, or a member of a cluster (<https://etcd.io/docs/v3.4/op-guide/configuration/>).

use std::io;
use std::path::PathBuf;
use std::process::Command;

use nix::sys::signal::Signal;

use super::{Launch, Site, on_path};

#[derive(Debug)]
pub(super) struct Etcd(PathBuf);

impl Etcd {
    pub(super) fn find() -> Result<Self, String> {
        on_path("etcd").map(Self)
    }
}

impl Launch for Etcd {
    fn prepare(&self, _: &Site) -> io::Result<()> {
        Ok(())
    }

    fn command(&self, site: &Site) -> Command {
        let url = |port: u16| format!("http://127.0.0.1:{port}");
        let (client, peer) = (url(site.port), url(site.peer_port));
        let me = site.member.as_ref().map_or(0, |member| member.me);
        // One list for all members: they compare it.
        let members = match &site.member {
            Some(member) => member.peers.iter().map(|peer| url(peer.port)).collect(),
            None => vec![peer.clone()],
        };
        let cluster: Vec<String> = members.iter().enumerate().map(|(at, url)| format!("n{at}={url}")).collect();
        let mut command = Command::new(&self.0);
        command
            .args(["--name", &format!("n{me}"), "--data-dir"])
            .arg(&site.data)
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &members[me]])
            .args(["--initial-cluster", &cluster.join(",")])
            .args(["--logger", "zap", "--log-outputs", "stderr", "--log-level", "warn"])
            // No lease is shorter than the election timeout, rounded up: with the default of 1 s none of 1 s is granted.
            .args(["--heartbeat-interval", "50", "--election-timeout", "250"])
            .args(&site.options.args);
        command
    }

    fn stop_signal(&self) -> Signal {
        Signal::SIGTERM
    }
}
