//! The report in a browser: light, dark, narrow, printed. Pictures are kept in the folder that `LOCKYARD_PICTURES` names.

mod browser;
mod everything;
mod look;

use std::path::{Path, PathBuf};

use lockyard_benches::report::Report;

use browser::{NARROW, VIEWS, View};
use tempfile::TempDir;

/// Written by `lockyard compare`: see `tests/data/README.md`.
const MEASURED: &str = include_str!("../data/quick.json");

fn page() -> String {
    Report::from_json(MEASURED).expect("a report").to_html().expect("a page")
}

/// The report of docs, where one is published.
fn published() -> Option<(&'static str, String, &'static [View])> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/report/report.json");
    let report = std::fs::read_to_string(file).ok()?;
    Some(("published", Report::from_json(&report).expect("a report").to_html().expect("a page"), &VIEWS))
}

/// The folder for the pictures: that which was asked for, or one that goes with the test.
struct Pictures(PathBuf, Option<TempDir>);

impl Pictures {
    fn new() -> Self {
        std::env::var_os("LOCKYARD_PICTURES").map(PathBuf::from).map_or_else(
            || {
                let folder = TempDir::new().expect("a folder for the pictures");
                Self(folder.path().to_owned(), Some(folder))
            },
            |folder| Self(folder, None),
        )
    }

    /// The part of it for a report, with the page in it.
    fn of(&self, which: &str, page: &str) -> PathBuf {
        let folder = self.0.join(which);
        std::fs::create_dir_all(&folder).expect("a folder for the pictures");
        std::fs::write(folder.join("report.html"), page).expect("the page");
        folder
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_report_is_fit_to_be_read() {
    browser::with_browser(|tab| async move {
        let everything = everything::grown(MEASURED).to_html().expect("a page");
        let pictures = Pictures::new();
        // A short run is a part of everything: one look is enough.
        let (narrow, views): (&[View], &[View]) = (&[NARROW], &VIEWS);
        let all = [("measured", page(), narrow), ("everything", everything, views)];
        for (which, page, views) in all.into_iter().chain(published()) {
            assert!(page.len() <= 500_000, "{which}: the page has {} bytes", page.len());
            let folder = pictures.of(which, &page);
            let found = look::complaints(&tab, &page, views, Some(&folder)).await.expect("a look");
            assert!(found.is_empty(), "{which}: {found:#?}");
            look::print(&tab, &folder).await.expect("a print");
        }
        assert!(pictures.0.join("everything/dark.png").exists());
        drop(pictures.1);
    })
    .await;
}

/// A page that is wrong in one way, and what has to be said of it.
struct Wrong {
    what: &'static str,
    /// What stands in the page, and what is put in its place.
    change: (&'static str, &'static str),
    complaint: &'static str,
}

const WRONG: &[Wrong] = &[
    Wrong {
        what: "a label on another",
        change: ("</desc>", "</desc><text x=\"12\" y=\"60\">on</text><text x=\"14\" y=\"62\">top</text>"),
        complaint: "lies on",
    },
    Wrong { what: "tiny letters in a chart", change: ("font: 12.5px", "font: 11px"), complaint: "px high" },
    Wrong {
        what: "tiny letters in a table",
        change: ("font-size: .875rem; line-height: 1.4", "font-size: .7rem"),
        complaint: "px high",
    },
    Wrong { what: "charts without marks", change: ("class=\"mark", "class=\"gone"), complaint: "nothing is drawn" },
    Wrong {
        what: "a picture from elsewhere",
        change: ("<footer>", "<footer><img alt=\"\" src=\"http://127.0.0.1:9/a.png\">"),
        complaint: "it asked for http",
    },
    Wrong {
        what: "a script",
        change: ("<footer>", "<script>console.error(1)</script><footer>"),
        complaint: "it logged",
    },
    Wrong {
        what: "something too wide",
        change: ("<footer>", "<div style=\"width: 1400px\">wide</div><footer>"),
        complaint: "px wide",
    },
    Wrong {
        what: "a link that leads nowhere",
        change: ("<footer>", "<a href=\"#nowhere\">there</a><footer>"),
        complaint: "leads nowhere",
    },
    Wrong { what: "a table that no key scrolls", change: ("tabindex=\"0\"", ""), complaint: "no key scrolls it" },
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_that_is_wrong_is_found_out() {
    browser::with_browser(|tab| async move {
        for Wrong { what, change: (from, to), complaint } in WRONG {
            let good = page();
            assert!(good.contains(from), "{what}: nothing to change");
            let found = look::complaints(&tab, &good.replace(from, to), &[NARROW], None).await.expect("a look");
            assert!(found.iter().any(|said| said.contains(complaint)), "{what}: {found:?}");
        }
    })
    .await;
}
