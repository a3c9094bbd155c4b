//! How each server is started as a process: where it is found, what it needs on disk, its command line.

mod etcd;
mod postgres;
mod redis;
mod zookeeper;

pub(crate) use postgres::LOG_PREFIX;

use std::fmt::Debug;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use nix::sys::signal::Signal;

use crate::{Options, Service};

/// An installed server.
pub(crate) trait Launch: Debug + Send + Sync {
    /// Makes on disk what the command needs, unless it is there.
    fn prepare(&self, site: &Site) -> io::Result<()>;
    /// The command that runs the server in the foreground.
    fn command(&self, site: &Site) -> Command;
    /// The signal that ends the server in order and without waiting for its clients.
    fn stop_signal(&self) -> Signal;
}

/// The place a server is started in.
#[derive(Debug, Clone)]
pub(crate) struct Site {
    /// Holds the data and is the working directory.
    pub(crate) data: PathBuf,
    /// Holds a configuration that outlives the data.
    pub(crate) home: PathBuf,
    /// Clients connect here.
    pub(crate) port: u16,
    /// Other servers connect here, where the service wants it.
    pub(crate) peer_port: u16,
    /// Its place among others, unless it stands alone.
    pub(crate) member: Option<Member>,
    pub(crate) options: Options,
}

/// One server's view of the ensemble that it belongs to.
#[derive(Debug, Clone)]
pub(crate) struct Member {
    /// Its own place in the list.
    pub(crate) me: usize,
    /// All members, as this one reaches them.
    pub(crate) peers: Vec<Peer>,
}

/// Where a member of an ensemble is reached by another.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer {
    /// For what the leader and its followers say to each other: by way of a proxy.
    pub(crate) port: u16,
    /// For the election of a leader, where the service has a port of its own for it.
    pub(crate) election: u16,
}

/// The installed server, or what was looked for in vain.
pub(crate) fn find(service: Service) -> Result<Arc<dyn Launch>, String> {
    Ok(match service {
        Service::Redis => Arc::new(redis::Redis::find()?),
        Service::Postgres => Arc::new(postgres::Postgres::find()?),
        Service::Etcd => Arc::new(etcd::Etcd::find()?),
        Service::Zookeeper => Arc::new(zookeeper::Zookeeper::find()?),
    })
}

/// Looks for an executable in `PATH`, and in the system's directories, which the path of a service or a plain user may lack.
fn on_path(name: &str) -> Result<PathBuf, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/local/bin", "/usr/bin", "/usr/local/sbin", "/usr/sbin"].map(PathBuf::from))
        .map(|dir| dir.join(name))
        .find(|file| is_executable(file))
        .ok_or_else(|| format!("no {name} on the PATH"))
}

fn is_executable(file: &Path) -> bool {
    file.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}
