//! The conformance suite on a real etcd.

use std::process::ExitCode;

use lockyard_conformance::Runner;
use lockyard_etcd::testing::EtcdHarness;

fn main() -> ExitCode {
    Runner::new("etcd", EtcdHarness::start).run()
}
