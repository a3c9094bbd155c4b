//! `noop`: the front end over a backend that does nothing.

use std::time::Duration;

use lockyard_api::{
    Attempt, Capabilities, Claim, Clock, DistributedLock, Error, Grant, Holder, Liveness, LockName, Locker, Release,
    Renewal, Result, TtlRange, Wake, async_trait,
};
use rustix::time::{ClockId, clock_gettime};

use super::{Sample, Trial};
use crate::side::Outcome;

/// Enough for a figure that is reproducible to a few percent, in a fraction of a second.
const CYCLES: u32 = 50_000;

/// A backend that grants everything and does nothing: what is left is the front end.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct NoopLock;

const TTL: Duration = Duration::from_secs(30);

impl NoopLock {
    /// The backend.
    #[must_use]
    pub const fn new() -> Self {
        Self
    }
}

#[async_trait]
impl DistributedLock for NoopLock {
    fn capabilities(&self) -> Capabilities {
        Capabilities::new("noop", TtlRange::new(Duration::from_secs(1), TTL, Duration::from_millis(1)))
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        Ok(Attempt::Granted(Grant::new(None, Clock::system().now(), Liveness::Lease { ttl: claim.ttl })))
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
    let locker = Locker::new(NoopLock)?;
    cycles(&locker, CYCLES / 10).await?;
    let (clock, before) = (Clock::system(), processor_time());
    let start = clock.now();
    cycles(&locker, CYCLES).await?;
    let (elapsed, used) = (clock.now().since(start), processor_time().saturating_sub(before));
    let cycles = f64::from(CYCLES);
    let p50_us = elapsed.as_secs_f64() * 1e6 / cycles;
    let cpu_ns = Some(used.as_secs_f64() * 1e9 / cycles);
    let per_second = cycles / elapsed.as_secs_f64().max(1e-9);
    Ok(Trial::alone(Sample { p50_us, p99_us: p50_us, per_second, cpu_ns, ..Sample::default() }))
}

async fn cycles(locker: &Locker, count: u32) -> Outcome<()> {
    for _ in 0..count {
        locker.acquire("noop").await?.release().await?;
    }
    Ok(())
}

/// The processor time that this process has used.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let (seconds, nanos) = (u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0));
    Duration::new(seconds, nanos)
}
