//! The checks: one file per clause of the contract, and one for the front end.

mod exclusion;
mod fifo;
mod frontend;
mod history;
mod hung;
mod inspect;
mod lease;
mod leave;
mod loss;
mod name;
mod outcome;
mod owner;
mod register;
mod release;
mod repeat;
mod sharing;
mod signal;
mod stale;
mod token;
mod wait;
mod wake;

use crate::Check;

/// Names the checks of one clause: `checks! { 5 release: only_owner, queued }`; after a name `alone` for a check that
/// disturbs the whole server, and `v2` for one that came with the second version of the suite.
macro_rules! checks {
    ($clause:literal $group:ident: $($name:ident $($mode:ident)*),+ $(,)?) => {
        pub(super) fn checks() -> Vec<$crate::Check> {
            vec![$(
                $crate::Check::new(
                    concat!(stringify!($group), "::", stringify!($name)),
                    $clause,
                    |ctx| Box::pin($name(ctx)),
                )$(.$mode())*
            ),+]
        }
    };
}
use checks;

/// The checks that a version of the suite has, in the order of the clauses.
pub(crate) fn up_to(version: u32) -> Vec<Check> {
    let mut checks = [
        exclusion::checks(),
        owner::checks(),
        repeat::checks(),
        leave::checks(),
        release::checks(),
        token::checks(),
        register::checks(),
        lease::checks(),
        loss::checks(),
        stale::checks(),
        fifo::checks(),
        wait::checks(),
        wake::checks(),
        name::checks(),
        outcome::checks(),
        hung::checks(),
        inspect::checks(),
        frontend::checks(),
        sharing::checks(),
        signal::checks(),
        history::checks(),
    ]
    .concat();
    checks.retain(|check| check.since <= version);
    checks
}
