//! Time is scaled in one place.

use std::sync::OnceLock;
use std::time::Duration;

/// The time multiplied by `LOCKYARD_TIME_FACTOR` (default 1): for upper bounds only, raised on slow machines.
#[must_use]
pub fn scaled(time: Duration) -> Duration {
    static FACTOR: OnceLock<f64> = OnceLock::new();
    let factor = FACTOR.get_or_init(|| {
        let given = std::env::var("LOCKYARD_TIME_FACTOR").ok().and_then(|text| text.parse().ok());
        given.filter(|factor| (0.1..=1000.0).contains(factor)).unwrap_or(1.0)
    });
    time.mul_f64(*factor)
}
