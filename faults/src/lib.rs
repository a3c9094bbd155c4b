//! The faults that the conformance suite asks for, made on servers and proxies of the testbed: what the harnesses of all server
//! backends have in common. The suite knows no server, and the testbed knows no suite.

mod link;
mod server;

pub use link::ProxyLink;
pub use server::{break_server, no_harness, told};
