//! The recipes of docs/run.md, as they stand there: run, or parsed by those who would read them.
#![cfg(feature = "file")]

#[path = "recipes/kubernetes.rs"]
mod kubernetes;
mod support;

use std::path::Path;
use std::process::Stdio;

use lockyard_testbed::timing::eventually;
use nix::sys::signal::{Signal, kill};
use support::{SOON, Scratch, bare, end_of, finish, lives, stderr};
use tokio::process::{Child, Command};

/// What the script of every recipe does: tells who it is and who runs it.
const SCRIPT: &str = "#!/bin/sh\ncd \"$(dirname \"$0\")\"\necho $$ > script\necho $PPID > ran\nread line\nexit 0\n";

fn page() -> String {
    std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/run.md")).expect("the page")
}

/// The first block of the page in this language.
fn block(language: &str) -> String {
    let page = page();
    let (_, rest) = page.split_once(&format!("```{language}\n")).expect("a block");
    rest.split_once("```").expect("its end").0.to_owned()
}

/// A folder with the script and the URL's file.
fn site() -> Scratch {
    let scratch = Scratch::file();
    write_script(&scratch.path("nightly.sh"));
    std::fs::write(scratch.path("url"), format!("{}\n", scratch.url())).expect("written");
    scratch
}

fn write_script(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::write(path, SCRIPT).expect("written");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("ours");
}

/// The paths of a recipe, as they are here.
fn placed(recipe: &str, scratch: &Scratch) -> String {
    let here = |name: &str| scratch.path(name).display().to_string();
    recipe
        .replace("/usr/local/bin/lockyard", env!("CARGO_BIN_EXE_lockyard"))
        .replace("/usr/local/bin/nightly.sh", &here("nightly.sh"))
        .replace("/app/nightly.sh", &here("nightly.sh"))
        .replace("/etc/lockyard/url", &here("url"))
}

/// Lets the script end, and then the lockyard over it, which would keep the name closed for a while.
async fn open(scratch: &Scratch, mut run: Child) -> Option<i32> {
    let (lockyard, script) = (scratch.pid_in("ran").await, scratch.pid_in("script").await);
    drop(run.stdin.take());
    eventually(SOON, || async { !lives(script) }).await.expect("the script ends");
    // Until lockyard has noticed that, a signal is one for the script.
    let told = eventually(SOON, || {
        let _ = kill(lockyard, Signal::SIGTERM);
        let ended = run.try_wait().expect("a status");
        async move { ended }
    });
    told.await.expect("lockyard ends").code()
}

#[tokio::test]
async fn the_crontab_line_runs_on_one_host_and_is_silent_on_the_others() {
    let scratch = site();
    let line = block("crontab");
    let fields: Vec<&str> = line.trim_end().splitn(6, ' ').collect();
    assert_eq!(fields[..5], ["0", "2", "*", "*", "*"]);
    assert!(!line.contains('%'), "cron reads a % as the end of the line");
    let line = placed(fields[5], &scratch);
    // As cron does: almost no environment, and /bin/sh.
    let cron = || {
        let mut command = Command::new("/bin/sh");
        command.env_clear().envs([
            ("SHELL", "/bin/sh"),
            ("PATH", "/usr/bin:/bin"),
            ("LOGNAME", "nobody"),
            ("HOME", "/"),
        ]);
        command.args(["-c", &line]).kill_on_drop(true);
        command
    };
    let mut first = cron();
    let first = first.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
    scratch.file_made("ran").await;
    let second = finish(cron().stdin(Stdio::null())).await;
    assert_eq!((second.status.code(), stderr(&second)), (Some(0), String::new()), "cron would mail it");
    assert_eq!(open(&scratch, first).await, Some(0));
}

#[cfg(feature = "jobs")]
#[tokio::test]
async fn the_line_with_a_slot_runs_once() {
    let scratch = site();
    let line = placed(&block("sh"), &scratch);
    let bin = Path::new(env!("CARGO_BIN_EXE_lockyard")).parent().expect("a folder").display().to_string();
    let shell = || {
        let mut command = Command::new("sh");
        command.args(["-c", &line]).stdin(Stdio::null()).kill_on_drop(true);
        command.env("PATH", format!("{bin}:/usr/bin:/bin")).env("LOCKYARD_URL", scratch.url());
        command
    };
    assert_eq!(finish(&mut shell()).await.status.code(), Some(0));
    std::fs::remove_file(scratch.path("ran")).expect("it ran");
    let again = finish(&mut shell()).await;
    assert_eq!((again.status.code(), stderr(&again)), (Some(0), String::new()));
    assert!(!scratch.path("ran").exists(), "once a night");
}

