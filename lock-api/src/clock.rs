//! The clock that every deadline is computed from.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering as Order};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};
use tokio::sync::Notify;

/// One reading of a [`Clock`].
///
/// Ordered by a monotonic time that goes on while the machine is suspended (`CLOCK_BOOTTIME`). It also carries the wall
/// clock read at the same moment, for one purpose only: to notice that more real time went by than the monotonic clock
/// saw. Readings of two clocks or two hosts mean nothing to each other.
#[derive(Clone, Copy)]
pub struct Moment {
    boot: u64,
    real: u64,
}

impl Moment {
    /// A moment later than all that a clock reads: the deadline of what has none.
    pub const FAR: Self = Self { boot: u64::MAX, real: u64::MAX };

    /// The time from the start of the clock: of the machine, suspends included.
    #[must_use]
    pub const fn since_boot(self) -> Duration {
        Duration::from_nanos(self.boot)
    }

    /// The time from `earlier` to this moment; zero when `earlier` is the later one.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.boot.saturating_sub(earlier.boot))
    }

    /// How much more real time than monotonic time went by from `earlier` to this moment; zero when it was less.
    #[must_use]
    pub const fn jump_since(self, earlier: Self) -> Duration {
        let real = self.real.saturating_sub(earlier.real);
        let boot = self.boot.saturating_sub(earlier.boot);
        Duration::from_nanos(real.saturating_sub(boot))
    }

    /// The wall clock as it was read at this moment: to name times of the calendar by, never to compute a deadline from.
    #[must_use]
    pub fn wall(self) -> SystemTime {
        UNIX_EPOCH.checked_add(Duration::from_nanos(self.real)).unwrap_or(UNIX_EPOCH)
    }

    /// The moment this much later; never wraps.
    #[must_use]
    pub fn plus(self, time: Duration) -> Self {
        let nanos = nanos(time);
        Self { boot: self.boot.saturating_add(nanos), real: self.real.saturating_add(nanos) }
    }

    /// The moment this much earlier; never before the clock's start.
    #[must_use]
    pub fn minus(self, time: Duration) -> Self {
        let nanos = nanos(time);
        Self { boot: self.boot.saturating_sub(nanos), real: self.real.saturating_sub(nanos) }
    }
}

impl PartialEq for Moment {
    fn eq(&self, other: &Self) -> bool {
        self.boot == other.boot
    }
}

impl Eq for Moment {}

impl PartialOrd for Moment {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Moment {
    fn cmp(&self, other: &Self) -> Ordering {
        self.boot.cmp(&other.boot)
    }
}

impl fmt::Debug for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Moment({:?})", Duration::from_nanos(self.boot))
    }
}

/// Reads the time. Cheap to clone; one clock is given to a backend and to the `Locker` over it.
///
/// [`Clock::system`] is the machine's, [`Clock::manual`] one that stands still until a test moves it.
#[derive(Clone, Debug, Default)]
pub struct Clock {
    manual: Option<Arc<ManualTime>>,
}

#[derive(Debug)]
struct ManualTime {
    boot: AtomicU64,
    real: AtomicU64,
    moved: Notify,
}

impl Clock {
    /// The longest time that passes between two looks at the clock while waiting for a moment: timers do not count the
    /// time that the machine was suspended.
    pub const RECHECK: Duration = Duration::from_millis(250);

    /// The machine's clock: monotonic, and counting while the machine is suspended.
    #[must_use]
    pub const fn system() -> Self {
        Self { manual: None }
    }

    /// A clock that only [`Clock::advance`] and [`Clock::step_wall_clock`] move.
    #[must_use]
    pub fn manual() -> Self {
        // Not zero, so that a test can look at moments before the start.
        let start = nanos(Duration::from_secs(1_000_000));
        let time = ManualTime { boot: AtomicU64::new(start), real: AtomicU64::new(start), moved: Notify::new() };
        Self { manual: Some(Arc::new(time)) }
    }

    /// The time now.
    #[must_use]
    pub fn now(&self) -> Moment {
        match &self.manual {
            None => Moment { boot: read(ClockId::Boottime), real: read(ClockId::Realtime) },
            Some(time) => Moment { boot: time.boot.load(Order::SeqCst), real: time.real.load(Order::SeqCst) },
        }
    }

    /// The time now for measuring how long something takes: without the wall clock, of which no jump can be told by it.
    pub(crate) fn stopwatch(&self) -> Moment {
        match &self.manual {
            None => {
                let boot = read(ClockId::Boottime);
                Moment { boot, real: boot }
            }
            Some(_) => self.now(),
        }
    }

