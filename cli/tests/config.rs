//! Settings: the command line, then the environment, then the user's file, then the host's, then the default.
#![cfg(feature = "file")]

mod support;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::Value;
use support::{Scratch, finish, schema, stderr, stdout};
use tokio::process::Command;

const KEYS: [&str; 10] =
    ["url", "namespace", "ttl", "renew", "wait", "jitter", "on_lost", "kill_after", "log_format", "color"];

/// `lockyard` with the home folder of the scratch, and no URL from the environment.
fn at_home(scratch: &Scratch, args: &[&str]) -> Command {
    let mut command = scratch.lockyard(args);
    command
        .env_remove("LOCKYARD_URL")
        .env_remove("LOCKYARD_CONFIG")
        .env_remove("XDG_CONFIG_HOME")
        .env("HOME", scratch.folder());
    command
}

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
    std::fs::write(path, text).expect("written");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).expect("ours");
}

/// The configuration file of the user.
fn configure(scratch: &Scratch, text: &str) {
    write(&scratch.path(".config/lockyard/config.toml"), text);
}

async fn effective(command: &mut Command) -> Value {
    let output = finish(command).await;
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let json: Value = serde_json::from_str(&stdout(&output)).expect("JSON");
    let errors: Vec<String> = schema("config").iter_errors(&json).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?} in {json:#}");
    json
}

fn setting<'a>(json: &'a Value, key: &str) -> (&'a str, &'a str) {
    let setting = &json["settings"][key];
    let text = |field: &str| setting[field].as_str().unwrap_or_else(|| panic!("{key}.{field} in {json:#}"));
    (text("value"), text("from"))
}

const SHOW: [&str; 4] = ["config", "show", "-o", "json"];

#[tokio::test]
async fn each_layer_yields_to_the_one_above() {
    let scratch = Scratch::file();
    let json = effective(&mut at_home(&scratch, &SHOW)).await;
    assert!(KEYS.iter().all(|key| setting(&json, key).1 == "default"), "{json:#}");
    assert_eq!((setting(&json, "url").0, setting(&json, "ttl").0), ("file:", "30s"));

    configure(
        &scratch,
        "url = \"redis://file/\"\nnamespace = \"file\"\nttl = \"20s\"\nwait = \"1s\"\non_lost = \"kill\"\n",
    );
    let json = effective(&mut at_home(&scratch, &SHOW)).await;
    for (key, value) in
        [("url", "redis://file/"), ("namespace", "file"), ("ttl", "20s"), ("wait", "1s"), ("on_lost", "kill")]
    {
        assert_eq!(setting(&json, key), (value, "file"), "{key}");
        assert!(json["settings"][key]["place"].as_str().is_some_and(|place| place.ends_with("config.toml")));
    }

    // A URL of a nearer layer says more than a file does.
    let mut command = at_home(&scratch, &SHOW);
    command.env("LOCKYARD_URL", "redis://variable/?ttl=10s").env("LOCKYARD_WAIT", "2s").env("LOCKYARD_ON_LOST", "");
    let json = effective(&mut command).await;
    assert_eq!(setting(&json, "url"), ("redis://variable/", "environment"));
    assert_eq!(json["settings"]["wait"]["place"], "LOCKYARD_WAIT");
    assert_eq!((setting(&json, "ttl"), setting(&json, "wait")), (("10s", "url"), ("2s", "environment")));
    assert_eq!(setting(&json, "on_lost"), ("kill", "file"), "an empty variable says nothing");

    let mut command =
        at_home(&scratch, &["config", "show", "-o", "json", "-b", "redis://flag/", "--namespace", "flag"]);
    command.env("LOCKYARD_URL", "redis://variable/").env("LOCKYARD_NAMESPACE", "variable").env("LOCKYARD_TTL", "5s");
    let json = effective(&mut command).await;
    assert_eq!((setting(&json, "url").1, setting(&json, "namespace")), ("flag", ("flag", "flag")));
    assert_eq!(setting(&json, "ttl"), ("5s", "environment"));
}

