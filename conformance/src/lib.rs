//! The conformance suite: one named check per clause of the contract, for any backend.

mod harness;

pub use harness::{Client, Fault, Harness, Link};