    /// Whether this is a clock that a test moves.
    #[must_use]
    pub const fn is_manual(&self) -> bool {
        self.manual.is_some()
    }

    /// Moves a manual clock forward. A system clock cannot be moved: nothing happens.
    pub fn advance(&self, time: Duration) {
        if let Some(manual) = &self.manual {
            manual.boot.fetch_add(nanos(time), Order::SeqCst);
            manual.real.fetch_add(nanos(time), Order::SeqCst);
            manual.moved.notify_waiters();
        }
    }

    /// Moves only the wall clock of a manual clock, forward: real time went by that the monotonic clock did not see.
    pub fn step_wall_clock(&self, time: Duration) {
        if let Some(manual) = &self.manual {
            manual.real.fetch_add(nanos(time), Order::SeqCst);
            manual.moved.notify_waiters();
        }
    }

    /// Moves only the wall clock of a manual clock, backward: somebody has set it.
    pub fn set_back_wall_clock(&self, time: Duration) {
        if let Some(manual) = &self.manual {
            // Never below zero; `Err` is the reading that stays.
            let _ =
                manual.real.fetch_update(Order::SeqCst, Order::SeqCst, |real| Some(real.saturating_sub(nanos(time))));
            manual.moved.notify_waiters();
        }
    }

    /// Ends when the clock reads `until` or later; for ever when that is [`Moment::FAR`].
    ///
    /// # Cancel safety
    /// May be dropped at any time; nothing is left behind.
    pub async fn sleep_until(&self, until: Moment) {
        loop {
            match &self.manual {
                None => {
                    let now = self.now();
                    if now >= until {
                        return;
                    }
                    pause(until.since(now).min(Self::RECHECK)).await;
                }
                Some(time) => {
                    let moved = time.moved.notified();
                    if self.now() >= until {
                        return;
                    }
                    moved.await;
                }
            }
        }
    }

    /// Ends after this much time on this clock.
    ///
    /// # Cancel safety
    /// As [`Clock::sleep_until`].
    pub async fn sleep(&self, time: Duration) {
        self.sleep_until(self.now().plus(time)).await;
    }
}

#[expect(clippy::disallowed_methods, reason = "the one place where waiting for a moment becomes a timer")]
async fn pause(time: Duration) {
    tokio::time::sleep(time).await;
}

/// In a second.
const NANOS: u64 = 1_000_000_000;

fn read(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds.saturating_mul(NANOS).saturating_add(u64::try_from(time.tv_nsec).unwrap_or(0))
}

fn nanos(time: Duration) -> u64 {
    time.as_secs().saturating_mul(NANOS).saturating_add(u64::from(time.subsec_nanos()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_never_wraps() {
        let now = Clock::system().now();
        assert_eq!(now.plus(Duration::MAX), Moment::FAR);
        assert_eq!(now.since(now.plus(Duration::from_secs(1))), Duration::ZERO);
        assert_eq!(now.minus(Duration::MAX).minus(Duration::MAX), now.minus(Duration::MAX));
    }

    #[test]
    fn the_system_clock_goes_forward() {
        let clock = Clock::system();
        let first = clock.now();
        assert!(clock.now() >= first);
    }

    #[test]
    fn a_step_of_the_wall_clock_is_a_jump_and_no_time() {
        let clock = Clock::manual();
        let before = clock.now();
        clock.step_wall_clock(Duration::from_secs(60));
        assert_eq!(clock.now().since(before), Duration::ZERO);
        assert_eq!(clock.now().jump_since(before), Duration::from_secs(60));
        clock.advance(Duration::from_secs(5));
        assert_eq!(clock.now().since(before), Duration::from_secs(5));
        assert_eq!(clock.now().jump_since(before), Duration::from_secs(60));
    }

    #[test]
    fn a_moment_knows_the_wall_clock() {
        let clock = Clock::manual();
        let before = clock.now().wall();
        clock.step_wall_clock(Duration::from_secs(5));
        assert_eq!(clock.now().wall().duration_since(before).expect("later"), Duration::from_secs(5));
    }

    #[tokio::test]
    async fn a_manual_clock_wakes_its_sleepers() {
        let clock = Clock::manual();
        let sleeper = tokio::spawn({
            let clock = clock.clone();
            async move { clock.sleep(Duration::from_secs(3600)).await }
        });
        while !sleeper.is_finished() {
            clock.advance(Duration::from_secs(600));
            tokio::task::yield_now().await;
        }
        sleeper.await.expect("the sleeper ends");
    }
}