#[tokio::test]
async fn the_users_file_yields_to_one_that_is_named() {
    let scratch = Scratch::file();
    configure(&scratch, "ttl = \"20s\"\nwait = \"1s\"\n");
    write(&scratch.path("other.toml"), "ttl = \"15s\"\n");
    write(&scratch.path("third.toml"), "ttl = \"10s\"\n");
    write(&scratch.path("xdg/lockyard/config.toml"), "ttl = \"25s\"\n");
    let ttl = async |command: &mut Command| setting(&effective(command).await, "ttl").0.to_owned();
    assert_eq!(ttl(&mut at_home(&scratch, &SHOW)).await, "20s");
    assert_eq!(ttl(at_home(&scratch, &SHOW).env("XDG_CONFIG_HOME", scratch.path("xdg"))).await, "25s");
    let json = effective(at_home(&scratch, &SHOW).env("LOCKYARD_CONFIG", "other.toml")).await;
    assert_eq!((setting(&json, "ttl").0, setting(&json, "wait").1), ("15s", "default"), "instead, not beside");
    let named = ["config", "show", "-o", "json", "--config", "third.toml"];
    assert_eq!(ttl(at_home(&scratch, &named).env("LOCKYARD_CONFIG", "other.toml")).await, "10s");
    let output = finish(&mut at_home(&scratch, &["inspect", "--config", "none.toml", "job"])).await;
    assert_eq!(output.status.code(), Some(78));
    assert!(stderr(&output).contains("none.toml: there is no such file"), "{}", stderr(&output));
}

#[tokio::test]
async fn the_file_of_the_page_is_one() {
    let scratch = Scratch::file();
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/run.md")).expect("the page");
    let (_, file) = page.split_once("```toml\n").expect("a file");
    let (file, _) = file.split_once("```").expect("its end");
    write(&scratch.path("url"), "redis://h/\n");
    configure(&scratch, &file.replace("/etc/lockyard/url", &scratch.path("url").display().to_string()));
    let json = effective(&mut at_home(&scratch, &SHOW)).await;
    assert_eq!((setting(&json, "url"), setting(&json, "kill_after")), (("redis://h/", "file"), ("3s", "file")));
    let rows = KEYS.iter().filter(|key| page.contains(&format!("`{key}`"))).count();
    assert_eq!(rows, KEYS.len(), "each key has its place in the table");
}

/// What holds is what is done: a run by a file, beside the flags that win.
#[tokio::test]
async fn a_run_goes_by_its_configuration() {
    let scratch = Scratch::file();
    configure(
        &scratch,
        &format!(
            "url = \"{}\"\nnamespace = \"mine\"\nttl = \"12s\"\nwait = \"1h\"\nlog_format = \"json\"\n",
            scratch.url()
        ),
    );
    let dry = ["run", "-n", "job", "--dry-run", "-v", "--", "true"];
    let output = finish(&mut at_home(&scratch, &dry)).await;
    assert!(stdout(&output).contains("in namespace \"mine\" on file"), "{}{}", stdout(&output), stderr(&output));
    assert!(stdout(&output).contains("closed:  for 0"), "it waits, so the name opens at once: {}", stdout(&output));
    let output =
        finish(&mut at_home(&scratch, &["run", "-n", "job", "-v", "--", "sh", "-c", "echo $LOCKYARD_KEY"])).await;
    assert_eq!(stdout(&output), "mine:job\n");
    assert!(stderr(&output).lines().all(|line| serde_json::from_str::<Value>(line).is_ok()), "{}", stderr(&output));
    let flags = [
        "run",
        "-n",
        "job",
        "--wait",
        "0s",
        "--at-least-for",
        "0",
        "--namespace",
        "other",
        "-v",
        "--log-format",
        "text",
    ];
    let run = [&flags[..], &["--", "sh", "-c", "echo $LOCKYARD_KEY $LOCKYARD_CONFIG"]].concat();
    let output = finish(&mut at_home(&scratch, &run)).await;
    assert_eq!(stdout(&output), "other:job\n");
    assert!(stderr(&output).starts_with("lockyard: "), "{}", stderr(&output));
}