#[tokio::test]
async fn the_systemd_unit_is_one_and_starts_the_script() {
    let scratch = site();
    let unit = placed(&block("ini"), &scratch);
    let start = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).expect("what it starts");
    let mut words = start.split(' ');
    let mut command = Command::new(words.next().expect("a program"));
    command.args(words).env("LOCKYARD_URL", scratch.url()).stdin(Stdio::piped()).kill_on_drop(true);
    let run = command.spawn().expect("starts");
    scratch.file_made("ran").await;
    let args: Vec<&str> = start.split(' ').skip(1).collect();
    let skipped = finish(bare(&args).env("LOCKYARD_URL", scratch.url())).await;
    let success = unit.lines().find_map(|line| line.strip_prefix("SuccessExitStatus="));
    assert_eq!(skipped.status.code().map(|code| code.to_string()).as_deref(), success);
    assert_eq!(open(&scratch, run).await, Some(0));

    let file = scratch.path("nightly.service");
    std::fs::write(&file, unit).expect("written");
    match Command::new("systemd-analyze").arg("verify").arg("--man=no").arg(&file).output().await {
        // It warns of units of this host too; of ours it names the file.
        Ok(output) => {
            let complaints: Vec<String> =
                stderr(&output).lines().filter(|line| line.contains("nightly.service")).map(str::to_owned).collect();
            assert_eq!(complaints, Vec::<String>::new());
        }
        Err(error) => eprintln!("ignored: systemd-analyze cannot be run ({error}): the unit was not verified"),
    }
}

/// Each row of the table, with the name free and with it held: the two commands end alike.
#[tokio::test]
async fn each_flock_line_and_its_replacement_end_alike() {
    let scratch = site();
    let page = page();
    let rows = page.lines().filter(|line| line.starts_with("| `flock"));
    let rows: Vec<Vec<&str>> = rows.map(|line| line.split('`').skip(1).step_by(2).collect()).collect();
    assert_eq!(rows.len(), 6);
    let bin = Path::new(env!("CARGO_BIN_EXE_lockyard")).parent().expect("a folder").display().to_string();
    let shell = |line: &str| {
        let line = line.replace("/var/lock/nightly", &scratch.path("nightly.lock").display().to_string());
        // A recipe that waits for long is given a tenth of a second here.
        let line = line.replace("-w 10 ", "-w 0.1 ").replace("--wait 10s", "--wait 100ms");
        let mut command = Command::new("sh");
        command.args(["-c", &line]).stdin(Stdio::null()).kill_on_drop(true);
        command.env("PATH", format!("{bin}:{}:/usr/bin:/bin", scratch.folder().display()));
        command.env("LOCKYARD_URL", scratch.url());
        command
    };
    for row in &rows {
        let codes = [finish(&mut shell(row[0])).await.status.code(), finish(&mut shell(row[1])).await.status.code()];
        assert_eq!(codes, [Some(0), Some(0)], "{row:?}, free");
    }
    let holders = [
        "flock -n /var/lock/nightly sh -c 'echo up > a; read line'",
        "lockyard run -n nightly --at-least-for 0 -- sh -c 'echo up > b; read line'",
    ];
    let mut running = Vec::new();
    for (holder, file) in holders.iter().zip(["a", "b"]) {
        let mut command = shell(holder);
        running.push(command.current_dir(scratch.folder()).stdin(Stdio::piped()).spawn().expect("starts"));
        scratch.file_made(file).await;
    }
    for row in rows.iter().filter(|row| !row[1].contains("--wait-forever")) {
        let codes = [finish(&mut shell(row[0])).await.status.code(), finish(&mut shell(row[1])).await.status.code()];
        assert!(codes[0] == codes[1] && codes[0] != Some(0), "{row:?}, held: {codes:?}");
    }
    for mut holder in running {
        drop(holder.stdin.take());
        end_of(&mut holder).await;
    }
}
