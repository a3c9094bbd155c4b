//! Which slot a time belongs to.

use std::time::Duration;

use crate::{Ticks, WallTime};

/// How far ahead of the clock a slot may be before it is refused.
pub(crate) const MOST_AHEAD: Duration = Duration::from_secs(120);

/// The slot of a time: the tick nearest to it within 5 % of the period and at most 30 s, so that replicas whose clocks
/// differ name the same one; else the last tick before it. Without ticks the time itself. `None` before the first tick.
pub(crate) fn slot_of(ticks: &Ticks, time: WallTime) -> Option<WallTime> {
    if ticks.is_manual() {
        return Some(time);
    }
    let past = ticks.latest_at(time);
    let next = ticks.next_after(time);
    let near = |tick: &WallTime| {
        let ahead = tick.since(time);
        past.is_none_or(|past| ahead < time.since(past)) && ahead <= tolerance(ticks, *tick, past)
    };
    next.filter(near).or(past)
}

/// How far before a tick a time may be that means the tick.
fn tolerance(ticks: &Ticks, tick: WallTime, past: Option<WallTime>) -> Duration {
    let period = past.map(|past| tick.since(past)).or_else(|| ticks.period_at(tick)).unwrap_or_default();
    (period / 20).min(Duration::from_secs(30))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Schedule;

    fn slot(ticks: &Ticks, time: &str) -> String {
        slot_of(ticks, time.parse().expect(time)).map_or_else(|| "none".to_owned(), |slot| slot.to_string())
    }

    fn ticks(schedule: &Schedule) -> Ticks {
        schedule.ticks("job", "2026-01-01T00:00:00Z".parse().expect("a time")).expect("a schedule")
    }

    #[test]
    fn clocks_that_differ_name_the_same_slot() {
        let daily = ticks(&Schedule::cron("0 2 * * *"));
        for near in ["2026-05-05T01:59:30Z", "2026-05-05T01:59:59.999Z", "2026-05-05T02:00:00Z", "2026-05-05T02:00:30Z"]
        {
            assert_eq!(slot(&daily, near), "2026-05-05T02:00:00.000Z", "{near}");
        }
        // Out of reach of the next one: the last.
        assert_eq!(slot(&daily, "2026-05-05T01:59:29.999Z"), "2026-05-04T02:00:00.000Z");
        assert_eq!(slot(&daily, "2026-05-05T23:00:00Z"), "2026-05-05T02:00:00.000Z");
    }

    #[test]
    fn the_reach_is_a_share_of_a_short_period() {
        let often = ticks(&Schedule::every(Duration::from_secs(10)));
        assert_eq!(slot(&often, "2026-05-05T00:00:09.500Z"), "2026-05-05T00:00:10.000Z");
        assert_eq!(slot(&often, "2026-05-05T00:00:09.499Z"), "2026-05-05T00:00:00.000Z");
        // The period before the tick counts, not the one after: 20 s after a tick a minute away is a tick 40 s ahead.
        let uneven = ticks(&Schedule::cron("0,1 2 * * *"));
        assert_eq!(slot(&uneven, "2026-05-05T02:00:57Z"), "2026-05-05T02:01:00.000Z");
        assert_eq!(slot(&uneven, "2026-05-05T02:00:56Z"), "2026-05-05T02:00:00.000Z");
    }

    #[test]
    fn without_ticks_the_time_itself_is_the_slot() {
        assert_eq!(slot(&ticks(&Schedule::manual()), "2026-05-05T02:00:57.123Z"), "2026-05-05T02:00:57.123Z");
    }
}
