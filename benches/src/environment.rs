//! The machine that was measured on: no host name, no paths, nothing that tells whose it is.

use std::fs;
use std::time::{Duration, SystemTime};

use lockyard_api::{Clock, Host};
use serde::{Deserialize, Serialize};
use tokio::net::TcpStream;

/// Where and when the figures were taken.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Environment {
    /// When the run began, RFC 3339 in UTC.
    pub date: String,
    /// The processor's name.
    pub cpu: String,
    /// How many processors this process may use.
    pub cores: u64,
    /// The machine's memory in MiB.
    pub memory_mib: u64,
    /// The kernel's version.
    pub kernel: String,
    /// The distribution.
    pub os: String,
    /// Whether it is a container.
    pub container: bool,
    /// The load average over one minute when the run began.
    pub load: f64,
    /// The compiler.
    pub rustc: String,
    /// `release`, or `debug`: figures of a debug build mean nothing.
    pub profile: String,
}

impl Environment {
    /// This machine, now.
    #[must_use]
    pub fn here() -> Self {
        let load = read("/proc/loadavg").split(' ').next().and_then(|load| load.parse().ok()).unwrap_or_default();
        let memory = field(&read("/proc/meminfo"), "MemTotal");
        let memory_kib: u64 = memory.trim_end_matches(" kB").parse().unwrap_or_default();
        Self {
            date: now(),
            cpu: field(&read("/proc/cpuinfo"), "model name"),
            cores: std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64),
            memory_mib: memory_kib / 1024,
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            os: os_name(&read("/etc/os-release")),
            container: in_container(),
            load,
            rustc: env!("LOCKYARD_RUSTC").to_owned(),
            profile: if cfg!(debug_assertions) { "debug" } else { "release" }.to_owned(),
        }
    }
}

/// How long the first server of a URL takes to accept a connection, in µs: one round trip of the network, for the kernel of the
/// server answers. The median of several; `None` when nothing answers.
pub(crate) async fn round_trip_us(hosts: &[Host], default_port: u16, clock: &Clock) -> Option<f64> {
    const TIMES: usize = 15;
    const LIMIT: Duration = Duration::from_secs(1);
    let host = hosts.first()?;
    let address = (host.name.as_str(), host.port.unwrap_or(default_port));
    let mut taken = Vec::with_capacity(TIMES);
    for _ in 0..TIMES {
        let from = clock.now();
        let connected = tokio::time::timeout(LIMIT, TcpStream::connect(address)).await.ok()?;
        taken.push(clock.now().since(from).as_secs_f64() * 1e6);
        drop(connected.ok()?);
    }
    crate::stats::median(&taken).map(crate::stats::round)
}

#[expect(clippy::disallowed_methods, reason = "the date of a report, no deadline")]
fn now() -> String {
    humantime::format_rfc3339_seconds(SystemTime::now()).to_string()
}

/// What cannot be read is left empty.
fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// The value of the first `name : value` line.
fn field(text: &str, name: &str) -> String {
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    lines.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim().to_owned()).unwrap_or_default()
}

fn os_name(text: &str) -> String {
    let line = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    line.unwrap_or_default().trim_matches('"').to_owned()
}

fn in_container() -> bool {
    let marked = ["/.dockerenv", "/run/.containerenv"].iter().any(|path| fs::exists(path).unwrap_or(false));
    marked || std::env::var_os("container").is_some() || read("/proc/1/cgroup").contains("docker")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_is_described() {
        let here = Environment::here();
        assert!(here.cores >= 1 && here.date.ends_with('Z') && here.rustc.contains("rustc"), "{here:?}");
    }

    #[tokio::test]
    async fn a_round_trip_takes_time_and_nobody_takes_none() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("its address").port();
        let (hosts, clock) = ([Host::new("127.0.0.1", Some(port))], Clock::system());
        assert!(round_trip_us(&hosts, 0, &clock).await.is_some_and(|us| us > 0.0));
        // A port where nobody has listened: a process that is just being started may still have a copy of one that was dropped.
        let hosts = [Host::new("127.0.0.1", Some(1))];
        assert_eq!(round_trip_us(&hosts, 0, &clock).await, None);
        assert_eq!(round_trip_us(&[], 0, &clock).await, None);
    }

    #[test]
    fn lines_are_found() {
        assert_eq!(field("a : 1\nmodel name\t: Some CPU\nmodel name: Other\n", "model name"), "Some CPU");
        assert_eq!(os_name("ID=x\nPRETTY_NAME=\"Some Linux 1\"\n"), "Some Linux 1");
    }
}
