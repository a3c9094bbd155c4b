//! The check against histories made up for it: of each rule good ones and bad ones, and against a slow reference.

use std::collections::BTreeSet;
use std::time::Duration;

use proptest::prelude::*;

use super::{Event, FaultKind, FaultWindow, History, Rules, Violation, What};

fn granted(at: u64, process: u32, op: u64, token: u64, until: u64) -> Event {
    let what = What::Granted { owner: format!("{process}-{op}"), token: Some(token), until };
    Event::new(at, process, op, "n", what)
}

fn at(at: u64, process: u32, op: u64, what: What) -> Event {
    Event::new(at, process, op, "n", what)
}

fn lost(time: u64, process: u32, op: u64) -> Event {
    at(time, process, op, What::Lost { reason: "expired".to_owned() })
}

fn history(events: Vec<Event>) -> History {
    History { events, ..History::new(Rules::strict()) }
}

#[track_caller]
fn clean(history: &History) {
    assert_eq!(history.check().violations, []);
}

#[test]
fn a_hold_ends_with_its_release_its_loss_its_deadline_or_its_client() {
    let ends = [
        at(50, 1, 1, What::Release),
        lost(50, 1, 1),
        Event::ended(50, 1),
        // Nothing but the deadline.
        at(5, 1, 1, What::Acquire),
    ];
    for (case, end) in ends.into_iter().enumerate() {
        let until = if case == 3 { 50 } else { 1000 };
        clean(&history(vec![granted(10, 1, 1, 1, until), end.clone(), granted(50, 2, 1, 2, 200)]));
        let bad = history(vec![granted(10, 1, 1, 1, until), end, granted(49, 2, 1, 2, 200)]).check();
        let [Violation::Overlap(overlap)] = &bad.violations[..] else { panic!("case {case}: {bad:?}") };
        assert_eq!((overlap.first.process, overlap.second.process), (1, 2), "the two are named");
        assert_eq!(overlap.time, Duration::from_nanos(1));
    }
}

#[test]
fn a_client_that_is_killed_holds_nothing_of_what_it_still_says() {
    let events = vec![Event::ended(10, 1), granted(11, 1, 1, 1, 1000), granted(12, 2, 1, 2, 1000), Event::ended(13, 1)];
    let verdict = history(events).check();
    assert_eq!((verdict.holds, verdict.violations.len()), (1, 0));
}

#[test]
fn a_renewal_makes_a_hold_longer_and_a_late_one_no_shorter() {
    let renewed = at(40, 1, 1, What::Held { until: 100 });
    let earlier = at(41, 1, 1, What::Held { until: 60 });
    let events = vec![granted(10, 1, 1, 1, 50), renewed, earlier];
    clean(&history([events.clone(), vec![granted(100, 2, 1, 2, 200)]].concat()));
    assert_eq!(history([events, vec![granted(99, 2, 1, 2, 200)]].concat()).check().violations.len(), 1);
}

#[test]
fn what_is_unknown_is_no_evidence() {
    let failed = |operation: &str| What::Failed {
        operation: operation.to_owned(),
        kind: "unreachable".to_owned(),
        unknown: true,
    };
    clean(&history(vec![
        at(1, 1, 1, What::Acquire),
        at(9, 1, 1, failed("acquire")),
        granted(10, 2, 1, 5, 100),
        at(20, 2, 1, What::Release),
        at(30, 2, 1, failed("release")),
        granted(25, 3, 1, 6, 100),
    ]));
    // A write that was never answered may have been taken or not.
    let write = |time, process, token| at(time, process, 1, What::Write { token: Some(token) });
    clean(&history(vec![write(1, 1, 9), at(2, 1, 1, failed("write")), write(3, 2, 5), at(4, 2, 1, What::Written)]));
}

#[test]
fn a_grant_past_its_own_deadline_is_no_hold() {
    clean(&history(vec![granted(10, 1, 1, 7, 100), granted(60, 2, 1, 3, 50)]));
}

#[test]
fn names_have_nothing_to_do_with_each_other() {
    let mut other = granted(20, 2, 1, 1, 100);
    other.name = "m".to_owned();
    clean(&history(vec![granted(10, 1, 1, 1, 100), other]));
}

#[test]
fn tokens_rise_strictly() {
    for (second, violations) in [(8, 0), (7, 1), (6, 1)] {
        let verdict = history(vec![granted(10, 1, 1, 7, 20), granted(30, 2, 1, second, 40)]).check();
        assert_eq!(verdict.violations.len(), violations, "{second} after 7");
    }
    let mut unfenced = history(vec![granted(10, 1, 1, 7, 20), granted(30, 2, 1, 6, 40)]);
    unfenced.rules.fencing = false;
    clean(&unfenced);
}

