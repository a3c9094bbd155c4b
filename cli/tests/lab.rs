//! `lockyard conformance`, `compare` and `report` on backends that need no server.
#![cfg(all(feature = "lab", feature = "memory", feature = "file"))]

mod support;

use std::process::Stdio;

use lockyard_testbed::timing::scaled;
use nix::sys::signal::Signal;
use support::{SOON, Scratch, end_of, finish, schema, send, stderr, stdout};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

#[tokio::test]
async fn the_suite_runs_and_its_results_keep_to_their_schema() {
    let scratch = Scratch::file();
    let exports = ["--export-json", "results.json", "--export-junit", "results.xml"];
    let args = [&["conformance", "-b", "memory", "-b", "file"][..], &exports, &["release::", "fifo::order"]].concat();
    let output = finish(&mut scratch.lockyard_with_temporary(&args)).await;
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
    assert!(scratch.left_behind().is_empty(), "{:?}", scratch.left_behind());
    let lines: Vec<String> = stdout(&output).lines().map(str::to_owned).collect();
    assert!(
        lines.iter().any(|line| line.starts_with("PASS [") && line.ends_with("memory::release::only_owner")),
        "{lines:#?}"
    );
    assert!(
        lines.iter().any(|line| line.starts_with("PASS [") && line.ends_with("file::release::only_owner")),
        "{lines:#?}"
    );
    assert!(lines.iter().any(|line| line.starts_with("SKIP [") && line.ends_with(')')), "a reason: {lines:#?}");
    assert!(stderr(&output).contains("0 failed"), "{}", stderr(&output));
    let results = scratch.json("results.json");
    assert!(schema("conformance").is_valid(&results), "{results:#}");
    let junit = std::fs::read_to_string(scratch.path("results.xml")).expect("written");
    assert!(junit.contains("memory") && junit.contains("release::only_owner"), "{junit}");
}

#[tokio::test]
async fn checks_are_listed_and_selected() {
    let scratch = Scratch::file();
    let output = finish(&mut scratch.lockyard(&["conformance", "--list", "-b", "memory", "memory::release"])).await;
    let listed = stdout(&output);
    assert_eq!(output.status.code(), Some(0));
    assert!(listed.lines().count() > 1 && listed.lines().all(|line| line.starts_with("memory::release")), "{listed}");
    let none = finish(&mut scratch.lockyard(&["conformance", "no_such_check"])).await;
    assert_eq!((none.status.code(), stdout(&none)), (Some(4), String::new()));
    for url in ["mongodb://h", "file://host/x", "file:/a/folder", "redis://h/?tll=1s"] {
        let output = finish(&mut scratch.lockyard(&["conformance", "-b", url, "release"])).await;
        assert_ne!(output.status.code(), Some(0), "{url} is wrong and no pass: {}", stdout(&output));
        assert!(!stdout(&output).contains("PASS"), "{url}: {}", stdout(&output));
    }
}

/// Reads stderr until a line has this word in it.
async fn line_with(reader: &mut (impl AsyncBufReadExt + Unpin), word: &str) -> String {
    let search = async {
        loop {
            let mut line = String::new();
            assert!(reader.read_line(&mut line).await.expect("readable") > 0, "no line has {word:?}");
            if line.contains(word) {
                return line;
            }
        }
    };
    tokio::time::timeout(scaled(SOON), search).await.unwrap_or_else(|_| panic!("no line has {word:?} in time"))
}

#[tokio::test]
async fn a_comparison_that_is_stopped_keeps_what_it_measured() {
    let scratch = Scratch::file();
    let exports = ["--export-markdown", "extra.md", "--export-hdr", "latencies.hdr"];
    let args = [
        &["compare", "-b", "memory", "-b", "file", "--skip-conformance", "--seed", "7", "--rate", "400"][..],
        &exports,
    ]
    .concat();
    let mut command = scratch.lockyard_with_temporary(&args);
    let mut compare = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().expect("starts");
    let mut lines = BufReader::new(compare.stderr.take().expect("piped"));
    let estimate = line_with(&mut lines, "takes about").await;
    assert!(estimate.contains("suite quick, seed 7"), "{estimate}");
    line_with(&mut lines, "measuring: 20 %").await;
    send(&compare, Signal::SIGINT);
    line_with(&mut lines, "the report is in lockyard-report").await;
    assert_eq!(end_of(&mut compare).await.code(), Some(130));
    assert!(scratch.left_behind().is_empty(), "{:?}", scratch.left_behind());

    let report = scratch.json("lockyard-report/report.json");
    assert_eq!((&report["cancelled"], &report["seed"], &report["suite"]), (&true.into(), &7.into(), &"quick".into()));
    assert!(report["scenarios"].as_array().is_some_and(|all| !all.is_empty()), "{report:#}");
    let read = |name: &str| std::fs::read_to_string(scratch.path(name)).expect("written");
    let (page, text) = (read("lockyard-report/report.html"), read("lockyard-report/report.md"));
    assert_eq!(text, read("extra.md"));
    assert!(
        report["command"].as_str().is_some_and(|command| command.ends_with("--rate 400 --skip-conformance")),
        "{report:#}"
    );
    let log = read("latencies.hdr");
    assert!(log.lines().any(|line| line.starts_with("Tag=uncontended-same-name-idle-machine/memory/ours,")), "{log}");
    let again = finish(&mut scratch.lockyard(&["report", "lockyard-report/report.json", "--out", "again"])).await;
    assert_eq!(again.status.code(), Some(0), "{}", stderr(&again));
    assert_eq!((page, text), (read("again/report.html"), read("again/report.md")), "the same data, the same page");
    figures_are_judged(&scratch).await;
}

