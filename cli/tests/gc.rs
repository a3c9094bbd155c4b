//! `lockyard gc` on files.
#![cfg(feature = "file")]

mod support;

use std::process::Stdio;

use support::{Scratch, end_of, finish, stderr, stdout};

#[tokio::test]
async fn removes_what_is_unused_and_prints_it() {
    let scratch = Scratch::file();
    for name in ["job:a", "job:b", "other"] {
        assert!(finish(&mut scratch.run(name, &[], "true")).await.status.success());
    }
    let mut command = scratch.run("job:held", &[], "echo $LOCKYARD_FENCING_TOKEN > token; read line");
    let mut holder = command.stdin(Stdio::piped()).spawn().expect("starts");
    scratch.file_made("token").await;
    let gc = async |args: &[&str]| {
        let output = finish(&mut scratch.lockyard(&[&["gc"], args].concat())).await;
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let mut names: Vec<String> = stdout(&output).lines().map(str::to_owned).collect();
        names.sort_unstable();
        (names, stderr(&output))
    };
    let (names, said) = gc(&["job:"]).await;
    assert_eq!(names, [""; 0]);
    assert!(said.contains("0 names removed; 1 in use, 2 used lately"), "{said}");
    let (names, said) = gc(&["--older-than", "0s", "--dry-run"]).await;
    assert_eq!(names, ["job:a", "job:b", "other"]);
    assert!(said.contains("would be removed"), "{said}");
    assert_eq!(gc(&["--older-than", "0s", "job:"]).await.0, ["job:a", "job:b"]);
    assert_eq!(gc(&["--older-than", "0s"]).await.0, ["other"]);
    assert!(scratch.is_held("job:held").await);
    drop(holder.stdin.take());
    end_of(&mut holder).await;
}

#[tokio::test]
async fn what_is_wrong_is_said() {
    let scratch = Scratch::file();
    for (args, code) in [(&["gc", "--older-than", "3"][..], 64), (&["gc", "-b", "memory:"], 78)] {
        let output = finish(&mut scratch.lockyard(args)).await;
        assert_eq!((output.status.code(), stdout(&output)), (Some(code), String::new()), "{}", stderr(&output));
    }
}
