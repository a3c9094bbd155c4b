//! What a run is told.

use std::sync::Arc;

use lockyard_api::FencingToken;
use tokio::sync::watch;

use crate::WallTime;

/// What a run is told. Cheap to clone.
#[derive(Debug, Clone)]
pub struct RunContext {
    facts: Arc<Facts>,
    cancel: watch::Receiver<bool>,
}

#[derive(Debug)]
pub(crate) struct Facts {
    pub(crate) scheduled_at: WallTime,
    pub(crate) previous_success: Option<WallTime>,
    pub(crate) run_id: String,
    pub(crate) attempt: u32,
    pub(crate) token: FencingToken,
    pub(crate) shard: Option<u32>,
    pub(crate) missed: u64,
    pub(crate) crashed: bool,
    pub(crate) triggered: bool,
}

impl RunContext {
    pub(crate) fn new(facts: Facts, cancel: watch::Receiver<bool>) -> Self {
        Self { facts: Arc::new(facts), cancel }
    }

    /// The slot: the time of the tick, the same on every replica. Work on the data up to here, not up to now.
    #[must_use]
    pub fn scheduled_at(&self) -> WallTime {
        self.facts.scheduled_at
    }

    /// The slot of the latest run that ended well: work on the data from here.
    #[must_use]
    pub fn previous_success(&self) -> Option<WallTime> {
        self.facts.previous_success
    }

    /// Differs from that of every other run: a key of idempotency for one start.
    #[must_use]
    pub fn run_id(&self) -> &str {
        &self.facts.run_id
    }

    /// Which start of this slot it is: 1, unless [`OnCrash::Rerun`](crate::OnCrash::Rerun) is set.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.facts.attempt
    }

    /// The number that resources check, so that a run that was paused too long cannot write late.
    #[must_use]
    pub fn fencing_token(&self) -> FencingToken {
        self.facts.token
    }

    /// The shard, of a job that has some.
    #[must_use]
    pub fn shard(&self) -> Option<u32> {
        self.facts.shard
    }

    /// How many slots before this one nobody has run.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.facts.missed
    }

    /// Whether the run before this one was never finished: what it began may be half done.
    #[must_use]
    pub fn after_crash(&self) -> bool {
        self.facts.crashed
    }

    /// Whether it was asked for by hand, beside the schedule.
    #[must_use]
    pub fn is_triggered(&self) -> bool {
        self.facts.triggered
    }

    /// Whether the run is to end: the lock is about to be lost, the time is over, or the program stops.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        *self.cancel.borrow()
    }

    /// Ends when the run is to end. A job that does not end by itself then is dropped at its next await.
    ///
    /// # Cancel safety
    /// May be dropped and called again.
    pub async fn cancelled(&self) {
        // An error says that the run is over: nobody is left to cancel.
        let _ = self.cancel.clone().wait_for(|cancelled| *cancelled).await;
    }
}
