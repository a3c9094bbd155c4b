//! Postgres: `initdb` and `postgres` (<https://www.postgresql.org/docs/15/app-initdb.html>, `app-postgres.html`).

use std::fs;
use std::io;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::sys::signal::Signal;
use nix::unistd::{Uid, User};

use super::{Launch, Site, is_executable, on_path};

/// Begins every log line of a server that counts; the lines of a statement that follow the first begin with a tab.
pub(crate) const LOG_PREFIX: &str = "lockyard-testbed: ";

#[derive(Debug)]
pub(super) struct Postgres {
    /// Holds `initdb` and `postgres`.
    bin: PathBuf,
    /// Postgres refuses to run as root, so there it runs as the user of the package.
    user: Option<(u32, u32)>,
}

impl Postgres {
    pub(super) fn find() -> Result<Self, String> {
        Ok(Self { bin: bin_dir()?, user: user()? })
    }

    fn tool(&self, name: &str, dir: &Path) -> Command {
        let mut command = Command::new(self.bin.join(name));
        command.current_dir(dir);
        if let Some((uid, gid)) = self.user {
            command.uid(uid).gid(gid);
        }
        command
    }

    fn initdb(&self, data: &Path) -> io::Result<()> {
        if let Some((uid, gid)) = self.user {
            chown(data, Some(uid), Some(gid))?;
        }
        let output = self
            .tool("initdb", data)
            .arg("-D")
            .arg(data)
            .args(["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync", "--no-instructions"])
            .stdin(Stdio::null())
            .output()?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        Err(io::Error::other(format!("initdb: {}: {said}", output.status)))
    }
}

impl Launch for Postgres {
    fn prepare(&self, site: &Site) -> io::Result<()> {
        if site.data.join("PG_VERSION").exists() { Ok(()) } else { self.initdb(&site.data) }
    }

    fn command(&self, site: &Site) -> Command {
        let mut command = self.tool("postgres", &site.data);
        command
            .arg("-D")
            .arg(&site.data)
            .args(["-p", &site.port.to_string(), "-c", "listen_addresses=127.0.0.1"])
            // The path of a socket is limited to 107 bytes, that of a temporary directory is not.
            .args(["-c", "unix_socket_directories="])
            .args(["-c", "client_connection_check_interval=500ms", "-c", "max_connections=400"])
            // In the data directory, and so gone with it: what lies in /dev/shm outlives a server that is killed.
            .args(["-c", "dynamic_shared_memory_type=mmap"])
            .args(&site.options.args);
        if site.options.counting {
            command
                .args(["-c", "log_statement=all", "-c", "log_min_duration_statement=0", "-c", "log_destination=stderr"])
                .args(["-c", "logging_collector=off", "-c", &format!("log_line_prefix={LOG_PREFIX}")]);
        }
        command
    }

    /// Fast shutdown: SIGTERM would wait until the last client has gone.
    fn stop_signal(&self) -> Signal {
        Signal::SIGINT
    }
}

/// The directory of the server's programs: where the `PATH` has them, else the newest version where Debian puts them.
fn bin_dir() -> Result<PathBuf, String> {
    if let Ok(postgres) = on_path("postgres")
        && let Some(dir) = postgres.parent()
        && is_executable(&dir.join("initdb"))
    {
        return Ok(dir.to_owned());
    }
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    versions
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse::<u32>().ok()?, entry.path().join("bin"))))
        .filter(|(_, bin)| is_executable(&bin.join("postgres")) && is_executable(&bin.join("initdb")))
        .max()
        .map(|(_, bin)| bin)
        .ok_or_else(|| "no postgres on the PATH nor in /usr/lib/postgresql".to_owned())
}

fn user() -> Result<Option<(u32, u32)>, String> {
    if !Uid::effective().is_root() {
        return Ok(None);
    }
    match User::from_name("postgres") {
        Ok(Some(user)) => Ok(Some((user.uid.as_raw(), user.gid.as_raw()))),
        _ => Err("Postgres does not run as root, and there is no user postgres".to_owned()),
    }
}
