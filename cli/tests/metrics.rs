//! `lockyard run --metrics-file` and `--metrics-listen`: the text after real runs.
#![cfg(all(feature = "file", feature = "metrics"))]

mod support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Stdio;

use lockyard_testbed::timing::eventually;
use support::{SOON, Scratch, bare, end_of, finish, stderr};

fn value(text: &str, series: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {series} in\n{text}")).parse().expect("a number")
}

fn acquisitions(text: &str, outcome: &str) -> f64 {
    value(text, &format!(r#"lockyard_acquisitions_total{{backend="file",group="default",outcome="{outcome}"}}"#))
}

#[tokio::test]
async fn the_file_tells_what_became_of_a_run() {
    let scratch = Scratch::file();
    let read = || std::fs::read_to_string(scratch.path("job.prom")).expect("the file");
    let options = ["--metrics-file", "job.prom"];
    finish(&mut scratch.run("secret", &options, "exit 3")).await;
    let text = read();
    assert_eq!((acquisitions(&text, "acquired"), acquisitions(&text, "contended")), (1.0, 0.0));
    assert_eq!(value(&text, r#"lockyard_hold_duration_seconds_count{backend="file",group="default"}"#), 1.0);
    assert_eq!(value(&text, r#"lockyard_held{backend="file",group="default"}"#), 0.0);
    assert_eq!(value(&text, r#"lockyard_releases_total{backend="file",outcome="released"}"#), 1.0);
    assert!(!text.contains("secret"), "no name is a label: {text}");

    let mut command = scratch.run("secret", &[], "echo up > up; read line");
    let mut holder = command.stdin(Stdio::piped()).spawn().expect("starts");
    scratch.file_made("up").await;
    finish(&mut scratch.run("secret", &options, "true")).await;
    assert_eq!((acquisitions(&read(), "acquired"), acquisitions(&read(), "contended")), (0.0, 1.0));
    drop(holder.stdin.take());
    end_of(&mut holder).await;

    let lost = finish(&mut scratch.run("job", &["--metrics-file", "no/such/folder/x.prom"], "exit 6")).await;
    assert_eq!(lost.status.code(), Some(6), "the command matters more than its figures");
    assert!(stderr(&lost).contains("--metrics-file"), "{}", stderr(&lost));
}

#[cfg(feature = "redis")]
#[tokio::test]
async fn a_server_that_is_down_is_an_error_and_not_contention() {
    let scratch = Scratch::file();
    // Nobody listens on port 1; of a listener that was dropped, a process that is just being started may still have a copy.
    let url = "redis://127.0.0.1:1/";
    let path = scratch.path("job.prom");
    let args = ["run", "-n", "job", "--metrics-file", path.to_str().expect("a path"), "--", "true"];
    let output = finish(bare(&args).env("LOCKYARD_URL", url)).await;
    assert_eq!(output.status.code(), Some(69));
    let text = std::fs::read_to_string(path).expect("the file");
    let acquisitions = r#"lockyard_acquisitions_total{backend="redis",group="default",outcome="error"}"#;
    assert_eq!(value(&text, acquisitions), 1.0);
    assert_eq!(value(&text, r#"lockyard_backend_errors_total{backend="redis",kind="unreachable"}"#), 1.0);
}

#[tokio::test]
async fn while_it_runs_the_figures_can_be_fetched() {
    let scratch = Scratch::file();
    // Somebody may take the port before lockyard does: then another is tried.
    for _ in 0..5 {
        let address = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port");
        let shown = address.to_string();
        let mut command = scratch.run("job", &["--metrics-listen", &shown], "echo up > up; read line");
        let mut run = command.stdin(Stdio::piped()).spawn().expect("starts");
        let up = eventually(SOON, || {
            let begun = scratch.path("up").exists() || run.try_wait().is_ok_and(|end| end.is_some());
            async move { begun }
        });
        up.await.expect("it starts or ends");
        if run.try_wait().is_ok_and(|end| end.is_some()) {
            continue;
        }
        let text = tokio::task::spawn_blocking(move || fetch(address)).await.expect("no panic");
        assert!(text.starts_with("HTTP/1.1 200"), "{text}");
        assert_eq!(value(&text, r#"lockyard_held{backend="file",group="default"}"#), 1.0);
        drop(run.stdin.take());
        end_of(&mut run).await;
        return;
    }
    panic!("no port was free for long enough");
}

#[tokio::test]
async fn an_address_that_is_taken_is_told_before_anything_is_locked() {
    let scratch = Scratch::file();
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let output = finish(&mut scratch.run("job", &["--metrics-listen", &address], "touch started")).await;
    assert_eq!(output.status.code(), Some(78));
    assert!(stderr(&output).contains("--metrics-listen"), "{}", stderr(&output));
    assert!(!scratch.path("started").exists());
}

fn fetch(address: SocketAddr) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").expect("sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    text
}
