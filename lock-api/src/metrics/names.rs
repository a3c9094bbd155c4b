//! What the series are called, what they mean, and how their values are grouped.

use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};

pub(super) const ACQUISITIONS: &str = "lockyard_acquisitions_total";
pub(super) const ACQUIRE_SECONDS: &str = "lockyard_acquire_duration_seconds";
pub(super) const HOLD_SECONDS: &str = "lockyard_hold_duration_seconds";
pub(super) const HELD: &str = "lockyard_held";
pub(super) const WAITING: &str = "lockyard_waiting";
pub(super) const RENEWALS: &str = "lockyard_renewals_total";
pub(super) const REMAINING_RATIO: &str = "lockyard_renewal_remaining_ratio";
pub(super) const LOST: &str = "lockyard_locks_lost_total";
pub(super) const RELEASES: &str = "lockyard_releases_total";
pub(super) const REJECTIONS: &str = "lockyard_fencing_rejections_total";
pub(super) const CIRCUIT: &str = "lockyard_circuit_state";
pub(super) const ERRORS: &str = "lockyard_backend_errors_total";

/// The upper bounds of each histogram, for the exporter: from half a millisecond to a minute for an acquire, from 10 ms to
/// a day for a hold, from a twentieth to nine tenths of the lease.
pub const BUCKETS: [(&str, &[f64]); 3] = [
    (
        ACQUIRE_SECONDS,
        &[0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0],
    ),
    (HOLD_SECONDS, &[0.01, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0, 14_400.0, 86_400.0]),
    (REMAINING_RATIO, &[0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]),
];

pub(super) fn describe() {
    describe_counter!(ACQUISITIONS, "Acquires that have ended, by how they did");
    describe_histogram!(ACQUIRE_SECONDS, Unit::Seconds, "From the call of an acquire to its end");
    describe_histogram!(HOLD_SECONDS, Unit::Seconds, "From the grant to the release or the loss");
    describe_gauge!(HELD, "Locks held now");
    describe_gauge!(WAITING, "Acquires that have not ended yet");
    describe_counter!(RENEWALS, "Renewals by what the server said; unknown: nothing");
    describe_histogram!(REMAINING_RATIO, "The share of the lease that was left when a renewal was confirmed");
    describe_counter!(LOST, "Holds that were lost before they were released");
    describe_counter!(RELEASES, "Releases of holds by what the server said; one that failed is sent again");
    describe_counter!(REJECTIONS, "Writes that a fenced register refused for their old token");
    describe_gauge!(CIRCUIT, "Circuit breakers that are open now; 0: attempts are made");
    describe_counter!(ERRORS, "Operations that failed, also those that were tried again");
}
