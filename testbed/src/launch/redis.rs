//! Redis: `redis-server`, everything on its command line (<https://redis.io/docs/latest/operate/oss_and_stack/management/config/>).

use std::io;
use std::path::PathBuf;
use std::process::Command;

use nix::sys::signal::Signal;

use super::{Launch, Site, on_path};

#[derive(Debug)]
pub(super) struct Redis(PathBuf);

impl Redis {
    pub(super) fn find() -> Result<Self, String> {
        on_path("redis-server").map(Self)
    }
}

impl Launch for Redis {
    fn prepare(&self, _: &Site) -> io::Result<()> {
        Ok(())
    }

    fn command(&self, site: &Site) -> Command {
        let mut command = Command::new(&self.0);
        command
            .args(["--port", &site.port.to_string(), "--bind", "127.0.0.1", "--protected-mode", "no"])
            .args(["--daemonize", "no", "--save", "", "--appendonly", "no", "--dir"])
            .arg(&site.data)
            .args(&site.options.args);
        command
    }

    fn stop_signal(&self) -> Signal {
        Signal::SIGTERM
    }
}
