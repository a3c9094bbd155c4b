//! The conformance suite on Redis.

use std::process::ExitCode;

use lockyard_conformance::Runner;
use lockyard_redis::testing::RedisHarness;

fn main() -> ExitCode {
    Runner::new("redis", RedisHarness::start).run()
}
