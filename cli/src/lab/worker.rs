//! `lockyard bench-worker`: a client of a comparison in a process of its own.

use std::sync::Arc;

use lockyard_benches::Spawn;
use tokio::process::Command;

use super::measuring::connector;
use crate::args::BenchWorkerArgs;
use crate::exit::{Exit, Failure};
use crate::output::Voice;

/// Works until the input ends.
pub(crate) async fn serve(args: &BenchWorkerArgs) -> Result<Exit, Failure> {
    let source = args.source.resolve(None, Voice::new(true, 0))?;
    let served = lockyard_benches::serve(connector(source.url().to_owned())).await;
    served.map_err(|error| Failure::internal(format!("no parent-death signal: {error}")))?;
    Ok(Exit::Success)
}

/// Starts this program as a client of the URL. It stands in the environment: everybody can read a command line.
pub(super) fn spawn() -> Option<Spawn> {
    let program = std::env::current_exe().ok()?;
    Some(Arc::new(move |url| {
        let mut command = Command::new(&program);
        command.arg("bench-worker").env("LOCKYARD_URL", url);
        command
    }))
}
