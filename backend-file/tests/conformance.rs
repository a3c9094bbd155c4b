//! A directory of lock files passes the suite.

use std::process::ExitCode;

use lockyard_conformance::{NoHarness, Runner};
use lockyard_file::testing::FileHarness;

fn main() -> ExitCode {
    Runner::new("file", || async {
        FileHarness::new().map_err(|e| NoHarness::skip(format!("no temporary directory: {e}")))
    })
    .run()
}
