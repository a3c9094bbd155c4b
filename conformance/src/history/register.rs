//! A register never takes a token older than one that it has taken.

use std::collections::HashMap;

use super::{Event, Verdict, Violation, What};

/// A write that the register took.
struct Taken<'a> {
    sent: &'a Event,
    answered: &'a Event,
    token: u64,
}

pub(super) fn check(events: &[&Event], verdict: &mut Verdict) {
    for writes in taken(events).into_values() {
        check_name(writes, verdict);
    }
}

/// The writes that were answered, by name, in the order in which they were sent.
fn taken<'a>(events: &[&'a Event]) -> HashMap<&'a str, Vec<Taken<'a>>> {
    let mut open: HashMap<(u32, u64), &'a Event> = HashMap::new();
    let mut taken: HashMap<&str, Vec<Taken<'a>>> = HashMap::new();
    for event in events {
        let of = (event.process, event.op);
        match &event.what {
            What::Write { .. } => _ = open.insert(of, event),
            What::Stale => _ = open.remove(&of),
            What::Written => {
                let Some(sent) = open.remove(&of) else { continue };
                if let What::Write { token: Some(token) } = sent.what {
                    taken.entry(&event.name).or_default().push(Taken { sent, answered: event, token });
                }
            }
            _ => {}
        }
    }
    for writes in taken.values_mut() {
        writes.sort_by_key(|write| write.sent.at);
    }
    taken
}

fn check_name(writes: Vec<Taken<'_>>, verdict: &mut Verdict) {
    let mut answered: Vec<&Taken<'_>> = writes.iter().collect();
    answered.sort_by_key(|write| write.answered.at);
    let mut before = answered.into_iter().peekable();
    let mut largest: Option<&Taken<'_>> = None;
    for write in &writes {
        // What was answered before this one was sent came before it, in any order that a reader could see.
        while let Some(done) = before.next_if(|done| done.answered.at < write.sent.at) {
            if largest.is_none_or(|largest| done.token > largest.token) {
                largest = Some(done);
            }
        }
        if let Some(earlier) = largest.filter(|earlier| earlier.token > write.token) {
            let (earlier, later) = (earlier.answered.clone(), write.sent.clone());
            verdict.violations.push(Violation::StaleWrite { earlier, later });
        }
    }
}
