//! Every way in which a slot is run or left.

use std::time::Duration;

use super::*;
use crate::Schedule;
use crate::record::{Pause, Trigger};

const MINUTE: u64 = 60_000;

fn ticks() -> Ticks {
    Schedule::every(Duration::from_secs(60)).ticks("job", t(0)).expect("fine")
}

fn t(millis: u64) -> WallTime {
    WallTime::from_millis(millis)
}

fn run(slot: u64) -> Run {
    crate::record::tests::run(slot)
}

/// A record whose latest run, of this slot, has ended well.
fn ended(slot: u64) -> Record {
    let mut record = Record::default();
    record.begin(run(slot), None);
    record.end(Status::Succeeded, t(slot + 100), None);
    record
}

/// A record whose latest run has not ended.
fn running(slot: u64) -> Record {
    let mut record = Record::default();
    record.begin(run(slot), None);
    record
}

fn decide_by(misfire: Misfire, on_crash: OnCrash, record: &Record, slot: u64, now: u64) -> Decision {
    let ticks = ticks();
    let rules = Rules { ticks: &ticks, misfire, on_crash, delay: Duration::ZERO, heeds_record: true };
    rules.decide(record, Wanted::Slot(t(slot)), t(now), t(now))
}

fn decide(record: &Record, slot: u64, now: u64) -> Decision {
    decide_by(Misfire::default(), OnCrash::Skip, record, slot, now)
}

fn plan(decision: Decision) -> Plan {
    match decision {
        Decision::Run(plan) => plan,
        other => panic!("{other:?}"),
    }
}

#[test]
fn slots_rise() {
    assert_eq!(plan(decide(&Record::default(), 5 * MINUTE, 5 * MINUTE)).missed, None, "nothing is missed by a new job");
    assert_eq!(plan(decide(&ended(5 * MINUTE), 6 * MINUTE, 6 * MINUTE)).missed, None);
    for slot in [4, 5] {
        let decision = decide(&ended(5 * MINUTE), slot * MINUTE, 5 * MINUTE + 3000);
        assert!(matches!(decision, Decision::Skip(Skipped::Claimed { by: Some(_), at: Some(_) })), "{decision:?}");
    }
}

#[test]
fn slots_that_nobody_has_run_are_told() {
    assert_eq!(plan(decide(&ended(5 * MINUTE), 9 * MINUTE, 9 * MINUTE)).missed, Some((t(6 * MINUTE), 3)));
    let by = |misfire, late| decide_by(misfire, OnCrash::Skip, &ended(MINUTE), 2 * MINUTE, 2 * MINUTE + late);
    let grace = Duration::from_millis(500);
    assert!(matches!(by(Misfire::FireOnce { grace }, 500), Decision::Run(_)));
    assert_eq!(by(Misfire::FireOnce { grace }, 501), Decision::Miss { slot: t(2 * MINUTE) });
    assert!(matches!(by(Misfire::Skip, MINUTE), Decision::Run(_)));
    assert_eq!(by(Misfire::Skip, MINUTE + 1), Decision::Miss { slot: t(2 * MINUTE) });
}

#[test]
fn catching_up_runs_the_oldest_first_and_never_one_twice() {
    let mut record = ended(MINUTE);
    let mut seen = Vec::new();
    for _ in 0..5 {
        match decide_by(Misfire::CatchUp { max: 3 }, OnCrash::Skip, &record, 9 * MINUTE, 9 * MINUTE) {
            Decision::Run(plan) => {
                seen.push((plan.slot.as_millis() / MINUTE, plan.missed.map(|(_, count)| count)));
                record.begin(run(plan.slot.as_millis()), None);
                record.end(Status::Succeeded, t(9 * MINUTE), None);
            }
            other => assert!(matches!(other, Decision::Skip(Skipped::Claimed { .. })), "{other:?}"),
        }
    }
    assert_eq!(seen, [(6, Some(4)), (7, None), (8, None), (9, None)]);
}

#[test]
fn a_run_that_never_ended_is_told() {
    let crashed = Decision::Skip(Skipped::Misfired { missed: 0, crashed: true });
    assert_eq!(decide(&running(5 * MINUTE), 5 * MINUTE, 5 * MINUTE), crashed);
    let next = plan(decide(&running(5 * MINUTE), 6 * MINUTE, 6 * MINUTE));
    assert_eq!((next.crashed.map(|run| run.slot), next.attempt), (Some(t(5 * MINUTE)), 1));
    let again = |slot| decide_by(Misfire::default(), OnCrash::Rerun, &running(5 * MINUTE), slot, 6 * MINUTE);
    assert_eq!(plan(again(5 * MINUTE)).attempt, 2);
    assert_eq!(plan(again(6 * MINUTE)).attempt, 1);
    assert!(matches!(again(4 * MINUTE), Decision::Skip(Skipped::Claimed { .. })));
}

#[test]
fn a_pause_holds_and_is_not_caught_up() {
    let mut record = ended(MINUTE);
    record.paused = Some(Pause::new(t(MINUTE), "eve"));
    assert_eq!(decide(&record, 2 * MINUTE, 2 * MINUTE), Decision::Skip(Skipped::Paused));
    record.paused = None;
    record.resumed_at = Some(t(4 * MINUTE + 1));
    assert_eq!(decide(&record, 4 * MINUTE, 4 * MINUTE + 2), Decision::Skip(Skipped::Paused));
    assert_eq!(plan(decide(&record, 7 * MINUTE, 7 * MINUTE)).missed, Some((t(5 * MINUTE), 2)));
    let caught = decide_by(Misfire::CatchUp { max: 9 }, OnCrash::Skip, &record, 7 * MINUTE, 7 * MINUTE);
    assert_eq!(plan(caught).slot, t(5 * MINUTE));
}

#[test]
fn a_trigger_runs_once_and_beside_the_schedule() {
    let ticks = ticks();
    let rules = Rules {
        ticks: &ticks,
        misfire: Misfire::Skip,
        on_crash: OnCrash::Skip,
        delay: Duration::ZERO,
        heeds_record: true,
    };
    let mut record = ended(MINUTE);
    assert!(matches!(
        rules.decide(&record, Wanted::Trigger, t(MINUTE), t(MINUTE)),
        Decision::Skip(Skipped::Claimed { .. })
    ));
    record.trigger = Some(Trigger::new(t(90_000), "eve"));
    let plan = plan(rules.decide(&record, Wanted::Trigger, t(MINUTE * 50), t(MINUTE * 50)));
    assert!(plan.triggered && plan.slot == t(90_000));
    record.not_before = Some(t(MINUTE * 51));
    let soon = Decision::Skip(Skipped::TooSoon { until: t(MINUTE * 51) });
    assert_eq!(rules.decide(&record, Wanted::Trigger, t(MINUTE * 50), t(MINUTE * 50)), soon);
    assert_eq!(rules.decide(&record, Wanted::Slot(t(50 * MINUTE)), t(MINUTE * 50), t(MINUTE * 50)), soon);
}
