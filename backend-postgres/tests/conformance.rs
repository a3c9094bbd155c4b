//! The conformance suite on Postgres, in each mode.

use std::process::ExitCode;

use lockyard_conformance::Runner;
use lockyard_postgres::Mode;
use lockyard_postgres::testing::PostgresHarness;

fn main() -> ExitCode {
    let modes = [("postgres-advisory", Mode::Advisory), ("postgres-lease", Mode::Lease), ("postgres-row", Mode::Row)];
    lockyard_conformance::main(modes.map(|(id, mode)| Runner::new(id, move || PostgresHarness::start(mode))))
}
