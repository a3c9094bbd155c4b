//! The page docs/safety.md: its code is run by these tests, and what it names is there.

use std::collections::BTreeSet;
use std::path::Path;

use lockyard_conformance::Suite;

const PAGE: &str = include_str!("../../../docs/safety.md");
const SOURCES: [&str; 5] = [
    include_str!("sql.rs"),
    include_str!("redis.rs"),
    include_str!("etcd.rs"),
    include_str!("http.rs"),
    include_str!("register.rs"),
];

#[test]
fn every_block_of_code_is_part_of_a_test() {
    let blocks: Vec<&str> = PAGE.split("\n```rust\n").skip(1).filter_map(|rest| rest.split("\n```\n").next()).collect();
    assert!(blocks.len() >= SOURCES.len(), "{} blocks", blocks.len());
    for block in blocks {
        let found = SOURCES.iter().filter(|source| source.contains(block)).count();
        assert_eq!(found, 1, "not word for word in one test:\n{block}");
    }
}

/// Each cell of the table of guarantees names what shows it, or that nothing does.
#[test]
fn what_the_table_names_is_there() {
    let suite = Suite::latest();
    let checks: BTreeSet<&str> = suite.checks().iter().map(|check| check.name).collect();
    let table = PAGE.split("| failure |").nth(1).and_then(|rest| rest.split("\n\n").next()).expect("the table");
    let rows: Vec<&str> = table.lines().skip(2).collect();
    assert!(rows.len() >= 10, "{} rows", rows.len());
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        assert_eq!(cells.len(), 6, "{row}");
        if cells[0] == "good for" {
            continue;
        }
        for cell in &cells[1..] {
            assert!(cell.contains("not shown") || cell.contains('`'), "nothing shows {cell:?} of {:?}", cells[0]);
            names_what_is_there(cell, &checks);
        }
    }
}

/// Checks by `clause::check`, tests by their file and behind it their function.
fn names_what_is_there(cell: &str, checks: &BTreeSet<&str>) {
    let mut file = None;
    for name in cell.split('`').skip(1).step_by(2) {
        if name.contains("::") {
            assert!(checks.contains(name), "there is no check {name}");
        } else if name.ends_with(".rs") {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name);
            file = Some(std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{name}: {e}")));
        } else if let Some(source) = file.take() {
            assert!(source.contains(&format!("fn {name}()")), "there is no test {name}");
        }
    }
    assert!(file.is_none(), "a file without its test in {cell:?}");
}
