//! `lockyard run` on Redis: the loss of a lock, and what the command sees of the connection.
#![cfg(feature = "redis")]

mod support;

use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lockyard_testbed::timing::{eventually, scaled};
use lockyard_testbed::{Server, Service};
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use support::{SOON, Scratch, bare, end_of, finish, lives, schema, send, stderr, stdout};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

async fn redis() -> Option<(Server, Scratch)> {
    let server = Server::start_or_skip(Service::Redis).await.expect("a server that works")?;
    let scratch = Scratch::on(&server.lock_url());
    Some((server, scratch))
}

/// Removes every record of the name, as an operator would by hand.
async fn revoke(server: &Server, name: &str) {
    let mut stream = BufReader::new(TcpStream::connect(server.addr()).await.expect("it answers"));
    stream.write_all(format!("KEYS *{name}*\r\n").as_bytes()).await.expect("sent");
    let mut lines = stream.lines();
    let mut next = async || lines.next_line().await.expect("an answer").expect("a line");
    let count: usize = next().await.trim_start_matches('*').parse().expect("a list");
    let mut keys = Vec::new();
    for _ in 0..count {
        next().await;
        keys.push(next().await);
    }
    assert!(!keys.is_empty(), "the lock has a record");
    let mut stream = TcpStream::connect(server.addr()).await.expect("it answers");
    stream.write_all(format!("DEL {}\r\n", keys.join(" ")).as_bytes()).await.expect("sent");
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).await.expect("an answer");
    assert!(answer.starts_with(':'), "{answer}");
}

#[tokio::test]
async fn runs_skips_waits_and_shows_its_holder() {
    let Some((_server, scratch)) = redis().await else { return };
    let mut first = scratch.run("job", &[], "echo $$ > pid; while :; do sleep 0.05; done").spawn().expect("starts");
    scratch.pid_in("pid").await;
    let output = finish(&mut scratch.run("job", &[], "true")).await;
    assert_eq!((output.status.code(), stderr(&output)), (Some(75), String::new()));
    let table = stdout(&finish(&mut scratch.lockyard(&["inspect", "job", "free"])).await);
    let lines: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!((lines[1][0], lines[1][1], lines[2][1]), ("job", "held", "free"), "{table}");
    let names = stdout(&finish(&mut scratch.lockyard(&["inspect", "-o", "name", "job", "free"])).await);
    assert_eq!(names, "job\n");
    let mut waiting = scratch.run("job", &["--wait", "30s"], "exit 5").spawn().expect("starts");
    send(&first, Signal::SIGTERM);
    assert_eq!(end_of(&mut first).await.code(), Some(143));
    assert_eq!(end_of(&mut waiting).await.code(), Some(5));
}

#[tokio::test]
async fn who_gives_up_waiting_leaves_no_place_in_the_queue() {
    let Some((_server, scratch)) = redis().await else { return };
    let mut holder = scratch.run("job", &[], "echo $$ > pid; while :; do sleep 0.05; done").spawn().expect("starts");
    scratch.pid_in("pid").await;
    let waiters = async || {
        let output = finish(&mut scratch.lockyard(&["inspect", "-o", "json", "job"])).await;
        let json: serde_json::Value = serde_json::from_str(&stdout(&output)).expect("JSON");
        json["locks"][0]["waiters"].as_u64().expect("Redis counts its waiters")
    };
    let mut waiting = scratch.run("job", &["--wait-forever"], "echo never > never").spawn().expect("starts");
    eventually(SOON, || async { waiters().await == 1 }).await.expect("it queues");
    send(&waiting, Signal::SIGTERM);
    let end = tokio::time::timeout(scaled(Duration::from_secs(1)), waiting.wait()).await.expect("within a second");
    assert_eq!(end.expect("a status").code(), Some(143));
    assert_eq!(waiters().await, 0);
    assert!(!scratch.path("never").exists());
    send(&holder, Signal::SIGTERM);
    end_of(&mut holder).await;
}