#[test]
fn a_lossy_restart_may_set_tokens_back_once() {
    let events = vec![granted(10, 1, 1, 7, 20), granted(40, 2, 1, 2, 50), granted(60, 1, 2, 3, 70)];
    let mut history = history(events);
    history.faults = vec![FaultWindow::new(FaultKind::ServerRestarted, 25, 30, None)];
    assert_eq!(history.check().violations.len(), 2, "durable tokens survive it");
    history.rules.fencing_survives_restart = false;
    let verdict = history.check();
    assert_eq!((verdict.violations.len(), verdict.tokens_excused), (0, 1));
    history.events.push(granted(80, 1, 3, 1, 90));
    assert_eq!(history.check().violations.len(), 1, "and only the restart may");
}

#[test]
fn a_register_takes_no_older_token() {
    let write = |sent, answered, process, token, answer| {
        [at(sent, process, 1, What::Write { token: Some(token) }), at(answered, process, 1, answer)]
    };
    let first = write(1, 2, 1, 9, What::Written);
    clean(&history([&first[..], &write(3, 4, 2, 9, What::Written)].concat()));
    clean(&history([&first[..], &write(3, 4, 2, 8, What::Stale)].concat()));
    // Sent before the other was answered: either may have come first.
    clean(&history([&first[..], &write(1, 4, 2, 8, What::Written)].concat()));
    let bad = history([&first[..], &write(3, 4, 2, 8, What::Written)].concat()).check();
    let [Violation::StaleWrite { earlier, later }] = &bad.violations[..] else { panic!("{bad:?}") };
    assert_eq!((earlier.at, later.at), (2, 3));
}

/// Client 1 holds up to 100; client 2 is granted at 50.
fn taken_away(faults: Vec<FaultWindow>) -> History {
    let mut rules = Rules::strict();
    rules.allowed_ms.insert(FaultKind::Revoked, 0);
    History { rules, faults, events: vec![granted(10, 1, 1, 1, 100), granted(50, 2, 1, 2, 200)] }
}

#[test]
fn a_fault_explains_an_overlap_only_of_its_client_in_its_time_and_where_it_is_allowed() {
    let window = |from, to, process| FaultWindow::new(FaultKind::Revoked, from, to, process);
    for (fault, explained) in [
        (window(40, 100, Some(1)), 1),
        (window(40, 100, None), 1),
        (window(40, 100, Some(2)), 0),
        (window(51, 100, Some(1)), 0),
        (window(40, 99, Some(1)), 0),
        (FaultWindow::new(FaultKind::LinkCut, 40, 100, Some(1)), 0),
    ] {
        let verdict = taken_away(vec![fault.clone()]).check();
        assert_eq!((verdict.explained.len(), verdict.violations.len()), (explained, 1 - explained), "{fault:?}");
    }
    let mut history = taken_away(vec![window(40, 41, Some(1))]);
    assert_eq!(history.check().violations.len(), 1);
    history.rules.allowed_ms.insert(FaultKind::Revoked, 1);
    assert_eq!(history.check().longest_overlap(), Duration::from_nanos(50), "within a millisecond it is told");
}

#[test]
fn a_client_that_could_not_hear_is_told_later() {
    let revoked = FaultWindow::new(FaultKind::Revoked, 40, 41, Some(1));
    let deaf = |from, to| FaultWindow::new(FaultKind::ClientFrozen, from, to, Some(1));
    clean(&taken_away(vec![revoked.clone(), deaf(30, 60), deaf(55, 100)]));
    assert_eq!(taken_away(vec![revoked.clone(), deaf(30, 60), deaf(61, 100)]).check().violations.len(), 1);
    assert_eq!(taken_away(vec![deaf(30, 100)]).check().violations.len(), 1, "deafness takes nothing away");
    assert_eq!(taken_away(vec![revoked, deaf(42, 100)]).check().violations.len(), 1, "told before it was deaf");
}

#[test]
fn a_history_reads_back() {
    let mut written = taken_away(vec![FaultWindow::new(FaultKind::ServerFrozen, 1, 2, None)]);
    written.events[0].what = What::Granted { owner: "x".to_owned(), token: Some(u64::MAX), until: u64::MAX };
    written.events.extend([
        at(1, 1, 1, What::Acquire),
        at(2, 1, 1, What::Write { token: None }),
        at(2, 1, 1, What::Released { held: true }),
        lost(3, 1, 1),
        Event::ended(5, 3),
    ]);
    let mut lines = Vec::new();
    written.write(&mut lines).expect("memory takes it");
    assert!(String::from_utf8_lossy(&lines).contains("\"18446744073709551615\""), "tokens are strings");
    assert_eq!(History::read(&lines[..]).expect("a history"), written);
    lines.extend(b"{\"at\":1}\n");
    assert_eq!(History::read(&lines[..]).expect_err("no event").line, 10);
    assert_eq!(History::read(&b"{\"schema\":2,\"rules\":{}}\n"[..]).expect_err("not ours").line, 1);
}

