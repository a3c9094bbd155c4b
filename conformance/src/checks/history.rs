//! Random runs over the front end: callers that give up anywhere, links that break at any time.

mod cancelled;
mod links;

use fastrand::Rng;

use super::checks;
use crate::Stop;
use cancelled::cancelled_at_each_poll;
use links::random_links;

// Alone, since hundreds of claims one after the other keep a small server busy.
checks! { 0 history: cancelled_at_each_poll v2 alone, random_links v2 }

/// The seed of a run: of `LOCKYARD_SEED`, or a random one.
fn seed() -> u64 {
    let given = std::env::var("LOCKYARD_SEED").ok().and_then(|text| text.parse().ok());
    given.unwrap_or_else(|| fastrand::u64(..1 << 32))
}

/// Says how the same decisions are made again.
fn seeded(stop: Stop, seed: u64) -> Stop {
    match stop {
        Stop::Failed(text) => Stop::Failed(format!("{text} [LOCKYARD_SEED={seed} decides the same again]")),
        ignored => ignored,
    }
}

/// The decisions of one of several who take part.
fn rng_of(seed: u64, who: u64) -> Rng {
    Rng::with_seed(seed ^ (who + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15))
}
