//! A circuit breaker around the taking of locks: a service in trouble is not stormed.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use lockyard_api::{Clock, Moment};

/// Lets attempts through until several in a row have failed; then none for a while, then one.
#[derive(Debug)]
pub(crate) struct Breaker {
    clock: Clock,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    failures: u32,
    /// No attempt before this moment.
    closed_until: Option<Moment>,
}

/// What a breaker does after an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    None,
    /// No attempts are made for this long.
    Opened {
        failures: u32,
        pause: Duration,
    },
    /// Attempts are made again.
    Closed,
}

impl Breaker {
    /// Failures in a row before it opens.
    const TOLERATED: u32 = 5;
    const FIRST_PAUSE: Duration = Duration::from_secs(1);
    const LONGEST_PAUSE: Duration = Duration::from_secs(10);

    pub(crate) const fn new(clock: Clock) -> Self {
        Self { clock, state: Mutex::new(State { failures: 0, closed_until: None }) }
    }

    /// Whether an attempt may be made; else how many have failed in a row, and how long to wait. The one that is let
    /// through after a pause keeps the others out until it has ended.
    pub(crate) fn enter(&self) -> Result<(), (u32, Duration)> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.now();
        match state.closed_until {
            Some(until) if now < until => Err((state.failures, until.since(now))),
            Some(_) => {
                state.closed_until = Some(now.plus(Self::FIRST_PAUSE));
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// The service has answered, that the lock is held for one.
    pub(crate) fn answered(&self) -> Change {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let was_open = std::mem::take(&mut *state).closed_until.is_some();
        if was_open { Change::Closed } else { Change::None }
    }

    /// An attempt has failed.
    pub(crate) fn failed(&self) -> Change {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.failures = state.failures.saturating_add(1);
        let Some(beyond) = state.failures.checked_sub(Self::TOLERATED) else { return Change::None };
        let bound = Self::FIRST_PAUSE.saturating_mul(1 << beyond.min(16)).min(Self::LONGEST_PAUSE);
        // At least half of it: the point is to make a pause.
        let pause = bound.mul_f64(0.5 + fastrand::f64() / 2.0);
        state.closed_until = Some(self.clock.now().plus(pause));
        Change::Opened { failures: state.failures, pause }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_storm_is_stopped_and_one_attempt_ends_the_pause() {
        let clock = Clock::manual();
        let breaker = Breaker::new(clock.clone());
        for _ in 1..Breaker::TOLERATED {
            assert_eq!((breaker.enter(), breaker.failed()), (Ok(()), Change::None));
        }
        assert_eq!(breaker.enter(), Ok(()));
        let Change::Opened { failures, pause } = breaker.failed() else { panic!("it stays closed") };
        assert!(failures == Breaker::TOLERATED && pause >= Breaker::FIRST_PAUSE / 2 && pause <= Breaker::FIRST_PAUSE);
        assert_eq!(breaker.enter(), Err((Breaker::TOLERATED, pause)));

        clock.advance(pause);
        assert_eq!(breaker.enter(), Ok(()));
        assert!(breaker.enter().is_err(), "one attempt alone");
        let Change::Opened { pause: longer, .. } = breaker.failed() else { panic!("it is closed again") };
        assert!(longer >= Breaker::FIRST_PAUSE, "the pause grows");
        clock.advance(longer);
        assert_eq!((breaker.enter(), breaker.answered()), (Ok(()), Change::Closed));
        assert_eq!((breaker.enter(), breaker.answered()), (Ok(()), Change::None));
    }

    #[test]
    fn a_pause_has_a_bound() {
        let breaker = Breaker::new(Clock::manual());
        for _ in 0..1000 {
            if let Change::Opened { pause, .. } = breaker.failed() {
                assert!(pause <= Breaker::LONGEST_PAUSE);
            }
        }
    }
}
