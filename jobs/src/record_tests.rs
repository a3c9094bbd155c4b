//! What a record carries, and what it refuses.

use super::*;
use crate::RecordError;

pub(crate) fn run(slot: u64) -> Run {
    Run {
        slot: WallTime::from_millis(slot),
        run_id: format!("run-{slot}"),
        attempt: 1,
        triggered: false,
        holder: "web-1".to_owned(),
        token: (1 << 60) + 1,
        started_at: WallTime::from_millis(slot + 5),
        finished_at: None,
        status: Status::Running,
        error: None,
    }
}

#[test]
fn a_record_reads_back_and_loses_nothing_of_a_later_one() {
    let mut record = Record::default();
    record.begin(run(1000), Some(WallTime::from_millis(9000)));
    assert!(record.is_running());
    record.end(Status::Failed, WallTime::from_millis(1200), Some("x".repeat(1000)));
    record.miss(WallTime::from_millis(2000), 3);
    let text = String::from_utf8(record.encode("r").expect("JSON")).expect("text");
    assert!(text.contains(r#""token":"1152921504606846977""#) && text.contains(r#""v":1"#), "{text}");
    assert_eq!(Record::decode(Some(text.as_bytes()), "r").expect("its own"), record);
    assert_eq!(record.consecutive_failures, 1);
    assert!(record.encode("r").expect("JSON").len() < 2000);

    let later = text.replacen('{', r#"{"owner_team":"billing","#, 1);
    let kept = Record::decode(Some(later.as_bytes()), "r").expect("the same version");
    assert!(String::from_utf8(kept.encode("r").expect("JSON")).expect("text").contains(r#""owner_team":"billing""#));
    assert_eq!(Record::decode(None, "r").expect("a new one"), Record::default());
}

#[test]
fn what_is_no_record_is_told_and_never_becomes_an_empty_one() {
    let newer = Record::decode(Some(br#"{"v":2,"slots":[]}"#), "r").expect_err("newer");
    assert!(matches!(newer, RecordError::Newer { found: 2, known: 1 }), "{newer}");
    let mut ended = Record::default();
    ended.begin(run(1), None);
    let text = String::from_utf8(ended.encode("r").expect("JSON")).expect("text");
    let half = &text[..text.len() / 2];
    let wild = text.replace("1152921504606846977", "18446744073709551615");
    for bad in ["", "{}", "[]", "null", r#"{"v":"1"}"#, r#"{"v":0}"#, r#"{"v":1,"slot":"noon"}"#, half, &wild] {
        let error = Record::decode(Some(bad.as_bytes()), "@job/x").expect_err(bad);
        assert!(matches!(&error, RecordError::Damaged { register, .. } if register == "@job/x"), "{error}");
    }
    assert!(Record::decode(Some(b"\xff"), "r").is_err());
}

#[test]
fn the_history_keeps_the_latest() {
    let mut record = Record::default();
    for slot in 0..50 {
        record.begin(run(slot), None);
        record.end(Status::Succeeded, WallTime::from_millis(slot + 6), None);
    }
    assert_eq!(record.history.len(), Record::HISTORY);
    assert_eq!(record.history.last().map(|entry| entry.slot), Some(WallTime::from_millis(49)));
    assert_eq!(record.previous_success, Some(WallTime::from_millis(49)));
}

#[test]
fn a_run_by_hand_uses_up_its_trigger_and_no_slot() {
    let mut record = Record::default();
    record.begin(run(1000), None);
    record.end(Status::Succeeded, WallTime::from_millis(1001), None);
    record.trigger = Some(Trigger::new(WallTime::from_millis(1500), "eve"));
    record.begin(Run { triggered: true, ..run(1500) }, None);
    assert_eq!((record.trigger, record.slot), (None, Some(WallTime::from_millis(1000))));
}
