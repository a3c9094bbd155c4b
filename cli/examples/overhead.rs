//! What `lockyard run` costs over the bare command and over flock(1), measured in turn.
//!
//! `cargo build --release -p lockyard-cli && cargo run -q -p lockyard-cli --example overhead -- target/release/lockyard`

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use lockyard::Clock;
use lockyard_testbed::{Server, Service};

/// The goals: over `sh -c :` on Redis, over `flock -n FILE sh -c :` on files.
const REDIS: Duration = Duration::from_millis(15);
const FILE: Duration = Duration::from_millis(5);

#[tokio::main]
async fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let (Some(lockyard), rounds) = (words.next(), words.next().and_then(|rounds| rounds.parse().ok()).unwrap_or(200))
    else {
        eprintln!("usage: overhead LOCKYARD [ROUNDS]: the binary to measure, built with --release");
        return ExitCode::from(64);
    };
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(Service::Redis).await.expect("redis-server is installed");
    let files = format!("file:{}", folder.path().display());
    let flock = folder.path().join("flock");
    let run = |url: &str| {
        let mut command = Command::new(&lockyard);
        command.args(["run", "-n", "job", "--at-least-for", "0", "--", "sh", "-c", ":"]).env("LOCKYARD_URL", url);
        command
    };
    let mut samples: [Vec<Duration>; 4] = Default::default();
    for _ in 0..rounds {
        samples[0].push(time(&mut bare()));
        samples[1].push(time(&mut run(&server.lock_url())));
        samples[2].push(time(&mut under_flock(&flock)));
        samples[3].push(time(&mut run(&files)));
    }
    let [bare, redis, flock, file] = samples.map(median);
    let mut reached = true;
    for (name, ours, floor, beside, goal) in
        [("redis", redis, bare, "sh -c", REDIS), ("file", file, flock, "flock", FILE)]
    {
        let over = ours.saturating_sub(floor);
        reached &= over <= goal;
        let verdict = if over <= goal { "reached" } else { "not reached" };
        println!(
            "{name}: {ours:.1?}, {beside} {floor:.1?}: {over:.1?} more, goal {goal:?}: {verdict} ({rounds} rounds, medians)"
        );
    }
    if reached { ExitCode::SUCCESS } else { ExitCode::from(99) }
}

fn bare() -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", ":"]);
    command
}

fn under_flock(path: &Path) -> Command {
    let mut command = Command::new("flock");
    command.arg("-n").arg(path).args(["sh", "-c", ":"]);
    command
}

/// How long the command takes from its start to its end.
fn time(command: &mut Command) -> Duration {
    let clock = Clock::system();
    let began = clock.now();
    let status = command.stdin(Stdio::null()).status().expect("it starts");
    assert!(status.success(), "{command:?} ended with {status}");
    clock.now().since(began)
}

fn median(mut samples: Vec<Duration>) -> Duration {
    samples.sort();
    samples[samples.len() / 2]
}
