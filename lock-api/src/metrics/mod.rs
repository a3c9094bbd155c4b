//! Counts and times for the [`metrics`](https://docs.rs/metrics) facade; the feature `metrics`.
//!
//! No name, holder or token ever becomes a label: names belong in logs, traces and `inspect`. What keeps parts of a
//! service apart is the group, which is bounded.

mod groups;
mod names;
mod series;

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};

pub use groups::Groups;
pub use names::BUCKETS;
use series::{BackendSeries, GroupSeries};

use crate::{Event, Observer, Operation};

/// An [`Observer`] that feeds the recorder that is installed when it is made.
///
/// All series are there from the start, at 0. Contention is no error: `lockyard_acquisitions_total` has an outcome of its
/// own for it. The alert is `lockyard_locks_lost_total`, the early warning `lockyard_renewal_remaining_ratio`: the share
/// of the lease that was left when a renewal was confirmed, 0.66 in quiet times.
///
/// ```
/// use lockyard_api::metrics::{Groups, Metrics};
/// use lockyard_api::LockerBuilder;
///
/// fn with_metrics(builder: LockerBuilder) -> LockerBuilder {
///     let metrics = Metrics::new(builder.capabilities().backend, Groups::by_prefix(["orders", "reports"]));
///     builder.observer(metrics)
/// }
/// ```
pub struct Metrics {
    backend: BackendSeries,
    groups: groups::Registry,
    /// How many breakers are open by what this observer was told.
    open: AtomicU32,
}

impl Metrics {
    /// The series of this backend and these groups, at 0. Install the recorder before; its histograms want [`BUCKETS`].
    #[must_use]
    pub fn new(backend: &'static str, groups: Groups) -> Self {
        names::describe();
        Self {
            backend: BackendSeries::new(backend),
            groups: groups::Registry::new(backend, groups),
            open: AtomicU32::new(0),
        }
    }

    fn acquire_ended(group: &GroupSeries, outcome: series::Outcome, seconds: f64) {
        group.waiting.decrement(1.0);
        group.acquisitions[outcome as usize].increment(1);
        group.acquire_seconds[outcome as usize].record(seconds);
    }

    fn hold_ended(group: &GroupSeries, seconds: f64) {
        group.held.decrement(1.0);
        group.hold_seconds.record(seconds);
    }

    fn failed(&self, operation: Operation, kind: crate::ErrorKind) {
        self.backend.error(kind);
        match operation {
            Operation::Renew => self.backend.renewals_unknown.increment(1),
            Operation::Release => self.backend.releases_failed.increment(1),
            _ => {}
        }
    }
}

impl Observer for Metrics {
    fn on_event(&self, event: &Event) {
        use series::Outcome;
        match event {
            Event::Asked { name } => self.groups.of(name, |group| group.waiting.increment(1.0)),
            Event::Acquired { name, waited, .. } => self.groups.of(name, |group| {
                Self::acquire_ended(group, Outcome::Acquired, waited.as_secs_f64());
                group.held.increment(1.0);
            }),
            Event::Contended { name, waited } => {
                self.groups.of(name, |group| Self::acquire_ended(group, Outcome::Contended, waited.as_secs_f64()));
            }
            Event::TimedOut { name, waited } => {
                self.groups.of(name, |group| Self::acquire_ended(group, Outcome::Timeout, waited.as_secs_f64()));
            }
            Event::Cancelled { name, waited } => {
                self.groups.of(name, |group| Self::acquire_ended(group, Outcome::Cancelled, waited.as_secs_f64()));
            }
            Event::GaveUp { name, waited, .. } => {
                self.groups.of(name, |group| Self::acquire_ended(group, Outcome::Error, waited.as_secs_f64()));
            }
            Event::Failed { operation, kind, .. } => self.failed(*operation, *kind),
            Event::Renewed { remaining_ratio, .. } => {
                self.backend.renewals_renewed.increment(1);
                self.backend.remaining_ratio.record(*remaining_ratio);
            }
            Event::RenewalRefused { .. } => self.backend.renewals_lost.increment(1),
            Event::Lost { name, reason, held } => self.groups.of(name, |group| {
                group.lost(*reason).increment(1);
                Self::hold_ended(group, held.as_secs_f64());
            }),
            Event::Ended { name, held } => {
                self.groups.of(name, |group| Self::hold_ended(group, held.as_secs_f64()));
            }
            Event::Released { release, .. } => self.backend.released(*release).increment(1),
            Event::ReleaseAbandoned { .. } => {}
            Event::CircuitOpened { .. } => {
                self.open.fetch_add(1, Ordering::SeqCst);
                self.backend.circuit.increment(1.0);
            }
            Event::CircuitClosed => {
                self.open.fetch_sub(1, Ordering::SeqCst);
                self.backend.circuit.decrement(1.0);
            }
            Event::Rejected { name, .. } => self.groups.of(name, |group| group.rejections.increment(1)),
        }
    }
}

impl Drop for Metrics {
    /// A breaker that is gone is not open.
    fn drop(&mut self) {
        self.backend.circuit.decrement(f64::from(*self.open.get_mut()));
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}
