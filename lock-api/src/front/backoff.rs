//! Full jitter: a random time between zero and a bound that doubles.

use std::time::Duration;

/// Times to wait between repeats, so that many clients that failed together do not come back together.
#[derive(Debug)]
pub(crate) struct Backoff {
    bound: Duration,
    most: Duration,
}

impl Backoff {
    pub(crate) const fn new(first: Duration, most: Duration) -> Self {
        Self { bound: first, most }
    }

    pub(crate) fn next(&mut self) -> Duration {
        let bound = self.bound;
        self.bound = bound.saturating_mul(2).min(self.most);
        bound.mul_f64(fastrand::f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_doubles_up_to_the_most() {
        let mut backoff = Backoff::new(Duration::from_millis(10), Duration::from_millis(35));
        for bound in [10, 20, 35, 35] {
            assert!(backoff.next() <= Duration::from_millis(bound));
        }
    }
}
