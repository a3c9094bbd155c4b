//! The record of two hosts in docs/run.md: made again, on a Redis of the test, and compared.
#![cfg(all(feature = "redis", feature = "jobs"))]

mod support;

use std::time::Duration;

use lockyard_testbed::timing::within;
use lockyard_testbed::{Server, Service};
use support::{SOON, stderr, stdout};
use tokio::process::Command;

/// Of the record, and of the test: one that never turns to the next while the test goes on.
const TICKS: [&str; 2] = ["0 2 * * *", "0 0 29 2 *"];

/// The record as it stands on the page, behind the line that makes it.
fn record() -> String {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/run.md")).expect("the page");
    let (_, block) = page.split_once("```console\n$ ").expect("a record");
    let (block, _) = block.split_once("```").expect("its end");
    let (command, record) = block.split_once('\n').expect("what it shows");
    assert!(command.contains("scripts/two-hosts redis://"), "{command}");
    record.replace(TICKS[0], TICKS[1])
}

#[tokio::test]
async fn two_hosts_with_one_crontab_line_run_it_once() {
    let Some(server) = Server::start_or_skip(Service::Redis).await.expect("a server that works") else { return };
    let mut script = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/two-hosts"));
    script.arg(server.lock_url()).env("LOCKYARD", env!("CARGO_BIN_EXE_lockyard")).env("TICK", TICKS[1]);
    let output = within(SOON + Duration::from_secs(40), "two hosts", script.kill_on_drop(true).output()).await;
    let output = output.expect("a shell");
    assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
    assert_eq!(stdout(&output), record(), "{}", stderr(&output));
}
