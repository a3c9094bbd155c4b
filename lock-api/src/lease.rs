//! Lease arithmetic: from `valid_from` and the granted ttl to the deadline D.

use std::time::Duration;

use crate::{Error, Moment, Result};

/// A lease as the server granted or confirmed it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lease {
    pub(crate) valid_from: Moment,
    pub(crate) ttl: Duration,
}

impl Lease {
    pub(crate) const fn new(valid_from: Moment, ttl: Duration) -> Self {
        Self { valid_from, ttl }
    }

    /// D: up to here the holder may believe in its hold. The server lets others in later.
    pub(crate) fn deadline(&self, drift: Drift) -> Moment {
        self.valid_from.plus(self.ttl.saturating_sub(drift.margin(self.ttl)))
    }
}

/// How far the clock of a server may run from ours: a share of the time that goes by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Drift(f64);

impl Drift {
    /// Unless told otherwise: one hundredth.
    pub const DEFAULT: Self = Self(0.01);
    /// What a margin has beside the share of the ttl: the resolution of timers and of servers' clocks.
    const FIXED: Duration = Duration::from_millis(2);

    /// A drift between 0 and 0.5 of the time that goes by.
    ///
    /// # Errors
    /// `Config` outside that range.
    pub fn new(share: f64) -> Result<Self> {
        if (0.0..=0.5).contains(&share) {
            return Ok(Self(share));
        }
        Err(Error::config(format!("drift {share} is outside 0 to 0.5: it is a share of the ttl, 0.01 unless given")))
    }

    /// The time by which a holder stops earlier than the server: `drift × ttl + 2 ms`.
    #[must_use]
    pub fn margin(self, ttl: Duration) -> Duration {
        let share = ttl.as_secs_f64() * self.0;
        Duration::try_from_secs_f64(share).unwrap_or(ttl).saturating_add(Self::FIXED)
    }
}

impl Default for Drift {
    fn default() -> Self {
        Self::DEFAULT
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Clock;
    use proptest::prelude::*;

    #[test]
    fn the_deadline_lies_before_the_end_of_the_lease() {
        let start = Clock::manual().now();
        let deadline = Lease::new(start, Duration::from_secs(30)).deadline(Drift::DEFAULT);
        assert_eq!(deadline.since(start), Duration::from_millis(30_000 - 300 - 2));
    }

    #[test]
    fn a_drift_is_a_share() {
        for bad in [-0.1, 0.6, f64::NAN, f64::INFINITY] {
            assert!(Drift::new(bad).is_err());
        }
    }

    proptest! {
        #[test]
        fn no_ttl_makes_a_deadline_beyond_the_lease(nanos in any::<u64>(), share in 0.0..0.5) {
            let start = Clock::manual().now();
            let ttl = Duration::from_nanos(nanos);
            let deadline = Lease::new(start, ttl).deadline(Drift::new(share).expect("in range"));
            prop_assert!(deadline >= start);
            prop_assert!(deadline <= start.plus(ttl));
        }
    }
}
