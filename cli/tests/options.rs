//! `lockyard run`: options that concern neither exit codes nor signals, and what is refused before any traffic.
#![cfg(feature = "file")]

mod support;

use std::process::Stdio;

use lockyard_testbed::timing::eventually;
use nix::sys::signal::Signal;
use support::{SOON, Scratch, catches_signals, end_of, finish, send, stderr, stdout};

#[tokio::test]
async fn a_dry_run_tells_and_does_nothing() {
    let scratch = Scratch::file();
    let dry = ["run", "-n", "job", "--dry-run", "--status-file", "status.json", "--", "touch", "started"];
    let output = finish(&mut scratch.lockyard(&dry)).await;
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(text.contains("touch started") && text.contains("the name is free") && text.contains("30s"), "{text}");
    let mut command = scratch.run("job", &[], "echo up > up; read line");
    let mut holder = command.stdin(Stdio::piped()).spawn().expect("starts");
    scratch.file_made("up").await;
    let output = finish(&mut scratch.lockyard(&dry)).await;
    assert_eq!(output.status.code(), Some(75));
    assert!(stdout(&output).contains("held by"), "{}", stdout(&output));
    drop(holder.stdin.take());
    end_of(&mut holder).await;
    assert!(!scratch.path("started").exists() && !scratch.path("status.json").exists());
}

/// B140 and its like: what cannot work is said before anything is locked.
#[tokio::test]
async fn what_contradicts_itself_is_explained() {
    let scratch = Scratch::file();
    let cases: [(&[&str], i32, &[&str]); 10] = [
        (&["--at-least-for", "10m", "--at-most-for", "5m"], 78, &["--at-least-for 10m", "--at-most-for 5m"]),
        (&["--at-most-for", "0s"], 78, &["--at-most-for"]),
        (&["--at-most-for", "30"], 64, &["unit"]),
        (&["--ttl", "soon"], 64, &["unit"]),
        (&["--at-least-for=-3s"], 64, &["--at-least-for", "unit"]),
        (&["--slots", "0"], 64, &["--slots"]),
        (&["--slots", "3"], 78, &["permit"]),
        (&["--shared"], 78, &["shared"]),
        (&["--slots", "3", "--shared"], 64, &["--shared"]),
        (&["--renew", "10s"], 78, &["file", "no time between renewals"]),
    ];
    for (options, code, words) in cases {
        let mut args = vec!["run", "-n", "job"];
        args.extend(options);
        args.extend(["--", "touch", "started"]);
        let output = finish(&mut scratch.lockyard(&args)).await;
        let text = stderr(&output);
        assert_eq!((output.status.code(), stdout(&output)), (Some(code), String::new()), "{options:?}: {text}");
        assert!(words.iter().all(|word| text.contains(word)), "{options:?}: {text}");
    }
    assert!(!scratch.path("started").exists() && !scratch.is_held("job").await);
}

/// A record that this lockyard cannot read stays as it is, and nothing is started.
#[tokio::test]
async fn a_record_of_another_time_is_left_alone() {
    let scratch = Scratch::file();
    finish(&mut scratch.run("job", &[], "true")).await;
    let path = scratch.path("locks/lockyard/job.lock");
    let text = std::fs::read_to_string(&path).expect("the record");
    for (record, word) in
        [(text.replacen("\"v\":1", "\"v\":99", 1), "newer lockyard (version 99"), ("{]".to_owned(), "no record")]
    {
        std::fs::write(&path, &record).expect("written");
        let output = finish(&mut scratch.run("job", &["--status-file", "status.json"], "touch started")).await;
        assert_eq!((output.status.code(), stdout(&output)), (Some(70), String::new()));
        assert!(stderr(&output).contains(word), "{}", stderr(&output));
        assert_eq!(std::fs::read_to_string(&path).expect("the record"), record);
        assert_eq!(scratch.json("status.json")["outcome"], "error");
    }
    assert!(!scratch.path("started").exists());
}

#[tokio::test]
async fn a_start_that_is_spread_can_be_stopped() {
    let scratch = Scratch::file();
    for spread in ["--jitter", "--stable-jitter"] {
        let options = ["run", "-n", "job", spread, "1000000h", "--at-least-for", "2000000h", "--", "touch", "started"];
        let mut run = scratch.lockyard(&options).spawn().expect("starts");
        eventually(SOON, || async { catches_signals(&run) }).await.expect("it listens");
        assert!(!scratch.is_held("job").await, "nothing is asked for yet");
        send(&run, Signal::SIGTERM);
        assert_eq!(end_of(&mut run).await.code(), Some(143), "{spread}");
    }
    assert!(!scratch.path("started").exists());
    let output = finish(&mut scratch.run("job", &["--jitter", "20ms"], "exit 4")).await;
    assert_eq!(output.status.code(), Some(4));
    let quick = ["run", "-n", "job", "--jitter", "1ms", "--at-least-for", "1ms", "--", "true"];
    let output = finish(&mut scratch.lockyard(&quick)).await;
    assert!(stderr(&output).contains("may run on several"), "{}", stderr(&output));
}

#[tokio::test]
async fn lines_on_stderr_look_as_asked_for() {
    let scratch = Scratch::file();
    let output = finish(&mut scratch.run("job", &["-vv", "--log-format", "json"], "true")).await;
    let text = stderr(&output);
    assert!(text.lines().count() > 1, "{text}");
    for line in text.lines() {
        assert!(serde_json::from_str::<serde_json::Value>(line).is_ok_and(|line| line.is_object()), "{line}");
    }
    assert!(text.contains(r#""message":"lock \"job\" acquired on file"#), "{text}");
    let coloured = finish(&mut scratch.run("job", &["-v", "--color", "always"], "true")).await;
    assert!(stderr(&coloured).contains("\u{1b}[1mlockyard:\u{1b}[0m "), "{}", stderr(&coloured));
    for plain in ["auto", "never"] {
        let output = finish(&mut scratch.run("job", &["-v", "--color", plain], "true")).await;
        assert!(stderr(&output).starts_with("lockyard: "), "{}", stderr(&output));
    }
}
