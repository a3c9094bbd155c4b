//! Faults of the server.

use std::fmt;

use lockyard_conformance::{Fault, NoHarness};
use lockyard_testbed::{FaultError, Server, StartError};

/// Makes a fault of a server of ours: `break_server(server, Server::freeze)`. `None` is a server of somebody else, which is left alone.
///
/// # Cancel safety
/// That of the fault.
pub async fn break_server(
    server: Option<&Server>,
    fault: impl AsyncFnOnce(&Server) -> Result<(), FaultError>,
) -> Fault {
    match server {
        Some(server) => told(fault(server).await),
        None => Fault::not_offered("the server is joined, not ours"),
    }
}

/// Whether a fault was made, or why not.
pub fn told<E: fmt::Display>(made: Result<(), E>) -> Fault {
    match made {
        Ok(()) => Fault::Done,
        Err(error) => Fault::not_offered(error.to_string()),
    }
}

/// Why there is no harness: nothing to start is a reason to skip, what does not start is a failure.
#[must_use]
pub fn no_harness(error: StartError) -> NoHarness {
    match error {
        StartError::Absent(absent) => NoHarness::skip(absent),
        failed => NoHarness::failed(failed),
    }
}
