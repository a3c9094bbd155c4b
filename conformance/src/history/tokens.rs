//! Tokens rise strictly with the grants of a name.
//!
//! The order is that in which the clients were told. It is the server's: a hold that was believed in had not ended at the
//! server, so that no other can have been granted and have ended in between; unless a fault took the hold away.

use super::hold::Hold;
use super::{FaultKind, History, Verdict, Violation};

pub(super) fn check(history: &History, holds: &[Hold<'_>], verdict: &mut Verdict) {
    let mut largest: Option<&Hold<'_>> = None;
    for hold in holds.iter().filter(|hold| hold.token.is_some()) {
        let Some(earlier) = largest.filter(|earlier| hold.token <= earlier.token) else {
            largest = Some(hold);
            continue;
        };
        if restarted_between(history, earlier, hold) {
            verdict.tokens_excused += 1;
            largest = Some(hold);
        } else if history.explains(hold.granted.process, earlier.from, hold.from).is_some() {
            // Granted before the earlier one, taken away, and believed in all the same.
            verdict.tokens_excused += 1;
        } else {
            let (earlier, later) = (earlier.granted.clone(), hold.granted.clone());
            verdict.violations.push(Violation::TokenFell { earlier, later });
        }
    }
}

/// Whether the server's counter may have been set back between two grants.
fn restarted_between(history: &History, earlier: &Hold<'_>, later: &Hold<'_>) -> bool {
    !history.rules.fencing_survives_restart
        && history.faults.iter().any(|fault| {
            fault.fault == FaultKind::ServerRestarted && fault.from <= later.from && earlier.from <= fault.to
        })
}