/// B148: only the shell was killed, the worker went on.
#[tokio::test]
async fn when_the_lock_is_revoked_the_whole_group_ends() {
    let Some((server, scratch)) = redis().await else { return };
    std::fs::write(scratch.path("worker.sh"), "trap '' TERM; echo $$ > worker; while :; do sleep 0.05; done")
        .expect("written");
    let options = ["--ttl", "1500ms", "--status-file", "status.json"];
    let mut run = scratch.run("job", &options, "echo $$ > shell; sh worker.sh & wait").spawn().expect("starts");
    let (shell, worker) = (scratch.pid_in("shell").await, scratch.pid_in("worker").await);
    revoke(&server, "job").await;
    assert_eq!(end_of(&mut run).await.code(), Some(79));
    assert!(!lives(shell) && !lives(worker), "nothing of the group is left when lockyard ends");
    let status = scratch.json("status.json");
    assert!(schema("status").is_valid(&status), "{status:#}");
    assert_eq!((&status["outcome"], &status["reason"]), (&"lost".into(), &"revoked".into()), "{status:#}");
}

#[tokio::test]
async fn a_loss_can_be_ignored() {
    let Some((server, scratch)) = redis().await else { return };
    let script = "echo $$ > pid; while test ! -e go; do sleep 0.05; done; exit 6";
    let options = ["--ttl", "500ms", "--on-lost", "ignore"];
    let mut command = scratch.run("job", &options, script);
    let run = command.stderr(std::fs::File::create(scratch.path("stderr")).expect("a file")).spawn();
    let mut run = run.expect("starts");
    let pid = scratch.pid_in("pid").await;
    revoke(&server, "job").await;
    let told = scratch.file_made("stderr").await;
    assert!(told.contains("the command runs on"), "{told}");
    assert!(lives(pid));
    std::fs::write(scratch.path("go"), "").expect("written");
    assert_eq!(end_of(&mut run).await.code(), Some(6), "the command's own code");
}

/// The server hangs: nobody can tell whether the lock is lost, so the command is dead before it may be.
#[tokio::test]
async fn when_nothing_is_renewed_the_command_is_dead_before_the_lease_ends() {
    let Some((server, scratch)) = redis().await else { return };
    const TTL: Duration = Duration::from_secs(3);
    // It ignores TERM and signs on every 20 ms.
    let script = "trap 'echo told > told' TERM; while :; do date +%s%N > sign.new; mv sign.new sign; sleep 0.02; done";
    let mut run = scratch.run("job", &["--ttl", "3s"], script).spawn().expect("starts");
    scratch.file_made("sign").await;
    server.freeze().await.expect("our server");
    // Every renewal that the server has answered was sent before this moment: the lease ends no later than a ttl after it.
    let frozen = now();
    let end = end_of(&mut run).await;
    server.thaw().await.expect("our server");
    assert_eq!(end.code(), Some(79));
    let last = Duration::from_nanos(scratch.file_made("sign").await.trim().parse().expect("a time"));
    assert!(last < frozen + TTL, "the last sign of life came {:?} after the server froze", last.saturating_sub(frozen));
    assert!(scratch.path("told").exists(), "TERM came before KILL");
}

/// B154: an inherited socket keeps a connection, and with it a lock, alive.
#[tokio::test]
async fn the_command_has_none_of_our_sockets() {
    let Some((_server, scratch)) = redis().await else { return };
    let mut run = scratch.run("job", &[], "echo $$ > pid; while :; do sleep 0.05; done").spawn().expect("starts");
    let pid = scratch.pid_in("pid").await;
    let own = run.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw).expect("it runs");
    assert!(!sockets(own).is_empty(), "lockyard is connected");
    assert_eq!(sockets(pid), Vec::<PathBuf>::new());
    send(&run, Signal::SIGTERM);
    end_of(&mut run).await;
}

fn sockets(pid: Pid) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("it lives");
    let targets = entries.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    targets.filter(|target| target.to_string_lossy().starts_with("socket:")).collect()
}

#[tokio::test]
async fn killed_lockyard_takes_the_command_along_and_the_lease_frees_the_name() {
    let Some((_server, scratch)) = redis().await else { return };
    let script = "echo $$ > pid; while :; do sleep 0.05; done";
    let mut run = scratch.run("job", &["--ttl", "2s"], script).spawn().expect("starts");
    let pid = scratch.pid_in("pid").await;
    send(&run, Signal::SIGKILL);
    end_of(&mut run).await;
    eventually(SOON, || async { !lives(pid) }).await.expect("the kernel kills the command");
    let next = finish(&mut scratch.run("job", &["--wait", "10s"], "exit 8")).await;
    assert_eq!(next.status.code(), Some(8), "the name is free when the lease has ended");
}

