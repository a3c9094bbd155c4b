//! `lockyard run --tick` and `--once-per`: a slot is started once, by whoever comes first.
#![cfg(all(feature = "file", feature = "jobs"))]

mod support;

use support::{Scratch, finish, schema, stderr, stdout};
use tokio::process::Command;

/// A run for a slot, which neither waits nor keeps the name closed.
fn run(scratch: &Scratch, options: &[&str], script: &str) -> Command {
    let mut args = vec!["run", "-v", "-n", "job", "--status-file", "status.json"];
    args.extend(options);
    args.extend(["--", "sh", "-c", script]);
    scratch.lockyard(&args)
}

#[tokio::test]
async fn a_slot_runs_once_and_the_command_is_told_its_time() {
    let scratch = Scratch::file();
    let schema = schema("status");
    // Once a century: no test sees two slots.
    for (options, at) in [
        (&["--once-per", "876000h"][..], "1970-01-01T00:00:00.000Z"),
        (&["--tick", "0 0 29 2 *", "--tz", "Europe/Berlin"], "02-28T23:00:00.000Z"),
    ] {
        let scratch_of_its_own = Scratch::file();
        let first = finish(&mut run(&scratch_of_its_own, options, "echo $LOCKYARD_SCHEDULED_AT; exit 3")).await;
        assert_eq!(first.status.code(), Some(3), "{}", stderr(&first));
        assert!(stdout(&first).trim().ends_with(at), "{options:?}: {}", stdout(&first));
        let status = scratch_of_its_own.json("status.json");
        assert!(schema.is_valid(&status), "{status:#}");
        assert_eq!(status["scheduled_at"].as_str(), Some(stdout(&first).trim()));

        // It failed, and its slot is used all the same: at most one start.
        let second = finish(&mut run(&scratch_of_its_own, options, "touch again")).await;
        assert_eq!(second.status.code(), Some(75), "{}", stderr(&second));
        assert!(stderr(&second).contains("ran already on "), "{}", stderr(&second));
        let status = scratch_of_its_own.json("status.json");
        assert!(schema.is_valid(&status), "{status:#}");
        assert_eq!((&status["outcome"], &status["reason"]), (&"skipped".into(), &"already_ran".into()));
        assert!(!scratch_of_its_own.path("again").exists());
    }
    let output = finish(&mut scratch.run("other", &[], "echo [$LOCKYARD_SCHEDULED_AT]")).await;
    assert_eq!(stdout(&output), "[]\n", "without a slot there is no time of one");
}

/// A run for a slot is a job: its name is the label `job_name`, as of any job.
#[cfg(feature = "metrics")]
#[tokio::test]
async fn what_becomes_of_a_slot_is_counted() {
    let scratch = Scratch::file();
    let page = || std::fs::read_to_string(scratch.path("job.prom")).expect("the file");
    let counted = |outcome: &str| {
        let series = format!("lockyard_job_runs_total{{job_name=\"job\",outcome=\"{outcome}\"}} ");
        page().lines().find_map(|line| line.strip_prefix(&series).map(str::to_owned)).expect(outcome)
    };
    let options = ["--once-per", "876000h", "--metrics-file", "job.prom"];
    finish(&mut run(&scratch, &options, "true")).await;
    assert_eq!((counted("ran"), counted("claimed")), ("1".to_owned(), "0".to_owned()));
    assert!(page().contains("lockyard_job_running{job_name=\"job\"} 0\n"), "{}", page());
    assert!(page().contains("lockyard_job_interval_seconds{job_name=\"job\"} 3153600000\n"), "{}", page());
    assert!(page().contains("lockyard_job_duration_seconds_bucket{job_name=\"job\",le=\"86400\"} 1\n"), "{}", page());
    finish(&mut run(&scratch, &options, "true")).await;
    assert_eq!((counted("ran"), counted("claimed")), ("0".to_owned(), "1".to_owned()));
    finish(&mut run(&scratch, &["--once-per", "1h", "--metrics-file", "job.prom"], "exit 3")).await;
    assert_eq!(counted("failed"), "1");
}

#[tokio::test]
async fn what_comes_first_of_many_runs_and_the_others_skip() {
    let scratch = Scratch::file();
    let mut runs = Vec::new();
    for _ in 0..5 {
        let options = ["--once-per", "876000h", "--wait", "20s"];
        runs.push(run(&scratch, &options, "echo ran >> ran").spawn().expect("starts"));
    }
    let mut codes = Vec::new();
    for mut run in runs {
        codes.push(support::end_of(&mut run).await.code());
    }
    codes.sort();
    assert_eq!(codes, [Some(0), Some(75), Some(75), Some(75), Some(75)]);
    assert_eq!(std::fs::read_to_string(scratch.path("ran")).expect("it ran"), "ran\n");
}

#[tokio::test]
async fn a_schedule_that_is_none_is_explained_before_any_traffic() {
    let scratch = Scratch::file();
    let cases: [(&[&str], i32, &[&str]); 8] = [
        (&["--tick", "61 * * * *"], 64, &["--tick", "cron expression"]),
        (&["--tick", "0 2 * *"], 64, &["--tick", "cron expression"]),
        (&["--tick", "0 0 31 2 *"], 64, &["--tick", "never due"]),
        (&["--tick", "0 2 * * *", "--tz", "Europe/Berln"], 64, &["--tz", "Europe/Berln"]),
        (&["--tz", "Europe/Berlin"], 64, &["--tick"]),
        (&["--once-per", "60"], 64, &["unit"]),
        (&["--once-per", "0s"], 64, &["--once-per"]),
        (&["--once-per", "1m", "--at-least-for", "2m"], 78, &["--at-least-for 2m", "1m"]),
    ];
    for (options, code, words) in cases {
        // A server that is not there: what is wrong is told before it is looked for.
        let output = finish(run(&scratch, options, "true").env("LOCKYARD_URL", "redis://127.0.0.1:1/")).await;
        let text = stderr(&output);
        assert_eq!((output.status.code(), stdout(&output)), (Some(code), String::new()), "{options:?}: {text}");
        assert!(words.iter().all(|word| text.contains(word)), "{options:?}: {text}");
    }
}

#[tokio::test]
async fn a_record_that_cannot_be_read_is_left_alone() {
    let scratch = Scratch::file();
    let options = ["--once-per", "876000h"];
    finish(&mut run(&scratch, &options, "true")).await;
    let folder = scratch.path("locks/lockyard");
    let entries = std::fs::read_dir(folder).expect("the locks").filter_map(|entry| Some(entry.ok()?.path()));
    let register = entries.into_iter().find(|path| path.extension().is_some_and(|end| end == "register"));
    let path = register.expect("the record of the slots");
    let text = std::fs::read_to_string(&path).expect("the record");
    let cases = [(text.replacen("\"v\":1", "\"v\":99", 1), "version 99"), (text.replacen('{', "[", 1), "damaged")];
    for (record, word) in cases {
        std::fs::write(&path, &record).expect("written");
        let output = finish(&mut run(&scratch, &options, "touch started")).await;
        assert_eq!((output.status.code(), stdout(&output)), (Some(70), String::new()), "{}", stderr(&output));
        assert!(stderr(&output).contains(word), "{}", stderr(&output));
        assert_eq!(std::fs::read_to_string(&path).expect("the record"), record);
        assert!(!scratch.is_held("job").await, "the lock was given back");
    }
    assert!(!scratch.path("started").exists());
}
