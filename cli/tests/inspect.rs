//! `lockyard inspect` on files.
#![cfg(feature = "file")]

mod support;

use std::process::Stdio;

use support::{Scratch, end_of, finish, schema, stderr, stdout};

#[tokio::test]
async fn shows_who_holds_what_and_takes_nothing() {
    let scratch = Scratch::file();
    let mut command = scratch.run("job", &[], "echo $LOCKYARD_FENCING_TOKEN > token; read line");
    let mut holder = command.stdin(Stdio::piped()).spawn().expect("starts");
    let token = scratch.file_made("token").await;
    let table = stdout(&finish(&mut scratch.lockyard(&["inspect", "job", "free"])).await);
    let lines: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["NAME", "STATE", "HOLDER", "TOKEN", "AGE", "EXPIRES", "WAITERS"]);
    assert_eq!((lines[1][..2].to_vec(), lines[1][3]), (vec!["job", "held"], token.trim()));
    assert!(lines[1][2].ends_with(&format!(":{}", holder.id().expect("it runs"))), "{table}");
    assert_eq!(lines[2][..2], ["free", "free"]);

    let output = finish(&mut scratch.lockyard(&["inspect", "-o", "json", "job", "free"])).await;
    let json: serde_json::Value = serde_json::from_str(&stdout(&output)).expect("JSON");
    assert!(schema("inspect").is_valid(&json), "{json:#}");
    assert_eq!((&json["locks"][0]["state"], &json["locks"][1]["state"]), (&"held".into(), &"free".into()));
    assert_eq!(stdout(&finish(&mut scratch.lockyard(&["inspect", "-o", "name", "free", "job"])).await), "job\n");

    assert!(scratch.is_held("job").await);
    drop(holder.stdin.take());
    end_of(&mut holder).await;
    assert!(!scratch.is_held("job").await);
}

#[tokio::test]
async fn what_is_wrong_is_said() {
    let scratch = Scratch::file();
    for (args, code) in [(&["inspect"][..], 64), (&["inspect", ""], 64), (&["inspect", "-b", "mongodb://h", "x"], 78)] {
        let output = finish(&mut scratch.lockyard(args)).await;
        assert_eq!((output.status.code(), stdout(&output)), (Some(code), String::new()), "{args:?}");
        assert_ne!(stderr(&output), "", "{args:?}");
    }
}
