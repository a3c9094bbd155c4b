//! What is broken when: all of it follows from the seed.

use std::time::Duration;

use fastrand::Rng;
use lockyard_conformance::history::FaultKind;

/// The shape of a run.
#[derive(Debug, Clone)]
pub(super) struct Shape {
    pub(super) seed: u64,
    /// How long faults are made.
    pub(super) duration: Duration,
    pub(super) clients: usize,
    pub(super) names: usize,
    /// The lease of the locks.
    pub(super) ttl: Duration,
}

/// A fault to come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Planned {
    /// When, from the start.
    pub(super) at: Duration,
    pub(super) fault: FaultKind,
    /// How long.
    pub(super) time: Duration,
    /// The client, where it is about one.
    pub(super) client: usize,
    /// The name, where it is about one.
    pub(super) name: usize,
    /// How much: bytes, chunks or milliseconds.
    pub(super) amount: usize,
}

/// The shortest and the longest quiet time between the beginnings of two faults.
const BETWEEN: (u64, u64) = (100, 700);
/// How long the server may be out at a restart.
const RESTART: Duration = Duration::from_secs(2);

impl Shape {
    /// The faults of this run, of those that can be made here, in the order of their time. A client has one at a time, and
    /// the server too.
    pub(super) fn faults(&self, offered: &[FaultKind]) -> Vec<Planned> {
        let mut rng = Rng::with_seed(self.seed);
        let mut free = vec![Duration::ZERO; self.clients + 1];
        let mut planned = Vec::new();
        let mut at = Duration::from_millis(300);
        while at < self.duration && !offered.is_empty() {
            let next = self.one(&mut rng, at, offered);
            let busy = &mut free[if is_of_the_server(next.fault) { self.clients } else { next.client }];
            if *busy <= at {
                // A little more, for what it takes to make it.
                *busy = at + next.time + Duration::from_millis(200);
                planned.push(next);
            }
            at += Duration::from_millis(rng.u64(BETWEEN.0..BETWEEN.1));
        }
        planned
    }

    fn one(&self, rng: &mut Rng, at: Duration, offered: &[FaultKind]) -> Planned {
        let fault = offered[rng.usize(..offered.len())];
        let (client, name) = (rng.usize(..self.clients), rng.usize(..self.names));
        let share = |rng: &mut Rng, from: f64, to: f64| self.ttl.mul_f64(from + (to - from) * rng.f64());
        let (time, amount) = match fault {
            // Less or more than the lease.
            FaultKind::ClientFrozen if rng.bool() => (share(rng, 1.1, 1.8), 0),
            FaultKind::ClientFrozen => (share(rng, 0.05, 0.6), 0),
            FaultKind::LinkHeld | FaultKind::RequestsDropped | FaultKind::RepliesDropped => (share(rng, 0.1, 1.4), 0),
            // At once, with the port closed for a while, or after some bytes.
            FaultKind::LinkCut => match rng.u8(..3) {
                0 => (Duration::ZERO, 0),
                1 => (share(rng, 0.1, 1.2), 0),
                _ => (share(rng, 0.5, 1.0), rng.usize(1..400)),
            },
            FaultKind::RepliesSwallowed => (share(rng, 0.5, 1.0), rng.usize(1..4)),
            FaultKind::LinkDelayed => (share(rng, 0.3, 1.5), rng.usize(5..400)),
            FaultKind::ServerFrozen => (share(rng, 0.1, 1.2), 0),
            FaultKind::ServerRestarted => (RESTART, 0),
            _ => (Duration::ZERO, 0),
        };
        Planned { at, fault, time, client, name, amount }
    }

    /// Where the decisions of a client come from.
    pub(super) fn rng_of(&self, client: usize) -> Rng {
        Rng::with_seed(self.seed ^ (client as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }
}

const fn is_of_the_server(fault: FaultKind) -> bool {
    matches!(fault, FaultKind::ServerFrozen | FaultKind::ServerRestarted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(seed: u64) -> Shape {
        let seconds = Duration::from_secs;
        Shape { seed, duration: seconds(60), clients: 3, names: 2, ttl: seconds(2) }
    }

    const ALL: [FaultKind; 4] =
        [FaultKind::ClientFrozen, FaultKind::LinkHeld, FaultKind::ServerFrozen, FaultKind::Revoked];

    #[test]
    fn the_seed_decides_and_nothing_else() {
        assert_eq!(shape(7).faults(&ALL), shape(7).faults(&ALL));
        assert_ne!(shape(7).faults(&ALL), shape(8).faults(&ALL));
        assert_ne!(shape(7).rng_of(0).u64(..), shape(7).rng_of(1).u64(..));
        assert_eq!(shape(7).faults(&[]), []);
    }

    #[test]
    fn a_client_has_one_fault_at_a_time() {
        let faults = shape(3).faults(&ALL);
        assert!(faults.len() > 50, "{}", faults.len());
        for (at, first) in faults.iter().enumerate() {
            let same = |later: &&Planned| match is_of_the_server(first.fault) {
                true => is_of_the_server(later.fault),
                false => !is_of_the_server(later.fault) && later.client == first.client,
            };
            for later in faults[at + 1..].iter().filter(same) {
                assert!(first.at + first.time < later.at, "{first:?} {later:?}");
            }
        }
    }
}