#[tokio::test]
async fn only_the_scenarios_that_are_named_are_measured() {
    let scratch = Scratch::file();
    let args = ["compare", "-b", "memory", "--skip-conformance", "--scenario", "handoff", "--scenario", "noop"];
    let output = finish(&mut scratch.lockyard(&args)).await;
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let report = scratch.json("lockyard-report/report.json");
    let ids: Vec<_> = report["scenarios"].as_array().into_iter().flatten().map(|scenario| &scenario["id"]).collect();
    assert_eq!(ids, ["noop", "handoff"], "in the order of the suite");
    let again = report["command"].as_str().unwrap_or_default();
    assert!(again.contains("--scenario handoff --scenario noop"), "{again}");
    for (scenario, word) in [("handof", "handoff"), ("takeover", "larger --suite"), ("open_loop", "--rate")] {
        let output = finish(&mut scratch.lockyard(&["compare", "-b", "memory", "--scenario", scenario])).await;
        assert_eq!(output.status.code(), Some(64), "{}", stderr(&output));
        assert!(stderr(&output).contains(word), "{}", stderr(&output));
    }
}

/// Limits and an earlier report, over figures that were measured.
async fn figures_are_judged(scratch: &Scratch) {
    let file = "lockyard-report/report.json";
    let judge = async |limit: &str| {
        let args =
            ["report", file, "--out", "again", "--threshold", limit, "--baseline", file, "--export-csv", "x.csv"];
        finish(&mut scratch.lockyard(&args)).await
    };
    let kept = judge("noop.noop.cpu_ns>0").await;
    assert_eq!(kept.status.code(), Some(0), "{}", stderr(&kept));
    assert!(stderr(&kept).contains("since the baseline: 0 figures changed"), "{}", stderr(&kept));
    let csv = std::fs::read_to_string(scratch.path("x.csv")).expect("written");
    assert!(csv.lines().any(|line| line.starts_with("noop,") && line.contains(",cpu_ns,")), "{csv}");
    for limit in ["noop.noop.cpu_ns<1", "redis.handoff.p99_us<5000"] {
        let broken = judge(limit).await;
        assert_eq!(broken.status.code(), Some(99), "{}", stderr(&broken));
        assert!(stderr(&broken).contains(&format!("{limit} is not kept")), "{}", stderr(&broken));
    }
}

#[tokio::test]
async fn a_client_of_a_comparison_holds_what_it_is_told_to_until_its_input_ends() {
    let scratch = Scratch::file();
    let mut command = scratch.lockyard(&["bench-worker"]);
    let mut worker = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("starts");
    let mut orders = worker.stdin.take().expect("piped");
    orders.write_all(b"{\"do\":\"keep\",\"name\":\"job\",\"ttl_millis\":2000}\n").await.expect("it listens");
    let mut answers = BufReader::new(worker.stdout.take().expect("piped"));
    line_with(&mut answers, "ready").await;
    assert!(scratch.is_held("job").await);
    drop(orders);
    assert_eq!(end_of(&mut worker).await.code(), Some(0));
    assert!(!scratch.is_held("job").await);
    let mut command = scratch.lockyard(&["bench-worker"]);
    let mut worker = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("starts");
    let mut orders = worker.stdin.take().expect("piped");
    orders.write_all(b"sing\n").await.expect("it listens");
    line_with(&mut BufReader::new(worker.stdout.take().expect("piped")), "\"is\":\"failed\"").await;
    assert_eq!(end_of(&mut worker).await.code(), Some(0), "what fails is an answer");
}

#[tokio::test]
async fn what_figures_are_held_against_is_read_before_they_are_measured() {
    let scratch = Scratch::file();
    for (option, value, word) in
        [("--threshold", "memory.handoff.speed<5", "p50_us"), ("--baseline", "missing.json", "missing.json")]
    {
        let output = finish(&mut scratch.lockyard(&["compare", "-b", "memory", option, value])).await;
        assert_eq!(output.status.code(), Some(64), "{option}: {}", stderr(&output));
        assert!(stderr(&output).contains(word) && !stderr(&output).contains("takes about"), "{}", stderr(&output));
    }
}

#[tokio::test]
async fn a_report_that_is_none_is_refused() {
    let scratch = Scratch::file();
    std::fs::write(scratch.path("x.json"), "{}").expect("written");
    for file in ["x.json", "missing.json"] {
        let output = finish(&mut scratch.lockyard(&["report", file])).await;
        assert_eq!(output.status.code(), Some(64), "{file}");
        assert!(stderr(&output).contains(file), "{}", stderr(&output));
    }
}
