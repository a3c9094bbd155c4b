//! `lockyard run` on files: exit codes, environment, status file, and who gets the lock.
#![cfg(feature = "file")]

mod support;

use std::process::Stdio;

use lockyard_testbed::timing::eventually;
use nix::sys::signal::{Signal, kill};
use support::{SOON, Scratch, bare, end_of, finish, lives, schema, send, stderr, stdout};

/// B152: its code passes through, whatever it is.
#[tokio::test]
async fn the_command_s_own_end_is_passed_on() {
    let scratch = Scratch::file();
    for code in [0, 1, 7, 75, 255] {
        let output = finish(&mut scratch.run("job", &[], &format!("exit {code}"))).await;
        assert_eq!(output.status.code(), Some(code));
        assert_eq!(stderr(&output), "", "nothing to say about a command that ends with {code}");
    }
    for signal in [Signal::SIGTERM, Signal::SIGKILL, Signal::SIGSEGV] {
        let output = finish(&mut scratch.run("job", &[], &format!("kill -{} $$", signal as i32))).await;
        assert_eq!(output.status.code(), Some(128 + signal as i32), "{signal}");
    }
}

#[tokio::test]
async fn each_failure_has_its_code_and_a_word_on_stderr() {
    let scratch = Scratch::file();
    std::fs::write(scratch.path("data"), "no program\n").expect("written");
    let data = scratch.path("data");
    let data = data.to_str().expect("a path");
    let cases: [(&[&str], i32, &str); 9] = [
        (&["run", "-n", "x", "--", "no-such-command-here"], 127, "command not found"),
        (&["run", "-n", "x", "--", "/no/such/command"], 127, "command not found"),
        (&["run", "-n", "x", "--", data], 126, "permission denied"),
        (&["run", "-n", "x", "--no-such-option", "--", "true"], 64, "--no-such-option"),
        (&["run", "-n", "", "--", "true"], 64, "at least one character"),
        (&["run", "-n", "x"], 64, "required"),
        (&["run", "-n", "x", "-b", "mongodb://h", "--", "true"], 78, "unknown scheme"),
        (&["run", "-n", "x", "-b", "redis://h/?tll=1s", "--", "true"], 78, "ttl"),
        (&["run", "-n", "x", "--namespace", "a/b", "--", "true"], 78, "namespace"),
    ];
    for (args, code, word) in cases {
        let output = finish(&mut scratch.lockyard(args)).await;
        assert_eq!((output.status.code(), stdout(&output)), (Some(code), String::new()), "{args:?}");
        assert!(stderr(&output).contains(word), "{args:?}: {}", stderr(&output));
        assert!(!scratch.is_held("x").await, "{args:?} leaves no lock");
    }
}

#[tokio::test]
async fn of_two_shells_one_runs_and_the_other_is_told() {
    let scratch = Scratch::file();
    let mut first =
        scratch.run("job", &[], "echo started > one; read line").stdin(Stdio::piped()).spawn().expect("starts");
    scratch.file_made("one").await;
    for (options, code) in [(&[][..], 75), (&["-E", "9"], 9), (&["--skip-ok"], 0), (&["--wait", "50ms"], 75)] {
        let output = finish(&mut scratch.run("job", options, "echo two > two")).await;
        assert_eq!(output.status.code(), Some(code), "{options:?}");
        assert_eq!(stderr(&output), "", "a skip is silent");
    }
    assert!(!scratch.path("two").exists(), "the command of the other was not started");
    let other = finish(&mut scratch.run("another", &[], "exit 3")).await;
    assert_eq!(other.status.code(), Some(3), "another name is another lock");

    let mut waiting = scratch.run("job", &["--wait", "30s"], "test -e done").spawn().expect("starts");
    std::fs::write(scratch.path("done"), "").expect("written");
    drop(first.stdin.take());
    assert_eq!(end_of(&mut first).await.code(), Some(1), "read reaches the end of its input");
    assert_eq!(end_of(&mut waiting).await.code(), Some(0), "who waits gets the lock when the first is done");
}

#[tokio::test]
async fn the_command_is_told_what_it_holds() {
    let scratch = Scratch::file();
    let mut command = scratch.run("job", &["--namespace", "shop"], "env; echo '#' > done");
    command.env("LOCKYARD_TTL_MS", "of an outer run").env("LOCKYARD_URL_FILE", "/secret");
    let output = finish(&mut command).await;
    let text = stdout(&output);
    let variable = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name}=")));
        line.map(str::to_owned)
    };
    assert_eq!(variable("LOCKYARD_NAME").as_deref(), Some("job"));
    assert_eq!(variable("LOCKYARD_KEY").as_deref(), Some("shop:job"));
    assert_eq!(variable("LOCKYARD_BACKEND_KIND").as_deref(), Some("file"));
    assert_eq!(
        variable("LOCKYARD_TTL_MS"),
        None,
        "a file lock has no lease, and an outer run's does not shine through"
    );
    assert!(variable("LOCKYARD_FENCING_TOKEN").is_some_and(|token| token.parse::<u64>().is_ok()), "{text}");
    assert_eq!(variable("LOCKYARD_RUN_ID").map(|id| id.len()), Some(32));
    assert!(variable("LOCKYARD_HOLDER").is_some() && variable("LOCKYARD_ACQUIRED_AT").is_some(), "{text}");
    assert!(!text.contains("LOCKYARD_URL"), "the backend's URL is not the command's business: {text}");

    let output = finish(&mut scratch.run("job", &["--pass-backend"], "echo $LOCKYARD_URL")).await;
    assert!(stdout(&output).starts_with("file:"), "unless asked for");
}

