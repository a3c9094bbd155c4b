//! Pauses between attempts.

use std::time::Duration;

/// Pauses with full jitter under a bound that doubles.
#[derive(Debug)]
pub(crate) struct Backoff {
    first: Duration,
    most: Duration,
    bound: Duration,
}

impl Backoff {
    /// No pause is shorter than a fifth of `first`: nothing here ever spins.
    pub(crate) fn new(first: Duration, most: Duration) -> Self {
        Self { first, most: most.max(first), bound: first }
    }

    pub(crate) fn reset(&mut self) {
        self.bound = self.first;
    }

    pub(crate) fn next(&mut self) -> Duration {
        let pause = self.bound.mul_f64(fastrand::f64()).max(self.first / 5);
        self.bound = (self.bound * 2).min(self.most);
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_stay_between_their_bounds() {
        let mut backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(1));
        for _ in 0..50 {
            let pause = backoff.next();
            assert!(pause >= Duration::from_millis(10) && pause <= Duration::from_secs(1), "{pause:?}");
        }
        backoff.reset();
        assert!(backoff.next() <= Duration::from_millis(50));
    }
}
