//! What the background tasks of a client work with.

use std::time::Duration;

use lockyard_api::Clock;
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::rpc::Rpc;

/// The surroundings of a task. They keep the connection and not the client: with the client `open` is closed, and with
/// the last task the connection.
#[derive(Debug, Clone)]
pub(crate) struct Surroundings {
    pub(crate) rpc: Rpc,
    pub(crate) clock: Clock,
    pub(crate) op_timeout: Duration,
    pub(crate) handle: Handle,
    pub(crate) open: watch::Receiver<()>,
}

impl Surroundings {
    /// Ends when the client was dropped.
    ///
    /// # Cancel safety
    /// May be dropped at any time.
    pub(crate) async fn dropped(&self) {
        // Nobody sends anything: the only change is the end.
        while self.open.clone().changed().await.is_ok() {}
    }
}
