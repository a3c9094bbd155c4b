//! A circuit breaker around the taking of locks: who is in trouble is not stormed.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::{Clock, Moment};

/// Lets attempts through until five in a row have failed; then none for a while, then one, which decides. The pauses are
/// random and grow from one second to ten. Failures that lie further than 20 s apart are no storm and are not added up.
///
/// What a failure is, its user says: a service that does not answer ([`LockerBuilder::circuit_breaker`]), or a name that is held
/// again and again.
///
/// ```
/// use lockyard_api::{CircuitBreaker, CircuitChange, Clock};
///
/// let breaker = CircuitBreaker::new(Clock::system());
/// for _ in 0..4 {
///     assert_eq!(breaker.failed(), CircuitChange::None);
/// }
/// assert!(breaker.enter().is_ok());
/// assert!(matches!(breaker.failed(), CircuitChange::Opened { failures: 5, .. }));
/// assert!(breaker.enter().is_err());
/// ```
///
/// [`LockerBuilder::circuit_breaker`]: crate::LockerBuilder::circuit_breaker
#[derive(Debug)]
pub struct CircuitBreaker {
    clock: Clock,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    failures: u32,
    /// When it last failed.
    failed_at: Option<Moment>,
    /// No attempt before this moment.
    open_until: Option<Moment>,
}

/// What a breaker does after an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
#[must_use = "that no more attempts are made should be told"]
pub enum CircuitChange {
    /// As before.
    None,
    /// From now on no attempts are made for a while.
    Opened {
        /// How many have failed in a row.
        failures: u32,
        /// For how long at first.
        pause: Duration,
    },
    /// The one attempt after a pause has failed too: another pause.
    StaysOpen {
        /// For how long.
        pause: Duration,
    },
    /// Attempts are made again.
    Closed,
}

/// No attempt is made now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct CircuitOpen {
    /// How many attempts have failed in a row.
    pub failures: u32,
    /// How long to wait before one may be made.
    pub retry_in: Duration,
}

impl CircuitBreaker {
    /// Failures in a row before it opens.
    const TOLERATED: u32 = 5;
    const FIRST_PAUSE: Duration = Duration::from_secs(1);
    const LONGEST_PAUSE: Duration = Duration::from_secs(10);
    /// Failures further apart than this load nobody.
    const CALM: Duration = Duration::from_secs(20);

    /// A closed one: attempts are made.
    #[must_use]
    pub const fn new(clock: Clock) -> Self {
        Self { clock, state: Mutex::new(State { failures: 0, failed_at: None, open_until: None }) }
    }

    /// Whether an attempt may be made. The one that is let through after a pause keeps the others out for a second, or until
    /// it has ended.
    ///
    /// # Errors
    /// `CircuitOpen` when not.
    pub fn enter(&self) -> Result<(), CircuitOpen> {
        let mut state = self.state();
        let now = self.clock.now();
        match state.open_until {
            Some(until) if now < until => Err(CircuitOpen { failures: state.failures, retry_in: until.since(now) }),
            Some(_) => {
                state.open_until = Some(now.plus(Self::FIRST_PAUSE));
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// An attempt has succeeded.
    pub fn succeeded(&self) -> CircuitChange {
        let was_open = std::mem::take(&mut *self.state()).open_until.is_some();
        if was_open { CircuitChange::Closed } else { CircuitChange::None }
    }

    /// An attempt has failed.
    pub fn failed(&self) -> CircuitChange {
        let mut state = self.state();
        let now = self.clock.now();
        let was_open = state.open_until.is_some();
        if !was_open && state.failed_at.is_some_and(|last| now.since(last) > Self::CALM) {
            state.failures = 0;
        }
        state.failed_at = Some(now);
        state.failures = state.failures.saturating_add(1);
        let Some(beyond) = state.failures.checked_sub(Self::TOLERATED) else { return CircuitChange::None };
        let bound = Self::FIRST_PAUSE.saturating_mul(1 << beyond.min(16)).min(Self::LONGEST_PAUSE);
        // At least half of it: the point is to make a pause.
        let pause = bound.mul_f64(0.5 + fastrand::f64() / 2.0);
        state.open_until = Some(now.plus(pause));
        match was_open {
            true => CircuitChange::StaysOpen { pause },
            false => CircuitChange::Opened { failures: state.failures, pause },
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Breaker = CircuitBreaker;

    #[test]
    fn a_storm_is_stopped_and_one_attempt_ends_the_pause() {
        let clock = Clock::manual();
        let breaker = Breaker::new(clock.clone());
        for _ in 1..Breaker::TOLERATED {
            assert_eq!((breaker.enter(), breaker.failed()), (Ok(()), CircuitChange::None));
        }
        assert_eq!(breaker.enter(), Ok(()));
        let CircuitChange::Opened { failures, pause } = breaker.failed() else { panic!("it stays closed") };
        assert!(failures == Breaker::TOLERATED && pause >= Breaker::FIRST_PAUSE / 2 && pause <= Breaker::FIRST_PAUSE);
        assert_eq!(breaker.enter(), Err(CircuitOpen { failures, retry_in: pause }));

        clock.advance(pause);
        assert_eq!(breaker.enter(), Ok(()));
        assert!(breaker.enter().is_err(), "one attempt alone");
        let CircuitChange::StaysOpen { pause: longer } = breaker.failed() else { panic!("it is told again") };
        assert!(longer >= Breaker::FIRST_PAUSE, "the pause grows");
        clock.advance(longer);
        assert_eq!((breaker.enter(), breaker.succeeded()), (Ok(()), CircuitChange::Closed));
        assert_eq!((breaker.enter(), breaker.succeeded()), (Ok(()), CircuitChange::None));
    }

    #[test]
    fn a_pause_has_a_bound() {
        let breaker = Breaker::new(Clock::manual());
        for _ in 0..1000 {
            if let CircuitChange::Opened { pause, .. } | CircuitChange::StaysOpen { pause } = breaker.failed() {
                assert!(pause <= Breaker::LONGEST_PAUSE);
            }
        }
    }

    #[test]
    fn failures_that_are_far_apart_are_no_storm() {
        let clock = Clock::manual();
        let breaker = Breaker::new(clock.clone());
        for _ in 0..20 {
            assert_eq!((breaker.enter(), breaker.failed()), (Ok(()), CircuitChange::None));
            clock.advance(Breaker::CALM + Duration::from_millis(1));
        }
    }
}
