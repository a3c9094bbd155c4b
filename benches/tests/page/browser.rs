//! A Chromium of its own, without a window, driven over its debugging protocol.

use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::path::PathBuf;
use std::time::Duration;

use chromiumoxide::{Browser, BrowserConfig, Page};
use futures_util::{FutureExt, StreamExt};
use lockyard_testbed::timing;
use tempfile::TempDir;

/// The names under which distributions install it.
const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];
/// A bound that only a browser that hangs reaches, also on a machine with much to do.
const PATIENCE: Duration = Duration::from_secs(180);

/// Runs `work` in a new browser that ends with it, also when it panics. Without a Chromium on this machine it says so and does
/// nothing, unless `LOCKYARD_REQUIRE` names `chromium`.
pub(crate) async fn with_browser<W, F>(work: W)
where
    W: FnOnce(Page) -> F,
    F: Future<Output = ()>,
{
    let Some(program) = program() else {
        let required = std::env::var("LOCKYARD_REQUIRE").unwrap_or_default();
        let required = required.split(',').map(str::trim).any(|name| name == "chromium" || name == "all");
        assert!(!required, "no chromium on the PATH, and LOCKYARD_REQUIRE names it");
        eprintln!("SKIPPED: no chromium on the PATH; apt-get install chromium");
        return;
    };
    // Also its temporary files go there, and with it.
    let profile = TempDir::new().expect("a folder for the profile");
    let (mut browser, mut handler) = Browser::launch(config(program, &profile)).await.expect("a browser");
    let driver = tokio::spawn(async move { while handler.next().await.is_some() {} });
    let page = browser.new_page("about:blank").await.expect("a page");
    let outcome = AssertUnwindSafe(work(page)).catch_unwind().await;
    let ended = end(&mut browser).await;
    driver.abort();
    let gone = remove(profile).await;
    if let Err(panic) = outcome {
        resume_unwind(panic);
    }
    ended.expect("the end of the browser");
    assert!(gone, "the profile stays");
}

/// Whether the profile is gone: processes of the browser that end after it may still write there.
async fn remove(profile: TempDir) -> bool {
    let folder = profile.keep();
    let removed = || async { std::fs::remove_dir_all(&folder).is_ok() || !folder.exists() };
    timing::eventually(PATIENCE, removed).await.is_some()
}

/// Asks it to end, so that its own processes end before their profile goes; one that does not is killed.
async fn end(browser: &mut Browser) -> std::io::Result<()> {
    let asked = async {
        let _ = browser.close().await;
        browser.wait().await
    };
    match tokio::time::timeout(PATIENCE / 3, asked).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(_)) | Err(_) => browser.kill().await.unwrap_or(Ok(())),
    }
}

fn config(program: PathBuf, profile: &TempDir) -> BrowserConfig {
    let folder = profile.path();
    let mut config = BrowserConfig::builder()
        .chrome_executable(program)
        .user_data_dir(folder)
        .env("TMPDIR", folder.display().to_string())
        .env("HOME", folder.display().to_string())
        .viewport(None)
        .launch_timeout(PATIENCE)
        .request_timeout(PATIENCE)
        .args(["disable-gpu", "disable-crash-reporter", "hide-scrollbars", "force-color-profile=srgb"]);
    // The sandbox refuses to run for root.
    if rustix::process::geteuid().is_root() {
        config = config.no_sandbox();
    }
    config.build().unwrap_or_else(|reason| panic!("a configuration: {reason}"))
}

fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    NAMES.iter().find_map(|name| folders.iter().map(|folder| folder.join(name)).find(|file| file.is_file()))
}

/// How a page is looked at.
#[derive(Debug, Clone, Copy)]
pub(crate) struct View {
    pub(crate) name: &'static str,
    pub(crate) width: u32,
    pub(crate) dark: bool,
    pub(crate) print: bool,
}

impl fmt::Display for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name)
    }
}

/// The view in which most goes wrong.
pub(crate) const NARROW: View = View { name: "narrow", width: 375, dark: false, print: false };

/// The four ways in which readers meet it; A4 across is 1032 pixels wide between its margins.
pub(crate) const VIEWS: [View; 4] = [
    View { name: "light", width: 1280, dark: false, print: false },
    View { name: "dark", width: 1280, dark: true, print: false },
    NARROW,
    View { name: "print", width: 1032, dark: false, print: true },
];
