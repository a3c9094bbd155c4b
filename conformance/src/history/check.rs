//! The check: each name's holds in the order of their grants, once through.

use std::time::Duration;

use super::hold::{self, Hold};
use super::{Event, FaultKind, History, Overlap, Verdict, Violation, register, tokens};

impl History {
    /// Looks for what no lock that keeps the rules can have done. Takes O(n log n) for n events, and what is found.
    ///
    /// An operation whose outcome is unknown may have happened or not, and is no evidence of either: an acquire without a
    /// grant holds nothing, a release ends the belief in the hold when it is sent, a write counts once it is answered.
    #[must_use]
    pub fn check(&self) -> Verdict {
        let mut events: Vec<&Event> = self.events.iter().collect();
        events.sort_by_key(|event| event.at);
        let mut verdict = Verdict::default();
        for (_, holds) in hold::by_name(&events) {
            verdict.holds += holds.len();
            verdict.longest_gap = verdict.longest_gap.max(longest_gap(&holds));
            self.overlaps(&holds, &mut verdict);
            if self.rules.fencing {
                tokens::check(self, &holds, &mut verdict);
            }
        }
        register::check(&events, &mut verdict);
        verdict
    }

    fn overlaps(&self, holds: &[Hold<'_>], verdict: &mut Verdict) {
        // Those that have not ended when the next begins: each is met once more only to be left out or to be an overlap.
        let mut open: Vec<&Hold<'_>> = Vec::new();
        for second in holds {
            open.retain(|first| first.to > second.from);
            for first in open.iter().filter(|first| first.owner != second.owner) {
                let (from, to) = (second.from, first.to.min(second.to));
                let fault = self.explains(first.granted.process, from, to);
                let overlap = Overlap {
                    first: first.granted.clone(),
                    second: second.granted.clone(),
                    time: Duration::from_nanos(to - from),
                    fault,
                };
                match fault {
                    Some(_) => verdict.explained.push(overlap),
                    None => verdict.violations.push(Violation::Overlap(overlap)),
                }
            }
            open.push(second);
        }
    }

    /// The fault that may have taken a hold of this client away without its knowledge during this time.
    pub(super) fn explains(&self, process: u32, from: u64, to: u64) -> Option<FaultKind> {
        let concerned = self.faults.iter().filter(|fault| fault.concerns(process) && fault.from <= from);
        concerned
            .filter_map(|fault| Some((fault, self.rules.allowed(fault.fault)?)))
            .find(|(fault, allowed)| to <= self.told(process, fault.to, *allowed))
            .map(|(fault, _)| fault.fault)
    }

    /// When the client knows at the latest what a fault that ended at `end` did: later, when further faults kept it from
    /// hearing.
    fn told(&self, process: u32, end: u64, allowed: u64) -> u64 {
        let mut told = end.saturating_add(allowed);
        loop {
            let deaf = self.faults.iter().filter(|fault| fault.fault.keeps_news_away() && fault.concerns(process));
            let later = deaf.filter(|fault| fault.from <= told).map(|fault| fault.to.saturating_add(allowed)).max();
            match later {
                Some(later) if later > told => told = later,
                _ => return told,
            }
        }
    }
}

fn longest_gap(holds: &[Hold<'_>]) -> Duration {
    let (mut end, mut longest) = (u64::MAX, 0);
    for hold in holds {
        longest = longest.max(hold.from.saturating_sub(end));
        end = if end == u64::MAX { hold.to } else { end.max(hold.to) };
    }
    Duration::from_nanos(longest)
}
