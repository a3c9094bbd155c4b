//! `lockyard run` and signals: passed on, never ignored, never outlived by the command.
#![cfg(feature = "file")]

mod support;

use std::time::Duration;

use lockyard_testbed::timing::{eventually, scaled};
use nix::sys::signal::Signal;
use support::{SOON, Scratch, end_of, lives, send};
use tokio::process::Child;

/// A command that holds the lock until it is told to end.
const FOREVER: &str = "echo $$ > pid; while :; do sleep 0.05; done";

async fn hold(scratch: &Scratch) -> (Child, nix::unistd::Pid) {
    let holder = scratch.run("job", &[], FOREVER).spawn().expect("starts");
    let pid = scratch.pid_in("pid").await;
    (holder, pid)
}

/// The consul issues 797 and 3754: the wrapper went, the command ran on without its lock.
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

/// The consul issue 4439: no way to end what waits.
#[tokio::test]
async fn a_signal_ends_the_wait_at_once() {
    let scratch = Scratch::file();
    let (mut holder, _) = hold(&scratch).await;
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT] {
        let waits = ["-v", "--wait-forever"];
        let mut waiting = scratch.run("job", &waits, "echo never > never").spawn().expect("starts");
        eventually(SOON, || async { waits_for_a_signal(&waiting) }).await.expect("it listens");
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

/// Whether the process catches SIGTERM by now: before that the signal would simply end it.
fn waits_for_a_signal(child: &Child) -> bool {
    let status =
        std::fs::read_to_string(format!("/proc/{}/status", child.id().unwrap_or_default())).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    // The last one that is listened to, and so all of them.
    caught & (1 << (Signal::SIGUSR2 as i32 - 1)) != 0
}

#[tokio::test]
async fn the_command_dies_with_lockyard() {
    let scratch = Scratch::file();
    let (mut run, pid) = hold(&scratch).await;
    send(&run, Signal::SIGKILL);
    end_of(&mut run).await;
    eventually(SOON, || async { !lives(pid) }).await.expect("the kernel kills the command");
    assert!(!scratch.is_held("job").await, "and frees the lock");
}

#[tokio::test]
async fn the_command_inherits_no_descriptors() {
    let scratch = Scratch::file();
    let (mut run, pid) = hold(&scratch).await;
    let mut names: Vec<String> = std::fs::read_dir(format!("/proc/{pid}/fd"))
        .expect("its descriptors")
        .filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
        .map(|target| target.to_string_lossy().into_owned())
        .filter(|target| target.contains("locks") || target.contains("eventpoll") || target.contains("eventfd"))
        .collect();
    names.sort();
    assert_eq!(names, Vec::<String>::new(), "the lock's file and the event loop stay with lockyard");
    send(&run, Signal::SIGTERM);
    end_of(&mut run).await;
}
