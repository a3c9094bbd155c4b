//! The one place where tests scale their patience.

use std::fmt;
use std::future::Future;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Interval, MissedTickBehavior, interval, timeout};

/// How often a condition is looked at.
const POLL: Duration = Duration::from_millis(5);

/// `limit` times `LOCKYARD_TIME_FACTOR` (default 1): on a slow machine, tests are given more time by one variable.
///
/// A factor that is not a positive, finite number counts as 1.
#[must_use]
pub fn scaled(limit: Duration) -> Duration {
    static FACTOR: LazyLock<f64> = LazyLock::new(|| factor(std::env::var("LOCKYARD_TIME_FACTOR").ok().as_deref()));
    Duration::try_from_secs_f64(limit.as_secs_f64() * *FACTOR).unwrap_or(Duration::MAX)
}

/// Polls `condition` until it holds, for at most `limit` times the time factor, and returns whether it did: `Some` of what it found
/// (`()` for a `bool`), `None` past the limit.
///
/// A call that hangs counts against the limit.
///
/// # Cancel safety
///
/// Dropping the future drops the running call of `condition`; nothing else is left behind.
pub async fn eventually<C, F>(limit: Duration, mut condition: C) -> Option<<F::Output as Condition>::Found>
where
    C: FnMut() -> F,
    F: Future,
    F::Output: Condition,
{
    let mut pace = pace(POLL);
    let search = async {
        loop {
            pace.tick().await;
            if let Some(found) = condition().await.found() {
                return found;
            }
        }
    };
    timeout(scaled(limit), search).await.ok()
}

/// Asks until `ask` has an answer instead of an error, and returns it.
///
/// # Panics
///
/// When that takes longer than `limit` times the time factor, naming what was waited for and the last error.
///
/// # Cancel safety
///
/// As [`eventually`].
pub async fn answer<T, E, F>(limit: Duration, what: &str, mut ask: impl FnMut() -> F) -> T
where
    E: fmt::Display,
    F: Future<Output = Result<T, E>>,
{
    let last = Mutex::new("a call that never ended".to_owned());
    let found = eventually(limit, || {
        let asked = ask();
        async {
            asked.await.map_err(|error| *last.lock().unwrap_or_else(PoisonError::into_inner) = error.to_string()).ok()
        }
    });
    let found = found.await;
    found.unwrap_or_else(|| {
        panic!("{what}: not within {:?}: {}", scaled(limit), last.lock().unwrap_or_else(PoisonError::into_inner))
    })
}

/// What `work` answers.
///
/// # Panics
///
/// When that takes longer than `limit` times the time factor, naming what was waited for.
///
/// # Cancel safety
///
/// That of the work.
pub async fn within<T>(limit: Duration, what: &str, work: impl Future<Output = T>) -> T {
    let limit = scaled(limit);
    timeout(limit, work).await.unwrap_or_else(|_| panic!("{what}: not within {limit:?}"))
}

/// What [`eventually`] waits for: `bool` until true, `Option` until some.
pub trait Condition {
    /// What there is once the condition holds.
    type Found;

    /// The find, or nothing yet.
    fn found(self) -> Option<Self::Found>;
}

impl Condition for bool {
    type Found = ();

    fn found(self) -> Option<()> {
        self.then_some(())
    }
}

impl<T> Condition for Option<T> {
    type Found = T;

    fn found(self) -> Self {
        self
    }
}

/// Ticks at once and then every `period` after the last one was taken.
pub(crate) fn pace(period: Duration) -> Interval {
    let mut ticks = interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

fn factor(given: Option<&str>) -> f64 {
    given.and_then(|text| text.parse::<f64>().ok()).filter(|factor| factor.is_finite() && *factor > 0.0).unwrap_or(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factor_is_one_unless_it_is_a_positive_number() {
        assert_eq!(factor(Some("2.5")), 2.5);
        for odd in [None, Some(""), Some("x"), Some("0"), Some("-1"), Some("inf"), Some("NaN")] {
            assert_eq!(factor(odd), 1.0, "{odd:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    #[should_panic(expected = "the third: not within 1s: no 2")]
    async fn who_gets_no_answer_says_the_last_error() {
        let mut asked = 0;
        let _: () = answer(Duration::from_secs(1), "the third", || {
            asked = 2.min(asked + 1);
            std::future::ready(Err(format!("no {asked}")))
        })
        .await;
    }

    #[tokio::test(start_paused = true)]
    async fn eventually_returns_what_it_found_and_gives_up_on_a_call_that_hangs() {
        let mut looks = 0;
        let third = eventually(Duration::from_secs(1), || {
            looks += 1;
            let found = (looks == 3).then_some(looks);
            async move { found }
        });
        assert_eq!(third.await, Some(3));
        assert_eq!(eventually(Duration::from_secs(1), || async { false }).await, None);
        assert_eq!(eventually(Duration::from_secs(1), std::future::pending::<bool>).await, None);
    }
}
