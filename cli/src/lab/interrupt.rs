//! Ctrl-C and its like: what runs is ended in order, and what was found is kept.

use nix::sys::signal::Signal;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::exit::Failure;

/// Whether lockyard was told to end. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Interrupt {
    told: watch::Receiver<Option<Signal>>,
}

impl Interrupt {
    /// Listens from here on. A second signal ends lockyard at once.
    pub(super) fn listen() -> Result<Self, Failure> {
        let failed = |error| Failure::internal(format!("no signals: {error}"));
        let mut int = signal(SignalKind::interrupt()).map_err(failed)?;
        let mut term = signal(SignalKind::terminate()).map_err(failed)?;
        let (tell, told) = watch::channel(None);
        tokio::spawn(async move {
            let mut first = None;
            loop {
                let signal = tokio::select! {
                    _ = int.recv() => Signal::SIGINT,
                    _ = term.recv() => Signal::SIGTERM,
                };
                if first.replace(signal).is_some() {
                    // Servers that were started end with this process.
                    std::process::exit(128 + signal as i32);
                }
                let _ = tell.send(Some(signal));
            }
        });
        Ok(Self { told })
    }

    /// The signal, once there was one.
    pub(super) fn signal(&self) -> Option<Signal> {
        *self.told.borrow()
    }

    /// Runs `work` unless a signal comes first; `None` then, and the work is dropped.
    pub(super) async fn unless<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let mut told = self.told.clone();
        tokio::select! {
            biased;
            _ = told.wait_for(Option::is_some) => None,
            result = work => Some(result),
        }
    }
}
