//! What the tests of the binary share. Each test binary uses a part of it.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Output, Stdio};
use std::time::Duration;

use lockyard_testbed::timing::{eventually, scaled};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;
use tokio::process::{Child, Command};

/// How long anything may take that should happen soon.
pub(crate) const SOON: Duration = Duration::from_secs(60);

/// A folder of its own, and the locks in it.
pub(crate) struct Scratch {
    folder: TempDir,
    url: String,
}

impl Scratch {
    /// Locks in files.
    pub(crate) fn file() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let url = format!("file:{}", folder.path().join("locks").display());
        Self { folder, url }
    }

    /// Locks on this server.
    pub(crate) fn on(url: &str) -> Self {
        Self { folder: tempfile::tempdir().expect("a folder"), url: url.to_owned() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// What stands in a JSON file.
    pub(crate) fn json(&self, name: &str) -> serde_json::Value {
        let text = std::fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// `lockyard` on these locks, in this folder.
    pub(crate) fn lockyard(&self, args: &[&str]) -> Command {
        let mut command = bare(args);
        command.env("LOCKYARD_URL", &self.url).current_dir(self.folder());
        command
    }

    /// `lockyard` with a temporary folder of its own, open to servers that run as another user.
    pub(crate) fn lockyard_with_temporary(&self, args: &[&str]) -> Command {
        use std::os::unix::fs::PermissionsExt;
        let temporary = self.path("temporary");
        std::fs::create_dir_all(&temporary).expect("a folder");
        for folder in [self.folder(), &temporary] {
            std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)).expect("ours");
        }
        let mut command = self.lockyard(args);
        command.env("TMPDIR", temporary);
        command
    }

    /// What commands have left in their temporary folder.
    pub(crate) fn left_behind(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.path("temporary")).expect("a folder");
        entries.map(|entry| entry.expect("readable").path()).collect()
    }

    /// `lockyard run` of the shell script, without keeping the name closed afterwards.
    pub(crate) fn run(&self, name: &str, options: &[&str], script: &str) -> Command {
        let mut args = vec!["run", "--name", name, "--at-least-for", "0"];
        args.extend(options);
        args.extend(["--", "sh", "-c", script]);
        self.lockyard(&args)
    }

    /// Whether somebody holds the name.
    pub(crate) async fn is_held(&self, name: &str) -> bool {
        let output = finish(&mut self.lockyard(&["inspect", "--is-held", name])).await;
        match output.status.code() {
            Some(0) => true,
            Some(1) => false,
            _ => panic!("inspect failed: {output:?}"),
        }
    }

    /// Waits until the command has made this file, and returns what stands in it.
    pub(crate) async fn file_made(&self, name: &str) -> String {
        let read = || async { std::fs::read_to_string(self.path(name)).ok().filter(|text| text.ends_with('\n')) };
        eventually(SOON, read).await.unwrap_or_else(|| panic!("{name} was never made"))
    }

    /// Waits until the command has written its process number into this file.
    pub(crate) async fn pid_in(&self, name: &str) -> Pid {
        Pid::from_raw(self.file_made(name).await.trim().parse().expect("a process number"))
    }
}

/// The committed schema of this output.
pub(crate) fn schema(name: &str) -> jsonschema::Validator {
    let path = format!("{}/../docs/{name}.schema.json", env!("CARGO_MANIFEST_DIR"));
    let schema = serde_json::from_str(&std::fs::read_to_string(path).expect("a schema")).expect("JSON");
    jsonschema::validator_for(&schema).expect("a schema")
}

/// `lockyard` in an environment without any of its variables.
pub(crate) fn bare(args: &[&str]) -> Command {
    // Started as from a terminal: where the tests run under nohup, SIGHUP would be ignored by everything below them.
    let mut command = Command::new("env");
    command.args(["--default-signal", env!("CARGO_BIN_EXE_lockyard")]);
    for (variable, _) in std::env::vars_os().filter(|(v, _)| v.to_string_lossy().starts_with("LOCKYARD_")) {
        command.env_remove(variable);
    }
    // Whoever runs the tests may have settings.
    command.env("LOCKYARD_CONFIG", "/dev/null");
    command.args(args).stdin(Stdio::null()).kill_on_drop(true);
    command
}

/// Runs to the end, which comes soon.
pub(crate) async fn finish(command: &mut Command) -> Output {
    tokio::time::timeout(scaled(SOON), command.output()).await.expect("it ends soon").expect("it starts")
}

/// Waits for the end, which comes soon.
pub(crate) async fn end_of(child: &mut Child) -> ExitStatus {
    tokio::time::timeout(scaled(SOON), child.wait()).await.expect("it ends soon").expect("a status")
}

pub(crate) fn send(child: &Child, signal: Signal) {
    let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).expect("it runs");
    kill(Pid::from_raw(pid), signal).expect("it takes signals");
}

/// Whether the process catches SIGTERM by now: before that the signal would simply end it.
pub(crate) fn catches_signals(child: &Child) -> bool {
    let status =
        std::fs::read_to_string(format!("/proc/{}/status", child.id().unwrap_or_default())).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    // The last one that is listened to, and so all of them.
    caught & (1 << (Signal::SIGUSR2 as i32 - 1)) != 0
}

/// Whether a process is there and not merely waiting to be reaped.
pub(crate) fn lives(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}
