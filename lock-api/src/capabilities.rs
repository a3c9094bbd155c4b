//! What a backend promises; the conformance suite holds it to that.

use std::time::Duration;

use crate::{Error, ErrorKind, Kind, Result};

/// In which order waiters get the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Queueing {
    /// In the order in which they were answered `Queued`.
    Fifo,
    /// In no promised order.
    Unordered,
}

/// How a waiter learns that the name is free.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Waking {
    /// The server tells it.
    Pushed,
    /// It asks again and again.
    Polled,
}

/// What keeps holds alive on this backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LivenessKind {
    /// Each hold has a lease of its own.
    Lease,
    /// The client's session keeps all its holds.
    Session,
    /// The process.
    Process,
}

/// How strong the fencing tokens are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fencing {
    /// Tokens rise strictly, also across a crash and restart of the server.
    Durable,
    /// Tokens rise strictly while the server lives; a crash or failover can repeat or lower them.
    Volatile,
    /// No tokens.
    None,
}

/// The ttls that a backend takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct TtlRange {
    /// The shortest.
    pub min: Duration,
    /// The longest.
    pub max: Duration,
    /// Inside the range a ttl is rounded up to a multiple of this, or to the next class where the backend has classes.
    pub granularity: Duration,
}

impl TtlRange {
    /// Any lease from `min` to `max`, rounded up to whole `granularity`.
    #[must_use]
    pub const fn new(min: Duration, max: Duration, granularity: Duration) -> Self {
        Self { min, max, granularity }
    }

    /// Checks a ttl against the range.
    ///
    /// # Errors
    /// `InvalidTtl`, naming the limit.
    pub fn check(&self, ttl: Duration) -> Result<()> {
        let problem = if ttl.is_zero() {
            format!("a ttl of zero ends before it begins; the shortest here is {:?}", self.min)
        } else if ttl < self.min {
            format!("ttl {ttl:?} is shorter than {:?}, the shortest this backend takes", self.min)
        } else if ttl > self.max {
            format!("ttl {ttl:?} is longer than {:?}, the longest this backend takes", self.max)
        } else {
            return Ok(());
        };
        Err(Error::new(ErrorKind::InvalidTtl, problem).not_applied())
    }

    /// The ttl rounded up to the granularity.
    #[must_use]
    pub fn round_up(&self, ttl: Duration) -> Duration {
        let step = self.granularity.as_nanos().max(1);
        let nanos = ttl.as_nanos().div_ceil(step).saturating_mul(step);
        u64::try_from(nanos).map_or(self.max, Duration::from_nanos)
    }
}

/// What a backend promises. Stated by the backend, checked by the conformance suite: a capability that is claimed and not
/// kept is a failure.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// The backend's id: `redis`, `postgres-advisory`, …
    pub backend: &'static str,
    /// In which order waiters get the name.
    pub queue: Queueing,
    /// How a waiter learns that the name is free.
    pub wake: Waking,
    /// What keeps holds alive.
    pub liveness: LivenessKind,
    /// How strong the fencing tokens are.
    pub fencing: Fencing,
    /// Whether a holder that hangs loses the lock within its granted ttl plus `slack`.
    pub expires_hung: bool,
    /// Whether a failover of the server keeps the locks.
    pub failover_safe: bool,
    /// Whether a restart of the server with its data keeps the locks.
    pub restart_safe: bool,
    /// The ttls it takes.
    pub ttl: TtlRange,
    /// How long after the granted ttl a lease may still block others.
    pub slack: Duration,
    /// How long a waiter sleeps at most when every wake-up is lost, for a claim whose ttl is `ttl.min` or more: this
    /// time or the claim's ttl, whichever is longer.
    pub recheck: Duration,
    /// The kinds of claims it takes.
    pub kinds: &'static [&'static str],
    /// Whether a hold can be taken that is never renewed.
    pub fixed_lease: bool,
    /// Whether `inspect` tells who holds a name.
    pub inspect: bool,
}

impl Capabilities {
    /// A backend that promises nothing beyond exclusion by lease: set what it does promise.
    #[must_use]
    pub const fn new(backend: &'static str, ttl: TtlRange) -> Self {
        Self {
            backend,
            queue: Queueing::Unordered,
            wake: Waking::Polled,
            liveness: LivenessKind::Lease,
            fencing: Fencing::None,
            expires_hung: false,
            failover_safe: false,
            restart_safe: false,
            ttl,
            slack: Duration::from_millis(500),
            recheck: Duration::from_secs(15),
            kinds: &["exclusive"],
            fixed_lease: false,
            inspect: false,
        }
    }

    /// Checks that the backend takes claims of this kind.
    ///
    /// # Errors
    /// `Unsupported`, naming the kind and what is offered.
    pub fn check_kind(&self, kind: Kind) -> Result<()> {
        if self.kinds.contains(&kind.as_str()) {
            return Ok(());
        }
        Err(Error::unsupported(format!(
            "{} takes no {} claims, only: {}",
            self.backend,
            kind.as_str(),
            self.kinds.join(", ")
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ttl_is_rounded_up_and_never_down() {
        let range = TtlRange::new(Duration::from_secs(1), Duration::from_secs(300), Duration::from_secs(1));
        assert_eq!(range.round_up(Duration::from_millis(1001)), Duration::from_secs(2));
        assert_eq!(range.round_up(Duration::from_secs(2)), Duration::from_secs(2));
        assert_eq!(range.round_up(Duration::MAX), range.max);
        for bad in [Duration::ZERO, Duration::from_millis(999), Duration::from_secs(301), Duration::MAX] {
            assert_eq!(range.check(bad).expect_err("out of range").kind(), ErrorKind::InvalidTtl);
        }
        assert!(range.check(Duration::from_secs(1)).is_ok());
    }

    #[test]
    fn kinds_that_are_not_offered_are_unsupported() {
        let range = TtlRange::new(Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(1));
        let capabilities = Capabilities::new("x", range);
        assert!(capabilities.check_kind(Kind::Exclusive).is_ok());
        let error = capabilities.check_kind(Kind::Permit { of: 3 }).expect_err("no permits");
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.message().contains("x takes no permit claims"), "{error}");
    }
}
