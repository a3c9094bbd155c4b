//! The conformance suite on ZooKeeper.

use std::process::ExitCode;

use lockyard_conformance::Runner;
use lockyard_zk::testing::ZkHarness;

fn main() -> ExitCode {
    Runner::new("zookeeper", ZkHarness::start).run()
}
