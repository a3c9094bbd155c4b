//! `lockyard chaos`: short runs on every server, and what it says of a lock that is none.
#![cfg(feature = "lab")]

mod support;

use std::path::PathBuf;
use std::time::Duration;

use lockyard_conformance::history::{Event, FaultKind, History, Rules, What};
use lockyard_testbed::Service;
use lockyard_testbed::timing::{eventually, scaled};
use nix::sys::signal::Signal;
use support::{SOON, Scratch, end_of, finish, send, stderr, stdout};

const NOTHING: [PathBuf; 0] = [];
/// Long enough for a dozen faults.
const LENGTH: &str = "6s";

async fn short_run(backend: &str, service: Option<Service>) {
    let scratch = Scratch::file();
    let seed = "20";
    let args = ["chaos", "-b", backend, "--duration", LENGTH, "--seed", seed, "--history", "history.jsonl"];
    let mut command = scratch.lockyard_with_temporary(&args);
    let output = tokio::time::timeout(scaled(Duration::from_secs(150)), command.output());
    let output = output.await.expect("it ends").expect("it starts");
    let (out, err) = (stdout(&output), stderr(&output));
    if output.status.code() == Some(69) && service.is_none_or(|it| !lockyard_testbed::require::required(it)) {
        eprintln!("SKIPPED: {err}");
        return;
    }
    assert_eq!(output.status.code(), Some(0), "{out}\n{err}");
    assert!(out.starts_with("PASS [") && out.contains(&format!("{backend} seed {seed}")), "{out}");
    assert!(err.contains(&format!("chaos --backend {backend} --seed {seed}")), "how to run it again: {err}");
    let lines = std::fs::read(scratch.path("history.jsonl")).expect("written");
    let history = History::read(&lines[..]).expect("a history");
    assert!(history.check().holds > 0 && !history.faults.is_empty(), "{out}");
    let again = finish(&mut scratch.lockyard(&["chaos", "--replay", "history.jsonl"])).await;
    assert_eq!(again.status.code(), Some(0), "{}", stdout(&again));
    assert_eq!(scratch.left_behind(), NOTHING);
}

macro_rules! short_runs {
    ($($name:ident: $backend:literal $service:expr),+ $(,)?) => {$(
        #[tokio::test]
        async fn $name() {
            short_run($backend, $service).await;
        }
    )+};
}

short_runs! {
    redis_stays_a_lock: "redis" Some(Service::Redis),
    postgres_advisory_stays_a_lock: "postgres-advisory" Some(Service::Postgres),
    postgres_row_stays_a_lock: "postgres-row" Some(Service::Postgres),
    postgres_lease_stays_a_lock: "postgres-lease" Some(Service::Postgres),
    etcd_stays_a_lock: "etcd" Some(Service::Etcd),
    zookeeper_stays_a_lock: "zookeeper" Some(Service::Zookeeper),
    files_stay_a_lock: "file" None,
}

#[tokio::test]
async fn a_run_that_is_interrupted_leaves_nothing_behind() {
    let scratch = Scratch::file();
    let args = ["chaos", "-b", "file", "--duration", "1m", "--seed", "1"];
    let mut running = scratch.lockyard_with_temporary(&args).spawn().expect("it starts");
    // The folder of the locks, and that of the registers: its clients are at work.
    let at_work = || async { (scratch.left_behind().len() > 1).then_some(()) };
    eventually(SOON, at_work).await.expect("it begins");
    send(&running, Signal::SIGINT);
    assert_eq!(end_of(&mut running).await.code(), Some(130));
    assert_eq!(scratch.left_behind(), NOTHING);
}

#[tokio::test]
async fn a_history_of_two_holders_is_a_violation_that_names_them() {
    let scratch = Scratch::file();
    let granted = |at, process, token| {
        let what = What::Granted { owner: format!("{process:032x}"), token: Some(token), until: at + 1_000_000 };
        Event::new(at, process, 4, "job", what)
    };
    let mut history = History::new(Rules::strict());
    history.events = vec![granted(1_000_000, 1, 512), granted(1_500_000, 2, 256)];
    history.write(std::fs::File::create(scratch.path("bad.jsonl")).expect("a file")).expect("written");
    let output = finish(&mut scratch.lockyard(&["chaos", "--replay", "bad.jsonl"])).await;
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(100), "{text}");
    assert!(text.contains("two holders for 500µs: [0.001000 client 1 op 4") && text.contains("a token fell"), "{text}");
    std::fs::write(scratch.path("none.jsonl"), "{}\n").expect("written");
    for file in ["none.jsonl", "missing.jsonl"] {
        let output = finish(&mut scratch.lockyard(&["chaos", "--replay", file])).await;
        assert_eq!(output.status.code(), Some(64), "{file}");
    }
}

#[tokio::test]
async fn what_cannot_be_shared_by_processes_or_makes_no_sense_is_refused() {
    let scratch = Scratch::file();
    for (args, code, word) in [
        (["-b", "memory", "--duration", "1s"], 69, "one process"),
        (["-b", "file", "--clients", "0"], 64, "at least one"),
        (["-b", "mongodb://h", "--duration", "1s"], 78, "unknown scheme"),
    ] {
        let output = finish(&mut scratch.lockyard(&[&["chaos"][..], &args].concat())).await;
        assert_eq!(output.status.code(), Some(code), "{args:?}: {}", stdout(&output));
        assert!(stderr(&output).contains(word), "{args:?}: {}", stderr(&output));
    }
}

/// A server of somebody else is used under a namespace of its own, and nothing of it is broken.
#[tokio::test]
async fn a_server_of_others_is_not_broken() {
    let Some(server) = lockyard_testbed::Server::start_or_skip(Service::Redis).await.expect("a server that works")
    else {
        return;
    };
    let scratch = Scratch::file();
    let url = server.lock_url();
    let run = async |extra: &[&str]| {
        let args = [&["chaos", "-b", &url, "--duration", "2s", "--seed", "5", "--history", "history.jsonl"], extra];
        let output = finish(&mut scratch.lockyard(&args.concat())).await;
        assert_eq!(output.status.code(), Some(0), "{}\n{}", stdout(&output), stderr(&output));
        let lines = std::fs::read(scratch.path("history.jsonl")).expect("written");
        History::read(&lines[..]).expect("a history").faults
    };
    assert_eq!(run(&[]).await, []);
    let faults = run(&["--allow-faults"]).await;
    let of_clients = |kind| matches!(kind, FaultKind::ClientFrozen | FaultKind::ClientKilled);
    assert!(!faults.is_empty() && faults.iter().all(|fault| of_clients(fault.fault)), "{faults:?}");
    assert!(!scratch.lockyard(&["inspect", "-b", &url, "--is-held", "name-0"]).status().await.expect("ends").success());
}
