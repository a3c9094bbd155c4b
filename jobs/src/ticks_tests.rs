//! The table of days on which schedules go wrong.

use std::time::Duration;

use proptest::prelude::*;

use crate::{Schedule, Ticks, WallTime};

fn at(text: &str) -> WallTime {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn cron(expression: &str, zone: &str) -> Ticks {
    Schedule::cron(expression).tz(zone).ticks("job", at("2026-01-01T00:00:00Z")).expect(expression)
}

/// The ticks after `from`, up to `until`.
fn list(ticks: &Ticks, from: &str, until: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut tick = at(from);
    while let Some(next) = ticks.next_after(tick).filter(|next| *next <= at(until)) {
        found.push(next.to_string().replace(".000Z", "Z"));
        tick = next;
    }
    found
}

#[test]
fn days_on_which_the_clocks_change() {
    let spring = ("2026-03-28T22:00:00Z", "2026-03-29T20:00:00Z");
    let autumn = ("2026-10-24T20:00:00Z", "2026-10-25T20:00:00Z");
    for (expression, (from, until), expected) in [
        // 02:00 to 03:00 does not exist: once, at 03:00 summer time.
        ("30 2 * * *", spring, &["2026-03-29T01:00:00Z"][..]),
        ("0 2 * * *", spring, &["2026-03-29T01:00:00Z"]),
        ("0 3 * * *", spring, &["2026-03-29T01:00:00Z"]),
        // 02:00 to 03:00 comes twice: a fixed time once, at its first pass (summer time).
        ("30 2 * * *", autumn, &["2026-10-25T00:30:00Z"]),
        ("0 2 * * *", autumn, &["2026-10-25T00:00:00Z"]),
    ] {
        assert_eq!(list(&cron(expression, "Europe/Berlin"), from, until), expected, "{expression} after {from}");
    }
    let wild = list(&cron("*/30 * * * *", "Europe/Berlin"), "2026-10-24T23:31:00Z", "2026-10-25T02:00:00Z");
    assert_eq!(
        wild,
        [
            "2026-10-25T00:00:00Z",
            "2026-10-25T00:30:00Z",
            "2026-10-25T01:00:00Z",
            "2026-10-25T01:30:00Z",
            "2026-10-25T02:00:00Z"
        ],
        "02:00 and 02:30 twice, then 03:00"
    );
}

#[test]
fn days_that_are_rare_or_never() {
    let leap = cron("0 0 29 2 *", "UTC");
    assert_eq!(
        list(&leap, "2026-01-01T00:00:00Z", "2032-12-31T00:00:00Z"),
        ["2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z"]
    );
    assert_eq!(leap.latest_at(at("2027-06-01T00:00:00Z")), Some(at("2024-02-29T00:00:00Z")));
    let year_end = list(&cron("59 23 31 12 *", "America/New_York"), "2026-12-30T00:00:00Z", "2027-12-30T00:00:00Z");
    assert_eq!(year_end, ["2027-01-01T04:59:00Z"]);
    let seconds = list(&cron("*/20 59 23 31 12 *", "UTC"), "2026-12-31T23:59:00Z", "2027-01-01T00:00:01Z");
    assert_eq!(seconds, ["2026-12-31T23:59:20Z", "2026-12-31T23:59:40Z"]);
    // Parses, and would be searched for without an end.
    let never = Schedule::cron("0 0 31 2 *").ticks("job", at("2026-01-01T00:00:00Z")).expect_err("no such day");
    assert!(never.to_string().contains("\"0 0 31 2 *\" is never due"), "{never}");
}

#[test]
fn what_is_no_schedule_says_why() {
    let now = at("2026-01-01T00:00:00Z");
    for (schedule, words) in [
        (Schedule::cron("0 2 * *"), "cannot read the cron expression \"0 2 * *\""),
        (Schedule::cron(""), "minute, hour, day of month"),
        (Schedule::cron("61 2 * * *"), "cannot read"),
        (Schedule::cron("0 0 2 1 1 * 2027"), "cannot read"),
        (Schedule::cron("0 2 * * *").tz("Europe/Berln"), "no time zone \"Europe/Berln\""),
        (Schedule::every(Duration::ZERO), "above zero"),
        (Schedule::every(Duration::from_micros(1500)), "1.5ms"),
        (Schedule::every(Duration::MAX), "whole number"),
        (Schedule::manual().tz("UTC"), "without a cron expression"),
    ] {
        let error = schedule.ticks("nightly", now).expect_err(words).to_string();
        assert!(error.contains(words) && error.starts_with("job \"nightly\", "), "{error}");
    }
}

#[test]
fn ticks_at_a_distance_are_the_same_for_all() {
    let ticks = Schedule::every(Duration::from_millis(1500)).ticks("job", at("2026-01-01T00:00:00Z")).expect("fine");
    assert_eq!(ticks.next_after(WallTime::from_millis(3000)), Some(WallTime::from_millis(4500)));
    assert_eq!(ticks.next_after(WallTime::from_millis(4499)), Some(WallTime::from_millis(4500)));
    assert_eq!(ticks.latest_at(WallTime::from_millis(4500)), Some(WallTime::from_millis(4500)));
    assert_eq!(ticks.latest_before(WallTime::from_millis(4500)), Some(WallTime::from_millis(3000)));
    assert_eq!(ticks.latest_before(WallTime::from_millis(0)), None);
    assert_eq!(ticks.next_after(WallTime::from_millis(u64::MAX)), None);
    assert_eq!(ticks.count_between(WallTime::from_millis(0), WallTime::from_millis(6000), 9), 3);
    assert_eq!(ticks.count_between(WallTime::from_millis(0), WallTime::from_millis(6000), 2), 2);
    assert_eq!(ticks.shortest_period(WallTime::from_millis(7)), Some(Duration::from_millis(1500)));
}

proptest! {
    /// Looking back from anywhere finds the tick that looking forward had passed: also on days on which clocks change.
    #[test]
    fn back_and_forth_agree(
        seconds in 1_767_225_600_u64..1_830_297_600,
        expression in prop::sample::select(vec!["30 2 * * *", "*/30 * * * *", "0 2 * * *", "15 1-3 * * *", "0 0 1 * *", "7 2 * * 7", "*/7 30 2 * * *"]),
        zone in prop::sample::select(vec!["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "UTC"]),
    ) {
        let (ticks, time) = (cron(expression, zone), WallTime::from_millis(seconds * 1000));
        let last = ticks.latest_at(time).expect("there were some before");
        prop_assert!(last <= time);
        let next = ticks.next_after(last).expect("there are more");
        prop_assert!(next > time, "{expression} {zone} at {time}: {last}, then {next}");
    }

    #[test]
    fn around_a_change_of_the_clocks_back_and_forth_agree(
        minute in 0_u64..600,
        base in prop::sample::select(vec!["2026-03-28T20:00:00Z", "2026-10-24T20:00:00Z", "2027-03-27T20:00:00Z"]),
        expression in prop::sample::select(vec!["30 2 * * *", "*/30 * * * *", "0 2 * * *", "15 1-3 * * *", "0 3 * * *", "*/7 30 2 * * *"]),
    ) {
        let (ticks, time) = (cron(expression, "Europe/Berlin"), at(base).plus(Duration::from_secs(60 * minute)));
        let last = ticks.latest_at(time).expect("there were some before");
        let next = ticks.next_after(last).expect("there are more");
        prop_assert!(last <= time && next > time, "{expression} at {time}: {last}, then {next}");
    }
}
