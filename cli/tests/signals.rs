//! `lockyard run` and signals: passed on, never ignored, never outlived by the command.
#![cfg(feature = "file")]

mod support;

use std::process::Stdio;
use std::time::Duration;

use lockyard_testbed::timing::{eventually, scaled};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use support::{SOON, Scratch, catches_signals, end_of, finish, lives, send};
use tokio::process::Child;

/// A command that holds the lock until it is told to end.
const FOREVER: &str = "echo $$ > pid; while :; do sleep 0.05; done";

async fn hold(scratch: &Scratch) -> (Child, Pid) {
    let holder = scratch.run("job", &[], FOREVER).spawn().expect("starts");
    let pid = scratch.pid_in("pid").await;
    (holder, pid)
}

/// B146: the wrapper went, the command ran on without its lock.
#[tokio::test]
async fn a_command_that_is_told_to_end_keeps_its_lock_until_it_has() {
    let scratch = Scratch::file();
    let script = "trap 'sleep 0.5; rm busy; exit 9' TERM; echo $$ > busy; while :; do sleep 0.05; done";
    let mut first = scratch.run("job", &[], script).spawn().expect("starts");
    scratch.file_made("busy").await;
    let mut second = scratch.run("job", &["--wait", "60s"], "test ! -e busy").spawn().expect("starts");
    send(&first, Signal::SIGTERM);
    assert_eq!(end_of(&mut first).await.code(), Some(9), "the command's own code");
    assert_eq!(end_of(&mut second).await.code(), Some(0), "the other command never ran beside the first");
}

/// The shell dies of the signal at once, its child takes its time: the lock is that of the whole group.
#[tokio::test]
async fn the_lock_is_held_until_the_whole_group_has_ended() {
    let scratch = Scratch::file();
    let worker = "trap 'sleep 0.5; rm busy; exit' TERM; echo $$ > busy; while :; do sleep 0.05; done";
    std::fs::write(scratch.path("worker.sh"), worker).expect("written");
    let mut first = scratch.run("job", &[], "sh worker.sh & wait").spawn().expect("starts");
    scratch.file_made("busy").await;
    let mut second = scratch.run("job", &["--wait", "60s"], "test ! -e busy").spawn().expect("starts");
    send(&first, Signal::SIGTERM);
    assert_eq!(end_of(&mut first).await.code(), Some(143));
    assert_eq!(end_of(&mut second).await.code(), Some(0), "the other command never ran beside the worker");
}

#[tokio::test]
async fn each_signal_reaches_the_command() {
    for signal in [Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT, Signal::SIGUSR1] {
        let scratch = Scratch::file();
        let script = format!("trap 'exit 33' {}; echo $$ > pid; while :; do sleep 0.05; done", signal as i32);
        let mut run = scratch.run("job", &[], &script).spawn().expect("starts");
        scratch.pid_in("pid").await;
        send(&run, signal);
        assert_eq!(end_of(&mut run).await.code(), Some(33), "{signal}");
        assert!(!scratch.is_held("job").await, "{signal}: released");
    }
}

#[tokio::test]
async fn a_second_signal_kills() {
    let scratch = Scratch::file();
    let script = "trap 'echo told > told' TERM; echo $$ > pid; while :; do sleep 0.05; done";
    let mut run = scratch.run("job", &[], script).spawn().expect("starts");
    let pid = scratch.pid_in("pid").await;
    send(&run, Signal::SIGTERM);
    scratch.file_made("told").await;
    send(&run, Signal::SIGTERM);
    assert_eq!(end_of(&mut run).await.code(), Some(137));
    assert!(!lives(pid));
}