#[tokio::test]
async fn renewals_come_as_often_as_asked_for() {
    let Some((_server, scratch)) = redis().await else { return };
    let options =
        ["-vvv", "--ttl", "10m", "--renew", "100ms", "--status-file", "status.json", "--metrics-file", "job.prom"];
    let mut command = scratch.run("job", &options, "read line");
    let log = std::fs::File::create(scratch.path("log")).expect("a file");
    let mut run = command.stderr(log).stdin(Stdio::piped()).spawn().expect("starts");
    let renewed = || async { std::fs::read_to_string(scratch.path("log")).is_ok_and(|log| log.contains("renewed")) };
    eventually(SOON, renewed).await.expect("long before a third of the ttl");
    drop(run.stdin.take());
    end_of(&mut run).await;
    let renewals = scratch.json("status.json")["renewals"].as_u64().expect("a number");
    assert!(renewals >= 1);
    if cfg!(feature = "metrics") {
        let text = std::fs::read_to_string(scratch.path("job.prom")).expect("the figures");
        let line = format!(r#"lockyard_renewals_total{{backend="redis",outcome="renewed"}} {renewals}"#);
        assert!(text.contains(&line), "{text}");
    }
    let seldom = finish(&mut scratch.run("job", &["--ttl", "3s", "--renew", "2s"], "true")).await;
    assert_eq!(seldom.status.code(), Some(78), "{}", stderr(&seldom));
    assert!(stderr(&seldom).contains("--renew"), "{}", stderr(&seldom));
}

#[tokio::test]
async fn a_ttl_that_leaves_no_room_is_refused_before_the_lock_is_taken() {
    let Some((_server, scratch)) = redis().await else { return };
    let output = finish(&mut scratch.run("job", &["--ttl", "3s", "--kill-after", "1s"], "true")).await;
    assert_eq!(output.status.code(), Some(78));
    assert!(stderr(&output).contains("too short"), "{}", stderr(&output));
    assert!(!scratch.is_held("job").await);
}

#[tokio::test]
async fn a_server_that_is_down_is_no_lock() {
    // Nobody listens on port 1; of a listener that was dropped, a process that is just being started may still have a copy.
    let output =
        finish(bare(&["run", "-n", "job", "--", "true"]).env("LOCKYARD_URL", "redis://:hush@127.0.0.1:1/")).await;
    assert_eq!((output.status.code(), stdout(&output)), (Some(69), String::new()));
    let text = stderr(&output);
    assert!(text.contains("nothing is locked") && !text.contains("hush"), "{text}");
}

#[expect(clippy::disallowed_methods, reason = "compared with what date(1) says on the same host")]
fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970")
}

/// B104: the same name in another database of the same server is another lock, and what is looked at says where.
#[tokio::test]
async fn inspect_shows_server_and_database_and_no_password() {
    let secret = "s3cret";
    let options = lockyard_testbed::Options::new().args(["--requirepass", secret]);
    let started = Server::start_with(Service::Redis, options).await;
    let started = lockyard_testbed::require::or_skip(Service::Redis, started);
    let Some(server) = started.expect("a server that works") else { return };
    let database = |number| Scratch::on(&format!("redis://:{secret}@{}/{number}", server.addr()));
    let (zero, one) = (database(0), database(1));
    let mut holder = zero.run("job", &[], "echo $$ > pid; while :; do sleep 0.05; done").spawn().expect("starts");
    zero.pid_in("pid").await;
    let mut also = one.run("job", &[], "exit 5").spawn().expect("starts");
    assert_eq!(end_of(&mut also).await.code(), Some(5), "another database, another lock");
    for (scratch, number, state) in [(&zero, 0, "held"), (&one, 1, "free")] {
        let output = finish(&mut scratch.lockyard(&["inspect", "-v", "-o", "json", "job"])).await;
        let json: serde_json::Value = serde_json::from_str(&stdout(&output)).expect("JSON");
        assert_eq!(json["backend"], format!("redis://:***@{}/{number}", server.addr()));
        assert_eq!((&json["namespace"], &json["locks"][0]["state"]), (&"lockyard".into(), &state.into()));
        let table = finish(&mut scratch.lockyard(&["inspect", "-v", "job"])).await;
        assert!(stderr(&table).contains(&format!("redis://:***@{}/{number}", server.addr())), "{}", stderr(&table));
        for output in [output, table] {
            assert!(!format!("{}{}", stdout(&output), stderr(&output)).contains(secret));
        }
    }
    send(&holder, Signal::SIGTERM);
    end_of(&mut holder).await;
}
