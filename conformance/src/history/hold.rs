//! Holds: what lies between a grant and the moment up to which its client may believe in it.

use std::collections::{HashMap, HashSet};

use super::{Event, What};

/// One hold by the clock of its client.
#[derive(Debug, Clone)]
pub(super) struct Hold<'a> {
    pub(super) granted: &'a Event,
    pub(super) owner: &'a str,
    pub(super) token: Option<u64>,
    /// From when the client believes in it.
    pub(super) from: u64,
    /// Up to when: D, or the release or loss before it.
    pub(super) to: u64,
}

/// The holds of a history whose events are in order, by name, each in the order in which the clients were told. Grants
/// that came after their own deadline were never believed in and are none.
pub(super) fn by_name<'a>(events: &[&'a Event]) -> Vec<(&'a str, Vec<Hold<'a>>)> {
    let mut holds: Vec<Hold<'a>> = Vec::new();
    let mut open: HashMap<u32, HashMap<u64, usize>> = HashMap::new();
    let mut ended: HashSet<u32> = HashSet::new();
    for event in events {
        // What a client said between the order to kill it and its death is nothing that it could still act on.
        if ended.contains(&event.process) {
            continue;
        }
        let of_process = open.entry(event.process).or_default();
        match &event.what {
            What::Granted { owner, token, until } => {
                of_process.insert(event.op, holds.len());
                holds.push(Hold { granted: event, owner, token: *token, from: event.at, to: *until });
            }
            What::Held { until } => {
                if let Some(hold) = of_process.get(&event.op) {
                    holds[*hold].to = holds[*hold].to.max(*until);
                }
            }
            What::Lost { .. } | What::Release => {
                if let Some(hold) = of_process.remove(&event.op) {
                    holds[hold].to = holds[hold].to.min(event.at);
                }
            }
            What::Ended => {
                ended.insert(event.process);
                for hold in of_process.drain().map(|(_, hold)| hold) {
                    holds[hold].to = holds[hold].to.min(event.at);
                }
            }
            _ => {}
        }
    }
    let mut names: HashMap<&str, Vec<Hold<'a>>> = HashMap::new();
    for hold in holds.into_iter().filter(|hold| hold.from < hold.to) {
        names.entry(hold.granted.name.as_str()).or_default().push(hold);
    }
    let mut names: Vec<_> = names.into_iter().collect();
    names.sort_by_key(|(name, _)| *name);
    names
}
