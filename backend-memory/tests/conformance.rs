//! The memory server passes the whole suite, in each of its four ways of working.

use std::process::ExitCode;

use lockyard_api::Queueing::{Fifo, Unordered};
use lockyard_conformance::{NoHarness, Runner};
use lockyard_memory::MemoryLiveness::{Lease, Session};
use lockyard_memory::testing::MemoryHarness;

fn main() -> ExitCode {
    let ways = [
        ("memory-fifo-lease", Fifo, Lease),
        ("memory-fifo-session", Fifo, Session),
        ("memory-unordered-lease", Unordered, Lease),
        ("memory-unordered-session", Unordered, Session),
    ];
    lockyard_conformance::main(ways.map(|(id, queue, liveness)| {
        Runner::new(id, move || async move { Ok::<_, NoHarness>(MemoryHarness::new(queue, liveness)) })
    }))
}
