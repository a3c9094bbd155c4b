//! `noop`: the front end over a backend that does nothing.

use std::time::Duration;

use lockyard_api::{
    Attempt, Capabilities, Claim, Clock, DistributedLock, Error, Grant, Holder, Liveness, LockName, Locker, Moment,
    Release, Renewal, Result, TtlRange, Wake, async_trait,
};

use super::process::processor_time;
use super::{Sample, Trial};
use crate::side::Outcome;
use crate::stats::median;

/// The cycles of a block: long against the resolution of the clock, short against what else happens on a machine.
const CYCLES: u32 = 5_000;
/// The blocks of a trial. The processor time is that of the cheapest: a neighbour on the same core makes the same
/// instructions take longer and never shorter. The time that a client sees is that of the median.
const BLOCKS: usize = 41;

/// A backend that grants everything and does nothing, not even read the clock: what is left is the front end.
#[derive(Debug)]
pub struct NoopLock {
    /// Of all grants.
    valid_from: Moment,
}

/// Longer than anybody measures.
const TTL: Duration = Duration::from_secs(3600);

impl NoopLock {
    /// A backend whose grants are good for an hour from now.
    #[must_use]
    pub fn new() -> Self {
        Self { valid_from: Clock::system().now() }
    }
}

impl Default for NoopLock {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl DistributedLock for NoopLock {
    fn capabilities(&self) -> Capabilities {
        Capabilities::new("noop", TtlRange::new(Duration::from_secs(1), TTL, Duration::from_millis(1)))
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        Ok(Attempt::Granted(Grant::new(None, self.valid_from, Liveness::Lease { ttl: claim.ttl })))
    }

    async fn wait(&self, _claim: &Claim) -> Result<Wake> {
        Ok(Wake::Retry)
    }

    async fn renew(&self, claim: &Claim) -> Result<Renewal> {
        Ok(Renewal::Renewed { ttl: claim.ttl, valid_from: Clock::system().now() })
    }

    async fn release(&self, _claim: &Claim) -> Result<Release> {
        Ok(Release::Released)
    }

    async fn inspect(&self, _name: &LockName) -> Result<Option<Holder>> {
        Err(Error::unsupported("a backend that does nothing knows nothing"))
    }
}

pub(super) async fn run() -> Outcome<Trial> {
    let locker = Locker::new(NoopLock::new())?;
    cycles(&locker).await?;
    let mut blocks = Vec::new();
    for _ in 0..BLOCKS {
        blocks.push(block(&locker).await?);
    }
    let cpu_ns = blocks.iter().map(|block| block.cpu_ns).fold(f64::INFINITY, f64::min);
    let wall_ns = median(&blocks.iter().map(|block| block.wall_ns).collect::<Vec<_>>()).unwrap_or_default();
    let p50_us = wall_ns / 1e3;
    let per_second = 1e9 / wall_ns.max(1.0);
    Ok(Trial::alone(Sample { p50_us, p99_us: p50_us, per_second, cpu_ns: Some(cpu_ns), ..Sample::default() }))
}

/// What a cycle cost in one block.
struct Block {
    cpu_ns: f64,
    wall_ns: f64,
}

async fn block(locker: &Locker) -> Outcome<Block> {
    let (clock, before) = (Clock::system(), processor_time());
    let start = clock.now();
    cycles(locker).await?;
    let (elapsed, used) = (clock.now().since(start), processor_time().saturating_sub(before));
    let a_cycle = |time: Duration| time.as_secs_f64() * 1e9 / f64::from(CYCLES);
    Ok(Block { cpu_ns: a_cycle(used), wall_ns: a_cycle(elapsed) })
}

async fn cycles(locker: &Locker) -> Outcome<()> {
    for _ in 0..CYCLES {
        locker.acquire("noop").await?.release().await?;
    }
    Ok(())
}
