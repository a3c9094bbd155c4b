//! What is in ops/: rules and panels ask for series that are really exposed, and promtool agrees with the rules.
#![cfg(all(feature = "file", feature = "jobs", feature = "metrics"))]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde_json::Value;
use support::{Scratch, finish, stderr, stdout};
use tokio::process::Command;
use yaml_rust2::YamlLoader;

/// Labels that Prometheus adds.
const ADDED: [&str; 2] = ["instance", "job"];

fn ops(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../ops")).join(name)
}

fn read(path: PathBuf) -> String {
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The series of a run, with the names of their labels.
async fn exposed() -> BTreeMap<String, BTreeSet<String>> {
    let scratch = Scratch::file();
    let options = ["run", "-n", "job", "--once-per", "1h", "--metrics-file", "job.prom", "--", "true"];
    let output = finish(&mut scratch.lockyard(&options)).await;
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let page = read(scratch.path("job.prom"));
    let mut exposed: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in page.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let (series, labels) = line.split_once('{').unwrap_or((line, ""));
        let names = labels.split(',').filter_map(|label| Some(label.split_once('=')?.0.to_owned()));
        exposed.entry(series.to_owned()).or_default().extend(names);
    }
    exposed
}

/// The series in an expression, each with what stands in its braces.
fn series(expr: &str) -> Vec<(String, String)> {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut found = Vec::new();
    let mut rest = expr;
    while let Some(at) = rest.find("lockyard_") {
        let name: String = rest[at..].chars().take_while(|c| word(*c)).collect();
        rest = &rest[at + name.len()..];
        let braces = rest.strip_prefix('{').and_then(|rest| rest.split_once('}'));
        found.push((name, braces.map_or_else(String::new, |(inside, _)| inside.to_owned())));
    }
    found
}

/// The labels by which an expression sums.
fn summed_by(expr: &str) -> Vec<String> {
    let lists = expr.split("by (").skip(1).filter_map(|rest| rest.split_once(')'));
    lists.flat_map(|(list, _)| list.split(',').map(|label| label.trim().to_owned()).collect::<Vec<_>>()).collect()
}

fn check(exposed: &BTreeMap<String, BTreeSet<String>>, expr: &str) {
    let asked = series(expr);
    assert!(!asked.is_empty(), "{expr} asks for nothing of ours");
    let mut known = BTreeSet::new();
    for (name, matchers) in &asked {
        let labels = exposed.get(name).unwrap_or_else(|| panic!("{name} is not exposed: {expr}"));
        for matcher in matchers.split(',').map(str::trim).filter(|matcher| !matcher.is_empty()) {
            let label = matcher.split(['=', '!']).next().unwrap_or_default();
            assert!(labels.contains(label), "{name} has no label {label:?}: {expr}");
        }
        known.extend(labels.iter().map(String::as_str));
    }
    for label in summed_by(expr) {
        assert!(known.contains(label.as_str()) || ADDED.contains(&label.as_str()), "no label {label:?}: {expr}");
    }
}

#[test]
fn what_an_expression_asks_for_is_found() {
    let expr = r#"sum by (backend, le) (rate(lockyard_a_bucket{backend=~"$x", outcome!="y"}[5m])) / lockyard_b > 1"#;
    let asked = series(expr);
    assert_eq!(asked[0], ("lockyard_a_bucket".to_owned(), r#"backend=~"$x", outcome!="y""#.to_owned()));
    assert_eq!((asked[1].0.as_str(), asked.len()), ("lockyard_b", 2));
    assert_eq!(summed_by(expr), ["backend", "le"]);
}

#[tokio::test]
async fn every_rule_asks_for_series_that_are_exposed_and_has_its_page() {
    let exposed = exposed().await;
    let rules = YamlLoader::load_from_str(&read(ops("alerts.yaml"))).expect("YAML").remove(0);
    let tests = read(ops("alerts.test.yaml"));
    let runbook = read(ops("../docs/runbook.md"));
    let rules = rules["groups"][0]["rules"].as_vec().expect("rules");
    assert!(rules.len() >= 6);
    for rule in rules {
        let name = rule["alert"].as_str().expect("a name");
        check(&exposed, rule["expr"].as_str().expect("an expression"));
        assert!(runbook.contains(&format!("\n## {name}\n")), "{name} has no section in the runbook");
        let page = format!("docs/runbook.md#{}", name.to_lowercase());
        assert_eq!(rule["annotations"]["runbook"].as_str(), Some(page.as_str()));
        assert!(rule["annotations"]["summary"].as_str().is_some() && rule["labels"]["severity"].as_str().is_some());
        let alerts = tests.split(&format!("alertname: {name}\n        exp_alerts:")).count() - 1;
        assert!(alerts > 0, "no test in which {name} comes");
        assert!(tests.contains(&format!("alertname: {name} }}")) || name == "LockyardRenewalSlackLow", "none without");
    }
}

#[tokio::test]
async fn every_panel_asks_for_series_that_are_exposed() {
    let exposed = exposed().await;
    let dashboard: Value = serde_json::from_str(&read(ops("dashboard.json"))).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let mut asked = BTreeSet::new();
    for panel in panels.iter().filter(|panel| panel["type"] != "row") {
        let targets = panel["targets"].as_array().expect("targets");
        assert!(!targets.is_empty(), "{}", panel["title"]);
        for target in targets {
            let expr = target["expr"].as_str().expect("an expression");
            check(&exposed, expr);
            asked.extend(series(expr).into_iter().map(|(name, _)| name));
        }
    }
    let variables = dashboard["templating"]["list"].as_array().expect("variables").iter();
    for query in variables.filter_map(|variable| variable["query"]["query"].as_str()) {
        assert!(series(query).iter().all(|(name, _)| exposed.contains_key(name)), "{query}");
    }
    // What is exposed and shown nowhere is a figure that nobody sees.
    let shown = |name: &String| {
        asked.iter().any(|asked| asked.starts_with(name.trim_end_matches("_sum").trim_end_matches("_count")))
    };
    let unseen: Vec<&String> = exposed.keys().filter(|name| !shown(name)).collect();
    assert!(unseen.is_empty(), "{unseen:?}");
    let mut ids: Vec<_> = panels.iter().map(|panel| panel["id"].as_u64()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), panels.len(), "panels have numbers of their own");
}

/// promtool comes with Debian's package `prometheus`; it is large, so nothing here installs it.
#[tokio::test]
async fn promtool_agrees_with_the_rules() {
    for args in [["check", "rules", "alerts.yaml"], ["test", "rules", "alerts.test.yaml"]] {
        let mut command = Command::new("promtool");
        match command.args(args).current_dir(ops(".")).output().await {
            Ok(output) => assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output)),
            Err(error) => {
                eprintln!("ignored: promtool cannot be run ({error}): apt-get install prometheus");
                return;
            }
        }
    }
}