/// One client's hold or write, somewhere in a short time.
#[derive(Debug, Clone)]
enum Deed {
    Hold { process: u32, from: u64, length: u64, token: u64, released: Option<u64> },
    Write { process: u32, from: u64, length: u64, token: u64, taken: bool },
}

fn deeds() -> impl Strategy<Value = Vec<Deed>> {
    let hold = (1..4_u32, 0..60_u64, 0..12_u64, 1..9_u64, proptest::option::of(0..12_u64))
        .prop_map(|(process, from, length, token, released)| Deed::Hold { process, from, length, token, released });
    let write = (1..4_u32, 0..60_u64, 1..6_u64, 1..9_u64, any::<bool>())
        .prop_map(|(process, from, length, token, taken)| Deed::Write { process, from, length, token, taken });
    proptest::collection::vec(prop_oneof![3 => hold, 1 => write], 0..12)
}

/// No two events at one time, so that each has its place.
fn events(deeds: &[Deed]) -> Vec<Event> {
    let mut events = Vec::new();
    for (op, deed) in deeds.iter().enumerate() {
        let op = op as u64;
        let place = |time: u64| time * 100 + op;
        match *deed {
            Deed::Hold { process, from, length, token, released } => {
                events.push(granted(place(from), process, op, token, place(from + length)));
                events.extend(released.map(|after| at(place(from + after), process, op, What::Release)));
            }
            Deed::Write { process, from, length, token, taken } => {
                events.push(at(place(from), process, op, What::Write { token: Some(token) }));
                let answer = if taken { What::Written } else { What::Stale };
                events.push(at(place(from + length), process, op, answer));
            }
        }
    }
    events
}

/// Every pair of holds that overlap, by their numbers; whether tokens fall; whether the register took an older one.
fn reference(deeds: &[Deed]) -> (BTreeSet<(u64, u64)>, bool, bool) {
    let holds = deeds.iter().enumerate().filter_map(|(op, deed)| match *deed {
        Deed::Hold { from, length, token, released, .. } => {
            let to = from + length.min(released.unwrap_or(length));
            (to > from).then_some((op as u64, from * 100 + op as u64, to * 100 + op as u64, token))
        }
        Deed::Write { .. } => None,
    });
    let holds: Vec<_> = holds.collect();
    let writes = deeds.iter().enumerate().filter_map(|(op, deed)| match *deed {
        Deed::Write { from, length, token, taken: true, .. } => {
            Some((from * 100 + op as u64, (from + length) * 100 + op as u64, token))
        }
        _ => None,
    });
    let writes: Vec<_> = writes.collect();
    let mut overlaps = BTreeSet::new();
    let mut falls = false;
    for first in &holds {
        for second in holds.iter().filter(|second| first.1 < second.1) {
            if second.1 < first.2 {
                overlaps.insert((first.0, second.0));
            }
            falls |= second.3 <= first.3;
        }
    }
    let stale = writes.iter().any(|first| writes.iter().any(|second| first.1 < second.0 && second.2 < first.2));
    (overlaps, falls, stale)
}

proptest! {
    #[test]
    fn the_check_finds_what_a_slow_one_finds(deeds in deeds()) {
        let verdict = history(events(&deeds)).check();
        let (overlaps, falls, stale) = reference(&deeds);
        let found: BTreeSet<(u64, u64)> = verdict.violations.iter().filter_map(|violation| match violation {
            Violation::Overlap(overlap) => Some((overlap.first.op, overlap.second.op)),
            _ => None,
        }).collect();
        let has = |what: fn(&Violation) -> bool| verdict.violations.iter().any(what);
        prop_assert_eq!(found, overlaps);
        prop_assert_eq!(has(|violation| matches!(violation, Violation::TokenFell { .. })), falls);
        prop_assert_eq!(has(|violation| matches!(violation, Violation::StaleWrite { .. })), stale);
    }
}

#[test]
fn a_hundred_thousand_holds_are_checked_soon() {
    let holds = (0..100_000).map(|op| granted(op * 10, u32::try_from(op % 7).expect("small"), op, op + 1, op * 10 + 9));
    let history = history(holds.collect());
    let clock = lockyard_api::Clock::system();
    let begun = clock.now();
    let verdict = history.check();
    assert_eq!((verdict.holds, verdict.violations.len()), (100_000, 0));
    let took = clock.now().since(begun);
    assert!(took < crate::scaled(Duration::from_secs(20)), "took {took:?}");
}
