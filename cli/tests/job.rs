//! `lockyard job`, on files and on Redis.
#![cfg(all(feature = "jobs", feature = "file", feature = "redis"))]

mod support;

use std::time::Duration;

use lockyard_jobs::{Job, Outcome, Schedule, WallTime};
use lockyard_testbed::{Server, Service};
use support::{Scratch, finish, schema, stderr, stdout};

/// A job of one failure, on these locks.
async fn failed_once(url: &str, name: &str, shards: Option<u32>) -> Job {
    let locks = lockyard::connect(url).await.expect("connects");
    let register = lockyard::connect_register(url).await.expect("connects");
    let mut builder =
        Job::builder(name, locks.clone(), register).schedule(Schedule::every(Duration::from_secs(3600))).label("web-1");
    if let Some(shards) = shards {
        builder = builder.shards(shards);
    }
    let job = builder.build().expect("a job");
    let now = WallTime::now(locks.clock());
    let outcome = job.run_shard(0, now, |_| async { Err::<(), _>("no\ndisk") }).await.expect("runs");
    assert_eq!(outcome, Outcome::Failed("no\ndisk"));
    job
}

/// The cells of a line that begins with this name.
fn line(table: &str, name: &str) -> Vec<String> {
    let line = table.lines().find(|line| line.split_whitespace().next() == Some(name));
    line.unwrap_or_else(|| panic!("{name} is not in {table}")).split_whitespace().map(str::to_owned).collect()
}

async fn is_steered_by_hand(scratch: &Scratch, url: &str) {
    assert_eq!(stdout(&finish(&mut scratch.lockyard(&["job", "list", "-o", "json"])).await).matches("name").count(), 0);
    let job = failed_once(url, "sync", None).await;
    let split = failed_once(url, "split", Some(2)).await;

    let table = stdout(&finish(&mut scratch.lockyard(&["job", "list"])).await);
    let cells = line(&table, "sync");
    assert!(cells[1..4] == ["every", "1h", "idle"] && cells[5..7] == ["failed", "1"], "{table}");
    assert!(cells[7].parse::<WallTime>().is_ok(), "{table}");
    assert_eq!((line(&table, "split#0")[5].as_str(), line(&table, "split#1")[5].as_str()), ("failed", "-"), "{table}");
    let json: serde_json::Value =
        serde_json::from_str(&stdout(&finish(&mut scratch.lockyard(&["job", "list", "-o", "json"])).await))
            .expect("JSON");
    assert!(schema("job").is_valid(&json), "{json:#}");
    assert_eq!(json["jobs"].as_array().map(Vec::len), Some(3));

    let history = stdout(&finish(&mut scratch.lockyard(&["job", "history", "sync"])).await);
    let cells = line(&history, "sync");
    assert!(cells[2] == "failed" && cells[5] == "web-1" && history.contains("no disk"), "{history}");
    let output = finish(&mut scratch.lockyard(&["job", "history", "split", "-o", "json"])).await;
    let json: serde_json::Value = serde_json::from_str(&stdout(&output)).expect("JSON");
    assert!(schema("job").is_valid(&json), "{json:#}");
    assert_eq!(json["runs"][0]["run"]["error"], "no\ndisk");

    for name in ["sync", "split"] {
        assert!(finish(&mut scratch.lockyard(&["job", "pause", name])).await.status.success());
    }
    assert!(split.control().records().await.expect("reads").iter().all(|record| record.paused.is_some()));
    let table = stdout(&finish(&mut scratch.lockyard(&["job", "list"])).await);
    assert_eq!((line(&table, "sync")[3].as_str(), line(&table, "sync")[7].as_str()), ("paused", "-"), "{table}");
    assert!(finish(&mut scratch.lockyard(&["job", "trigger", "sync"])).await.status.success());
    let paused = job.run_triggered(0, |_| async { Ok::<_, String>(()) }).await.expect("answers");
    assert!(!paused.is_ran(), "{paused:?}");
    assert!(finish(&mut scratch.lockyard(&["job", "resume", "sync"])).await.status.success());
    let by_hand = job.run_triggered(0, |run| async move { Ok::<_, String>(run.is_triggered()) }).await;
    assert_eq!(by_hand.expect("runs"), Outcome::Ran(true));

    for action in ["pause", "resume", "trigger", "history"] {
        let output = finish(&mut scratch.lockyard(&["job", action, "absent"])).await;
        assert_eq!(output.status.code(), Some(64), "{action}");
        assert!(stderr(&output).contains("no job \"absent\""), "{}", stderr(&output));
    }
}

#[tokio::test]
async fn on_files() {
    let scratch = Scratch::file();
    let url = format!("file:{}", scratch.path("locks").display());
    is_steered_by_hand(&scratch, &url).await;
}

#[tokio::test]
async fn on_redis() {
    let Some(server) = Server::start_or_skip(Service::Redis).await.expect("a server that works") else { return };
    let url = server.lock_url();
    is_steered_by_hand(&Scratch::on(&url), &url).await;
    // A record of a later version is told, and stays.
    let register = lockyard::connect_register(&url).await.expect("connects");
    let name = lockyard::LockName::new("@job/sync").expect("a name");
    let found = register.read(&name).await.expect("reads");
    let token = found.token.expect("written");
    let _ = register.write(&name, br#"{"v":2}"#, token, found.version).await.expect("writes");
    let output = finish(&mut Scratch::on(&url).lockyard(&["job", "pause", "sync"])).await;
    assert_eq!(output.status.code(), Some(70));
    assert!(stderr(&output).contains("has version 2, this program knows up to 1"), "{}", stderr(&output));
    assert_eq!(register.read(&name).await.expect("reads").value.as_deref(), Some(&br#"{"v":2}"#[..]));
}
