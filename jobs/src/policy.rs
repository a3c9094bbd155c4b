//! What a job does when things are not as planned.

use std::time::Duration;

/// What to do when another holds the job's lock.
///
/// Short and frequent jobs skip: the next tick is near. Daily jobs wait or retry, so that a replica that dies just after
/// the tick does not cost a day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OnConflict {
    /// Leave the tick to the other.
    #[default]
    Skip,
    /// Wait for the lock, at most this long; the slot is looked at afterwards.
    Wait(Duration),
    /// Try again after random times, a bounded number of times. After five attempts in a row that found the lock held, less
    /// than 20 s apart, each further one waits for a second, later up to ten: so many replicas storm no service.
    Retry(Backoff),
}

/// Full jitter: before each attempt a random time between zero and a bound that doubles, so that replicas that failed
/// together do not come back together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Backoff {
    pub(crate) first: Duration,
    pub(crate) most: Duration,
    pub(crate) attempts: u32,
}

impl Backoff {
    /// The bound of the first wait, and the bound that is not exceeded. Three attempts.
    #[must_use]
    pub const fn full_jitter(first: Duration, most: Duration) -> Self {
        Self { first, most, attempts: 3 }
    }

    /// How many attempts are made in all.
    #[must_use]
    pub const fn max_attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts;
        self
    }

    /// The bound of the wait before this attempt, which is the second or a later one.
    pub(crate) fn bound(self, attempt: u32) -> Duration {
        let doublings = attempt.saturating_sub(2).min(31);
        self.first.saturating_mul(1 << doublings).min(self.most)
    }
}

/// What to do with a slot that nobody has run in time: all replicas were down, or the lock service was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Misfire {
    /// Leave it: only a slot that is at most a minute, or one period, late is run.
    Skip,
    /// Run the latest one, once for all that were missed, when it is at most this late.
    FireOnce {
        /// How late it may be.
        grace: Duration,
    },
    /// Run the last ones that were missed, the oldest first, one a call of [`Job::run_tick`](crate::Job::run_tick).
    CatchUp {
        /// How many at most; earlier ones count as missed.
        max: u32,
    },
}

impl Default for Misfire {
    /// The latest one, up to an hour late.
    fn default() -> Self {
        Self::FireOnce { grace: Duration::from_secs(3600) }
    }
}

/// What to do with the latest slot when the replica that had claimed it has vanished during the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OnCrash {
    /// The slot counts as used: at most one start. The next run reports it.
    #[default]
    Skip,
    /// Run it again. **May start a slot twice**: what the first start has done stays done.
    Rerun,
}

/// A delay between the tick and the start, so that jobs with one schedule do not start together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Jitter {
    /// None.
    #[default]
    None,
    /// Up to this long, chosen by the name of the job: the same on every replica and every day.
    Stable(Duration),
}

impl Jitter {
    /// The delay of the job of this name.
    pub(crate) fn delay(self, name: &str) -> Duration {
        match self {
            Self::None => Duration::ZERO,
            Self::Stable(most) => {
                let share = crate::hash::of(name.as_bytes()) >> 11;
                // 53 bits: what an f64 carries exactly.
                #[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
                let share = share as f64 / (1_u64 << 53) as f64;
                most.mul_f64(share)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_of_a_retry_doubles_up_to_the_most() {
        let backoff = Backoff::full_jitter(Duration::from_millis(10), Duration::from_millis(35));
        let bounds: Vec<_> = (2..6).map(|attempt| backoff.bound(attempt).as_millis()).collect();
        assert_eq!(bounds, [10, 20, 35, 35]);
        assert_eq!(backoff.bound(u32::MAX), Duration::from_millis(35));
    }

    #[test]
    fn a_stable_delay_depends_on_the_name_alone() {
        let jitter = Jitter::Stable(Duration::from_secs(60));
        assert_eq!(jitter.delay("a"), jitter.delay("a"));
        let delays: Vec<_> = (0..100).map(|n| jitter.delay(&format!("job-{n}"))).collect();
        assert!(delays.iter().all(|delay| *delay < Duration::from_secs(60)));
        let early = delays.iter().filter(|delay| **delay < Duration::from_secs(30)).count();
        assert!((30..70).contains(&early), "{early} of 100 in the first half");
        assert_eq!(Jitter::None.delay("a"), Duration::ZERO);
    }
}
