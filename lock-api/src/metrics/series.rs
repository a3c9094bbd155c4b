//! The series themselves, made once and then only counted up.

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};

use super::names;
use crate::{ErrorKind, LostReason, Release};

/// How an acquire ended; the place of its series in a list.
#[derive(Debug, Clone, Copy)]
pub(super) enum Outcome {
    Acquired,
    Contended,
    Timeout,
    Cancelled,
    Error,
}

/// In the order of [`Outcome`].
const OUTCOMES: [&str; 5] = ["acquired", "contended", "timeout", "cancelled", "error"];

const REASONS: [LostReason; 4] =
    [LostReason::Expired, LostReason::Revoked, LostReason::SessionEnded, LostReason::ClockJump];

/// What is counted by backend and group.
pub(super) struct GroupSeries {
    pub(super) acquisitions: [Counter; 5],
    pub(super) acquire_seconds: [Histogram; 5],
    pub(super) hold_seconds: Histogram,
    pub(super) held: Gauge,
    pub(super) waiting: Gauge,
    lost: [Counter; 4],
    pub(super) rejections: Counter,
}

impl GroupSeries {
    pub(super) fn new(backend: &'static str, group: &str) -> Self {
        let group = || group.to_owned();
        let labels = |key: &'static str, value: &'static str| {
            [("backend", backend.to_owned()), ("group", group()), (key, value.to_owned())]
        };
        let series = Self {
            acquisitions: OUTCOMES.map(|outcome| counter!(names::ACQUISITIONS, &labels("outcome", outcome))),
            acquire_seconds: OUTCOMES.map(|outcome| histogram!(names::ACQUIRE_SECONDS, &labels("outcome", outcome))),
            hold_seconds: histogram!(names::HOLD_SECONDS, "backend" => backend, "group" => group()),
            held: gauge!(names::HELD, "backend" => backend, "group" => group()),
            waiting: gauge!(names::WAITING, "backend" => backend, "group" => group()),
            lost: REASONS.map(|reason| counter!(names::LOST, &labels("reason", reason.as_str()))),
            rejections: counter!(names::REJECTIONS, "backend" => backend, "group" => group()),
        };
        // A gauge that two lockers share goes on from where it is.
        series.held.increment(0.0);
        series.waiting.increment(0.0);
        series
    }

    pub(super) const fn lost(&self, reason: LostReason) -> &Counter {
        let [expired, revoked, session, clock_jump] = &self.lost;
        match reason {
            LostReason::Expired => expired,
            LostReason::Revoked => revoked,
            LostReason::SessionEnded => session,
            LostReason::ClockJump => clock_jump,
        }
    }
}

/// What is counted by backend alone.
pub(super) struct BackendSeries {
    pub(super) renewals_renewed: Counter,
    pub(super) renewals_lost: Counter,
    pub(super) renewals_unknown: Counter,
    pub(super) remaining_ratio: Histogram,
    released: Counter,
    not_held: Counter,
    pub(super) releases_failed: Counter,
    /// Several lockers may share it: how many of their breakers are open.
    pub(super) circuit: Gauge,
    errors: Vec<(ErrorKind, Counter)>,
}

impl BackendSeries {
    pub(super) fn new(backend: &'static str) -> Self {
        let outcome =
            |name: &'static str, outcome: &'static str| counter!(name, "backend" => backend, "outcome" => outcome);
        let error = |kind: ErrorKind| counter!(names::ERRORS, "backend" => backend, "kind" => kind.as_str());
        let circuit = gauge!(names::CIRCUIT, "backend" => backend);
        circuit.increment(0.0);
        Self {
            circuit,
            renewals_renewed: outcome(names::RENEWALS, "renewed"),
            renewals_lost: outcome(names::RENEWALS, "lost"),
            renewals_unknown: outcome(names::RENEWALS, "unknown"),
            remaining_ratio: histogram!(names::REMAINING_RATIO, "backend" => backend),
            released: outcome(names::RELEASES, Release::Released.as_str()),
            not_held: outcome(names::RELEASES, Release::NotHeld.as_str()),
            releases_failed: outcome(names::RELEASES, "error"),
            errors: ErrorKind::ALL.into_iter().map(|kind| (kind, error(kind))).collect(),
        }
    }

    pub(super) const fn released(&self, release: Release) -> &Counter {
        match release {
            Release::Released => &self.released,
            Release::NotHeld => &self.not_held,
        }
    }

    pub(super) fn error(&self, kind: ErrorKind) {
        if let Some((_, counter)) = self.errors.iter().find(|(known, _)| *known == kind) {
            counter.increment(1);
        }
    }
}