/// B149: no way to end what waits.
#[tokio::test]
async fn a_signal_ends_the_wait_at_once() {
    let scratch = Scratch::file();
    let (mut holder, _) = hold(&scratch).await;
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT] {
        let waits = ["-v", "--wait-forever"];
        let mut waiting = scratch.run("job", &waits, "echo never > never").spawn().expect("starts");
        eventually(SOON, || async { catches_signals(&waiting) }).await.expect("it listens");
        send(&waiting, signal);
        let end = tokio::time::timeout(scaled(Duration::from_secs(1)), waiting.wait()).await;
        let code = end.expect("within a second").expect("a status").code();
        assert_eq!(code, Some(128 + signal as i32));
    }
    send(&holder, Signal::SIGKILL);
    end_of(&mut holder).await;
    let mut next = scratch.run("job", &["--wait", "20s"], "true").spawn().expect("starts");
    assert_eq!(end_of(&mut next).await.code(), Some(0), "those that gave up left nothing behind");
    assert!(!scratch.path("never").exists());
}

#[tokio::test]
async fn the_command_dies_with_lockyard() {
    let scratch = Scratch::file();
    let (mut run, pid) = hold(&scratch).await;
    send(&run, Signal::SIGKILL);
    end_of(&mut run).await;
    eventually(SOON, || async { !lives(pid) }).await.expect("the kernel kills the command");
    // What the shell was waiting for has the lock's descriptor too, for the moment that it takes.
    eventually(SOON, || async { !scratch.is_held("job").await }).await.expect("and frees the lock");
}

/// As with flock(1): nobody else comes in while anything of the command is left.
#[tokio::test]
async fn what_outlives_a_killed_lockyard_keeps_the_lock() {
    let scratch = Scratch::file();
    let mut run = scratch.run("job", &[], "sleep 600 & echo $! > pid; wait").spawn().expect("starts");
    let left = scratch.pid_in("pid").await;
    send(&run, Signal::SIGKILL);
    end_of(&mut run).await;
    let mut next = scratch.run("job", &["--wait-forever"], "exit 5").spawn().expect("starts");
    let tried = finish(&mut scratch.run("job", &[], "true")).await;
    assert_eq!((tried.status.code(), lives(left)), (Some(75), true), "held by what the shell has started");
    assert!(scratch.is_held("job").await);
    kill(left, Signal::SIGKILL).expect("it was ours");
    assert_eq!(end_of(&mut next).await.code(), Some(5), "free when the last has ended");
}

#[tokio::test]
async fn a_lock_that_is_not_inherited_ends_with_lockyard() {
    let scratch = Scratch::file();
    let script = "sleep 600 & echo $! > pid; wait";
    let mut run = scratch.run("job", &["--no-inherit-lock"], script).spawn().expect("starts");
    let left = scratch.pid_in("pid").await;
    send(&run, Signal::SIGKILL);
    end_of(&mut run).await;
    let next = finish(&mut scratch.run("job", &[], "exit 5")).await;
    assert_eq!((next.status.code(), lives(left)), (Some(5), true));
    kill(left, Signal::SIGKILL).expect("it was ours");
}

#[tokio::test]
async fn the_command_inherits_no_descriptor_but_the_lock_s() {
    let scratch = Scratch::file();
    let (mut run, pid) = hold(&scratch).await;
    let names = descriptors(pid);
    assert!(names.len() == 1 && names[0].ends_with("job.lock"), "the event loop stays with lockyard: {names:?}");
    send(&run, Signal::SIGTERM);
    end_of(&mut run).await;

    let mut command = scratch.run("other", &["--no-inherit-lock"], "echo $$ > other; read line");
    let mut run = command.stdin(Stdio::piped()).spawn().expect("starts");
    assert_eq!(descriptors(scratch.pid_in("other").await), Vec::<String>::new());
    drop(run.stdin.take());
    end_of(&mut run).await;
}

/// The lock's file and the event loop, if the process has them.
fn descriptors(pid: Pid) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(format!("/proc/{pid}/fd"))
        .expect("its descriptors")
        .filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
        .map(|target| target.to_string_lossy().into_owned())
        .filter(|target| target.contains("locks") || target.contains("eventpoll") || target.contains("eventfd"))
        .collect();
    names.sort();
    names
}
