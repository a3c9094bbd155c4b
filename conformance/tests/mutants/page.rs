//! The page docs/caught.md tells what is.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use lockyard_conformance::Suite;

use crate::cases::ALL;

const PAGE: &str = include_str!("../../../docs/caught.md");

/// The cells of the rows of all tables, without their outer bars.
fn rows() -> impl Iterator<Item = Vec<&'static str>> {
    let lines = PAGE.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix('|'));
    lines.map(|line| line.split('|').map(str::trim).collect())
}

/// What stands between backticks.
fn quoted(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

/// The cases that the page has to answer for.
fn cases() -> BTreeSet<&'static str> {
    let line = PAGE.lines().find_map(|line| line.strip_prefix("Cases: ")).expect("the page lists the cases");
    line.split_whitespace().collect()
}

#[test]
fn the_page_names_every_check_with_its_wrong_backends() {
    let mut expected: BTreeMap<&str, (BTreeSet<String>, BTreeSet<&str>)> =
        Suite::latest().checks().iter().map(|check| (check.name, Default::default())).collect();
    for (test, cases) in ALL {
        for (fault, _, _, checks) in *cases {
            for check in *checks {
                let (faults, tests) = expected.get_mut(check).expect("a check of the suite");
                faults.insert(format!("{fault:?}"));
                tests.insert(test);
            }
        }
    }
    let mut told = BTreeMap::new();
    for row in rows().filter(|row| row.len() == 4 && row[0].contains("::")) {
        let check = *quoted(row[0]).first().expect("a check");
        let faults: BTreeSet<String> = row[1].split(", ").map(str::to_owned).collect();
        let tests: BTreeSet<&str> = quoted(row[2]).into_iter().collect();
        assert!(row[3].split_whitespace().all(|case| cases().contains(case)), "{check}: no such case: {}", row[3]);
        told.insert(check, (faults, tests));
    }
    for (check, expected) in &expected {
        assert_eq!(told.get(check), Some(expected), "docs/caught.md, row of {check}");
    }
    assert_eq!(told.len(), expected.len(), "docs/caught.md has a check that the suite has not");
}

/// Every case is held by files that name it, or is told why not.
#[test]
fn the_page_answers_for_every_case() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
    let mut answered = BTreeSet::new();
    for row in rows().filter(|row| cases().contains(row[0])) {
        let case = row[0];
        assert!(answered.insert(case), "{case} has two rows");
        match row.as_slice() {
            [_, what, held_by] => {
                assert!(!what.is_empty() && !quoted(held_by).is_empty(), "{case}: held by nothing");
                for file in quoted(held_by) {
                    let text = std::fs::read_to_string(root.join(file)).unwrap_or_default();
                    let named = text.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| word == case);
                    assert!(named, "{file} does not name {case}");
                }
            }
            [_, why] => assert!(why.len() > 40, "{case}: no reason"),
            _ => panic!("{case}: a row of {} cells", row.len()),
        }
    }
    let missing: Vec<_> = cases().difference(&answered).copied().collect();
    assert!(missing.is_empty(), "docs/caught.md does not answer for {missing:?}");
}