#[tokio::test]
async fn a_file_that_is_wrong_is_explained_and_nothing_is_started() {
    let scratch = Scratch::file();
    let cases: [(&str, &[&str]); 10] = [
        ("kil_after = \"1s\"", &["unknown key \"kil_after\"", "did you mean \"kill_after\"", "on_lost"]),
        ("[run]\nttl = \"1s\"", &["unknown key \"run\""]),
        ("ttl = 30", &["ttl", "integer", "string"]),
        ("ttl = \"30\"", &["ttl", "unit"]),
        ("on_lost = \"panic\"", &["on_lost", "terminate, kill, ignore"]),
        ("namespace = \"\"", &["namespace", "empty"]),
        ("url = \"redis://h/\"\nurl_file = \"/etc/x\"", &["url and url_file"]),
        ("url = \"redis//u:secret@h\"", &["url: write a URL"]),
        ("\nurl = redis://u:secret@h", &["line 2", "no TOML"]),
        ("url_file = \"no/such/file\"", &["no/such/file", "url_file of"]),
    ];
    for (text, words) in cases {
        configure(&scratch, text);
        let status = ["run", "-n", "job", "--status-file", "status.json", "--", "touch", "started"];
        let output = finish(&mut at_home(&scratch, &status)).await;
        let said = stderr(&output);
        assert_eq!((output.status.code(), stdout(&output)), (Some(78), String::new()), "{text}: {said}");
        assert!(words.iter().all(|word| said.contains(word)) && said.contains("config.toml"), "{text}: {said}");
        assert!(!said.contains("secret"), "{said}");
        assert_eq!(scratch.json("status.json")["outcome"], "error", "{text}");
        let shown = finish(&mut at_home(&scratch, &SHOW)).await;
        assert_eq!((shown.status.code(), stdout(&shown)), (Some(78), String::new()), "{text}");
    }
    let output = finish(
        at_home(&scratch, &["run", "-n", "job", "--config", "/dev/null", "--", "true"]).env("LOCKYARD_TTL", "5"),
    )
    .await;
    assert_eq!(output.status.code(), Some(78));
    assert!(stderr(&output).contains("LOCKYARD_TTL: write a time with its unit"), "{}", stderr(&output));
    assert!(!scratch.path("started").exists());
}

#[tokio::test]
async fn passwords_are_not_shown_and_open_files_are_told() {
    let scratch = Scratch::file();
    let secret = "redis://user:hunter2@h:6379/3?ttl=9s";
    configure(&scratch, &format!("url = \"{secret}\"\n"));
    let file = scratch.path(".config/lockyard/config.toml");
    let modes: [(u32, bool); 3] = [(0o600, false), (0o640, true), (0o644, true)];
    for (mode, told) in modes {
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).expect("ours");
        for show in [&SHOW[..], &SHOW[..2]] {
            let output = finish(&mut at_home(&scratch, show)).await;
            let (out, err) = (stdout(&output), stderr(&output));
            assert!(out.contains("redis://user:***@h:6379/3") && !(out + &err).contains("hunter2"), "{err}");
            assert_eq!(err.contains("others can read it"), told, "{mode:o}: {err}");
        }
    }
    // Without a password in it, it is nobody's secret.
    write(&scratch.path("url"), secret);
    configure(&scratch, &format!("url_file = \"{}\"\n", scratch.path("url").display()));
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).expect("ours");
    let output = finish(&mut at_home(&scratch, &SHOW)).await;
    assert!(stdout(&output).contains("redis://user:***@h:6379/3") && !stdout(&output).contains("hunter2"));
    assert_eq!(stderr(&output), "");
    let output = finish(at_home(&scratch, &SHOW).env("LOCKYARD_URL", "redis//hunter2@h")).await;
    assert!(!(stdout(&output) + &stderr(&output)).contains("hunter2"), "{}", stderr(&output));
}

#[tokio::test]
async fn completions_and_manual_pages_know_every_option() {
    let scratch = Scratch::file();
    for shell in ["bash", "zsh", "fish"] {
        let output = finish(&mut scratch.lockyard(&["completions", shell])).await;
        assert_eq!(output.status.code(), Some(0));
        assert!(stdout(&output).contains("at-most-for") && !stdout(&output).contains("hunter"), "{shell}");
    }
    let page = stdout(&finish(&mut scratch.lockyard(&["man", "run"])).await);
    assert!(page.contains(".TH lockyard-run 1") && page.contains("at\\-least\\-for"), "{page}");
    assert!(stdout(&finish(&mut scratch.lockyard(&["man"])).await).contains("lockyard\\-run(1)"));
    let output = finish(&mut scratch.lockyard(&["man", "nothing"])).await;
    assert_eq!(output.status.code(), Some(64), "{}", stderr(&output));
    let output = finish(&mut scratch.lockyard(&["completions", "dos"])).await;
    assert_eq!(output.status.code(), Some(64), "{}", stderr(&output));
}
