//! What becomes of a slot, for the metrics: a run for a slot is a job, and its lock's name the job's.

#[cfg(feature = "metrics")]
use std::sync::Arc;
use std::time::Duration;

use lockyard::{Clock, Moment};
use lockyard_jobs::{JobEvent, Skipped, WallTime};

#[cfg(feature = "metrics")]
use lockyard_jobs::metrics::JobMetrics;

/// The series of the job, where anybody wants them.
#[derive(Debug, Clone)]
pub(super) struct Figures {
    slot: WallTime,
    clock: Clock,
    #[cfg(feature = "metrics")]
    series: Option<Arc<JobMetrics>>,
}

impl Figures {
    /// Those that nobody wants.
    pub(super) const fn none(slot: WallTime, clock: Clock) -> Self {
        Self {
            slot,
            clock,
            #[cfg(feature = "metrics")]
            series: None,
        }
    }

    #[cfg(feature = "metrics")]
    pub(super) fn fed_to(&mut self, series: JobMetrics) {
        self.series = Some(Arc::new(series));
    }

    pub(super) fn started(&self) -> Moment {
        let delay = WallTime::now(&self.clock).since(self.slot);
        self.tell(&JobEvent::Started { slot: self.slot, run_id: String::new(), delay });
        self.clock.now()
    }

    pub(super) fn ended(&self, outcome: &'static str, started: Moment) {
        let (at, took) = (WallTime::now(&self.clock), self.clock.now().since(started));
        self.tell(&JobEvent::Ended { slot: self.slot, run_id: String::new(), at, outcome, took });
    }

    /// Another holds the name.
    pub(super) fn held(&self) {
        self.skipped(Skipped::Held { holder: None, since: None::<Duration> });
    }

    /// The slot ran before.
    pub(super) fn used(&self) {
        self.skipped(Skipped::Claimed { by: None, at: None });
    }

    fn skipped(&self, reason: Skipped) {
        self.tell(&JobEvent::Skipped { slot: self.slot, reason });
    }

    pub(super) fn failed(&self, error: &str) {
        self.tell(&JobEvent::Errored { error: error.to_owned() });
    }

    fn tell(&self, event: &JobEvent) {
        #[cfg(feature = "metrics")]
        if let Some(series) = &self.series {
            use lockyard_jobs::JobObserver;
            series.on_event("", event);
        }
        #[cfg(not(feature = "metrics"))]
        let _ = event;
    }
}
