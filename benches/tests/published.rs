//! What is published: the pages of `docs/report` are what its data render to, and the links of the documentation lead somewhere.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use lockyard_benches::report::Report;

/// Written by `lockyard compare`: its anchors stand for those of the published report where that is not there.
const MEASURED: &str = include_str!("data/quick.json");

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn the_published_pages_are_made_of_the_published_data() {
    let folder = root().join("docs/report");
    if !folder.exists() {
        eprintln!("SKIPPED: no report is published");
        return;
    }
    let report = Report::from_json(&read(&folder.join("report.json"))).expect("a report");
    assert_eq!(report.env.profile, "release", "figures of a debug build mean nothing");
    let page = report.to_html().expect("a page");
    // No diff of half a megabyte: `lockyard report docs/report/report.json` makes both again.
    assert!(page == read(&folder.join("report.html")), "report.html is not what report.json renders to");
    assert!(report.to_markdown() == read(&folder.join("report.md")), "report.md is not what report.json renders to");
    assert!(page.len() <= 500_000, "the page has {} bytes", page.len());
}

/// The documents: README and all below docs.
fn documents() -> Vec<PathBuf> {
    let mut found = vec![root().join("README.md"), root().join("CONTRIBUTING.md")];
    let mut folders = vec![root().join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
            if entry.is_dir() {
                folders.push(entry);
            } else if entry.extension().is_some_and(|extension| extension == "md") {
                found.push(entry);
            }
        }
    }
    found.sort();
    found
}

/// The targets of `[text](target)`, without those in code and those of other sites.
fn links(text: &str) -> Vec<&str> {
    let mut links = Vec::new();
    for block in text.split("```").step_by(2) {
        let targets = block.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        links.extend(targets.filter(|target| !target.contains("://") && !target.contains([' ', '\n'])));
    }
    links
}

/// What links may lead to in a document: named anchors, and headings as GitHub names them.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut anchors: BTreeSet<String> =
        text.split("<a id=\"").skip(1).filter_map(|rest| rest.split('"').next()).map(str::to_owned).collect();
    let headings = text.split("```").step_by(2).flat_map(str::lines).filter(|line| line.starts_with('#'));
    anchors.extend(headings.map(|heading| slug(heading.trim_start_matches('#').trim())));
    anchors
}

fn slug(heading: &str) -> String {
    let kept = heading.to_lowercase();
    let kept = kept.chars().filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'));
    kept.map(|letter| if letter == ' ' { '-' } else { letter }).collect()
}

/// What only longer suites measure.
const LONGER: [&str; 9] = [
    "takeover-",
    "failover-",
    "hold_cost-",
    "connections-",
    "waiting_cost-1000",
    "parallel-64",
    "contended-64",
    "contended-8-one-cohort",
    "peers",
];

/// What a link of a document lacks, if it leads nowhere.
fn lack(document: &Path, link: &str, published: bool) -> Option<String> {
    let (file, anchor) = link.split_once('#').map_or((link, None), |(file, anchor)| (file, Some(anchor)));
    let path = if file.is_empty() { document.to_owned() } else { document.with_file_name(file) };
    let reports = document.with_file_name("report");
    if path.starts_with(&reports) && !published {
        // Of a report that is not there only the anchors that every report has can be known.
        let sample = Report::from_json(MEASURED).expect("a report").to_markdown();
        let known = anchors(&sample);
        let missing = |anchor: &&str| !known.contains(*anchor) && !LONGER.iter().any(|part| anchor.starts_with(part));
        return anchor.filter(missing).map(|anchor| format!("no anchor {anchor}"));
    }
    if !path.exists() {
        return Some(format!("no file {file}"));
    }
    let anchor = anchor?;
    (!anchors(&read(&path)).contains(anchor)).then(|| format!("no anchor {anchor} in {}", path.display()))
}

#[test]
fn every_link_of_the_documentation_leads_somewhere() {
    let published = root().join("docs/report/report.md").exists();
    let mut broken = Vec::new();
    let mut count = 0;
    for document in documents() {
        let text = read(&document);
        for link in links(&text) {
            count += 1;
            broken
                .extend(lack(&document, link, published).map(|what| format!("{}: {link}: {what}", document.display())));
        }
    }
    assert!(count > 60, "only {count} links were found");
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn a_link_that_leads_nowhere_is_found() {
    let document = root().join("docs/choosing.md");
    for (link, what) in
        [("nowhere.md", "no file"), ("safety.md#nowhere", "no anchor"), ("report/report.md#nowhere", "no anchor")]
    {
        assert!(lack(&document, link, false).is_some_and(|lack| lack.contains(what)), "{link}");
    }
    assert_eq!(lack(&document, "report/report.md#fits", false), None);
}

/// In docs/choosing.md every claim names what shows it, and what it names is there.
#[test]
fn every_claim_of_the_choice_has_evidence() {
    let page = read(&root().join("docs/choosing.md"));
    let (_, questions) = page.split_once("\n## What do you already run?").expect("the questions");
    let caught = read(&root().join("docs/caught.md"));
    let claims: Vec<&str> =
        questions.split("\n- ").skip(1).map(|claim| claim.split("\n\n").next().unwrap_or(claim)).collect();
    assert!(claims.len() > 15, "{} claims", claims.len());
    for claim in claims {
        assert!(claim.contains("](") || claim.contains(".rs`"), "nothing shows: {claim}");
    }
    for row in questions.lines().filter(|line| line.starts_with("| ") && !line.contains("| failover |")) {
        assert!(row.contains("]("), "nothing shows: {row}");
    }
    let mut file = None;
    for name in questions.split('`').skip(1).step_by(2) {
        if name.ends_with(".rs") {
            file = Some(read(&root().join(name)));
        } else if let Some(source) = file.take() {
            assert!(source.contains(&format!("fn {name}(")), "there is no test {name}");
        } else if name.contains("::") && !name.starts_with(char::is_uppercase) {
            assert!(caught.contains(&format!("| `{name}` |")), "there is no check {name}");
        }
    }
}