#[tokio::test]
async fn the_token_rises() {
    let scratch = Scratch::file();
    let mut last = 0;
    for _ in 0..3 {
        let output = finish(&mut scratch.run("job", &[], "echo $LOCKYARD_FENCING_TOKEN")).await;
        let token: u64 = stdout(&output).trim().parse().expect("a number");
        assert!(token > last, "{token} after {last}");
        last = token;
    }
}

#[tokio::test]
async fn the_status_file_keeps_to_its_schema() {
    let scratch = Scratch::file();
    let schema = schema("status");
    let status = async |options: &[&str], script: &str| {
        let mut all = vec!["--status-file", "status.json"];
        all.extend(options);
        let output = finish(&mut scratch.run("job", &all, script)).await;
        let status = scratch.json("status.json");
        assert!(schema.is_valid(&status), "{status:#}");
        assert_eq!(status["exit_code"].as_i64(), output.status.code().map(i64::from));
        status
    };
    let ran = status(&[], "exit 3").await;
    assert_eq!((&ran["outcome"], &ran["child"]["code"], &ran["name"]), (&"ran".into(), &3.into(), &"job".into()));
    assert!(ran["token"].is_string(), "a token does not fit every JSON reader's numbers");
    let killed = status(&[], "kill -KILL $$").await;
    assert_eq!((&killed["child"]["signal"], &killed["exit_code"]), (&9.into(), &137.into()));
    let limited = status(&["--at-most-for", "50ms", "-k", "50ms"], "trap '' TERM; while :; do sleep 0.05; done").await;
    assert_eq!((&limited["outcome"], &limited["exit_code"]), (&"timeout".into(), &124.into()));
    let failed = status(&["-b", "mongodb://h"], "true").await;
    assert_eq!((&failed["outcome"], &failed["child"]), (&"error".into(), &serde_json::Value::Null));

    let mut holder =
        scratch.run("job", &[], "echo started > one; read line").stdin(Stdio::piped()).spawn().expect("starts");
    scratch.file_made("one").await;
    let skipped = status(&[], "true").await;
    assert_eq!((&skipped["outcome"], &skipped["reason"]), (&"skipped".into(), &"held".into()));
    let tired = status(&["--wait", "50ms"], "true").await;
    assert_eq!((&tired["outcome"], &tired["reason"]), (&"skipped".into(), &"wait_timeout".into()));
    drop(holder.stdin.take());
    end_of(&mut holder).await;

    let output = finish(&mut scratch.run("job", &["--status-file", "/no/such/folder/x"], "exit 6")).await;
    assert_eq!(output.status.code(), Some(6), "the command's own code, also when the file cannot be written");
    assert!(stderr(&output).contains("--status-file"), "{}", stderr(&output));
}

#[tokio::test]
async fn the_name_stays_closed_for_the_least_time() {
    let scratch = Scratch::file();
    let args = ["run", "-n", "job", "--at-least-for", "10m", "--", "sh", "-c", "echo $$ > pid; exit 4"];
    let mut quick = scratch.lockyard(&args).spawn().expect("starts");
    let command = scratch.pid_in("pid").await;
    eventually(SOON, || async { !lives(command) }).await.expect("the command ends");
    assert_eq!(finish(&mut scratch.run("job", &[], "true")).await.status.code(), Some(75), "closed");
    send(&quick, Signal::SIGTERM);
    assert_eq!(end_of(&mut quick).await.code(), Some(4), "a signal ends the keeping, not the command's code");
    assert_eq!(finish(&mut scratch.run("job", &[], "true")).await.status.code(), Some(0), "open");
}

#[tokio::test]
async fn what_the_command_leaves_behind_is_named() {
    let scratch = Scratch::file();
    let output = finish(&mut scratch.run("job", &[], "sleep 600 >/dev/null 2>&1 & echo $! > pid")).await;
    let left = scratch.pid_in("pid").await;
    assert_eq!(output.status.code(), Some(0));
    assert!(stderr(&output).contains(&format!("run on without the lock: {left}")), "{}", stderr(&output));
    assert!(lives(left), "what was started on purpose is left alone");
    kill(left, Signal::SIGKILL).expect("it was ours");
}

#[tokio::test]
async fn a_string_is_for_the_shell_and_input_can_be_taken_away() {
    let scratch = Scratch::file();
    let args = ["run", "-n", "job", "--at-least-for", "0", "--no-stdin", "-c", "cat; echo a  b | tr a-z A-Z"];
    let output = finish(scratch.lockyard(&args).stdin(Stdio::piped())).await;
    assert_eq!(stdout(&output), "A B\n");
    let both = finish(&mut scratch.lockyard(&["run", "-n", "job", "-c", "true", "--", "true"])).await;
    assert_eq!(both.status.code(), Some(64));
}

#[tokio::test]
async fn the_url_comes_from_the_flag_or_the_environment() {
    let scratch = Scratch::file();
    let url = format!("file:{}", scratch.path("elsewhere").display());
    std::fs::write(scratch.path("url"), format!("{url}\n")).expect("written");
    let run = ["run", "-n", "job", "--at-least-for", "0", "--", "true"];
    let output = finish(bare(&run).env("LOCKYARD_URL_FILE", scratch.path("url"))).await;
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(scratch.path("elsewhere").is_dir(), "the locks are where the file says");
    let output = finish(bare(&run).env("LOCKYARD_URL_FILE", "/no/such/file")).await;
    assert_eq!(output.status.code(), Some(78));
    let secret = ["run", "-b", "redis://me:s3cret@127.0.0.1:1/?tll=1", "-n", "job", "--", "true"];
    let output = finish(&mut bare(&secret)).await;
    assert!(stderr(&output).contains("everybody on this host can read"), "{}", stderr(&output));
    assert!(!stderr(&output).contains("s3cret"), "{}", stderr(&output));
}
