//! `hold_cost`: what many held locks cost the client that holds them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use lockyard_api::{
    Attempt, Capabilities, Claim, Clock, DistributedLock, Guard, Holder, LockName, Locker, Release, Renewal, Result,
    Wake, async_trait,
};

use super::process::{processor_time, resident};
use super::{Found, Job, Sample, Trial};
use crate::report::HoldCost;
use crate::side::{Outcome, Trouble};
use crate::stats::{as_f64, from_u64, round};
use crate::target::Connect;
use crate::worker::{Answer, Order, Worker, unexpected};

/// The ttl of the holds, as services have it.
const TTL: Duration = Duration::from_secs(30);
/// How many requests are under way at a time.
const AT_ONCE: usize = 32;
/// What acquiring and giving back so many may take.
const PATIENCE: Duration = Duration::from_secs(240);

pub(super) async fn run(job: &Job, count: usize) -> Outcome<Trial> {
    let target = job.target.as_ref().ok_or_else(super::no_target)?;
    let cost = match &target.worker {
        // In a process of its own nothing else uses processor and memory.
        Some(spawn) if target.kind != "memory" => {
            let mut worker = Worker::start(spawn, &target.url)?;
            let (ttl_millis, for_millis) = (millis(TTL), millis(job.slice));
            worker.tell(&Order::Hold { name: job.name.clone(), count, ttl_millis, for_millis }).await?;
            let answer = worker.hear(PATIENCE + job.slice).await?;
            worker.end(PATIENCE).await?;
            match answer {
                Answer::Held { cost } => cost,
                other => return Err(unexpected(&other)),
            }
        }
        _ => hold(&target.connect, &job.name, count, TTL, job.slice).await?,
    };
    Ok(Trial { found: Some(Found::HoldCost(cost)), ..Trial::alone(Sample::default()) })
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Holds `count` names for a time and tells what it cost this process.
pub(crate) async fn hold(
    connect: &Connect,
    name: &str,
    count: usize,
    ttl: Duration,
    during: Duration,
) -> Outcome<HoldCost> {
    let renewals = Arc::new(AtomicU64::new(0));
    let backend = Renewals { backend: connect().await?, renewals: Arc::clone(&renewals) };
    let locker = Locker::builder(backend).ttl(ttl).build()?;
    // Connections, buffers and the first pages of everything are nobody's locks.
    release(acquire(&locker, &format!("{name}-warm"), AT_ONCE, ttl).await?).await?;
    let before = resident()?;
    let guards = acquire(&locker, name, count, ttl).await?;
    let clock = Clock::system();
    let (start, used, renewed) = (clock.now(), processor_time(), renewals.load(Ordering::Relaxed));
    clock.sleep(during).await;
    let seconds = clock.now().since(start).as_secs_f64().max(1e-9);
    let used = processor_time().saturating_sub(used);
    let renewed = renewals.load(Ordering::Relaxed).saturating_sub(renewed);
    let grown = from_u64(resident()?) - from_u64(before);
    // A hold that was lost once is never held again.
    let missed = guards.iter().filter(|guard| !guard.is_held()).count();
    release(guards).await?;
    // What could not be undone in time, the leases end.
    let _ = locker.shutdown().await;
    Ok(HoldCost {
        held: count as u64,
        ttl_seconds: round(ttl.as_secs_f64()),
        renewals_per_second: round(from_u64(renewed) / seconds),
        client_cpu: round(used.as_secs_f64() / seconds),
        bytes_per_lock: round(grown.max(0.0) / as_f64(count.max(1))),
        missed_deadlines: missed as u64,
    })
}

async fn acquire(locker: &Locker, name: &str, count: usize, ttl: Duration) -> Outcome<Vec<Guard>> {
    let one = |at| locker.lock(format!("{name}-{at}")).ttl(ttl).acquire();
    let mut guards = Vec::with_capacity(count);
    let mut granted = stream::iter(0..count).map(one).buffer_unordered(AT_ONCE);
    while let Some(guard) = granted.next().await {
        guards.push(guard.map_err(|error| Trouble::new(format!("after {} holds: {error}", guards.len())))?);
    }
    Ok(guards)
}

async fn release(guards: Vec<Guard>) -> Outcome<()> {
    let all = stream::iter(guards).map(|guard| async move { guard.release().await.map(drop) });
    Ok(all.buffer_unordered(AT_ONCE).try_collect().await?)
}

/// Counts what the front end asks to be renewed.
#[derive(Debug)]
struct Renewals {
    backend: Arc<dyn DistributedLock>,
    renewals: Arc<AtomicU64>,
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl DistributedLock for Renewals {
    fn capabilities(&self) -> Capabilities {
        self.backend.capabilities()
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        self.backend.try_acquire(claim).await
    }

    async fn wait(&self, claim: &Claim) -> Result<Wake> {
        self.backend.wait(claim).await
    }

    async fn renew(&self, claim: &Claim) -> Result<Renewal> {
        self.renewals.fetch_add(1, Ordering::Relaxed);
        self.backend.renew(claim).await
    }

    async fn release(&self, claim: &Claim) -> Result<Release> {
        self.backend.release(claim).await
    }

    async fn inspect(&self, name: &LockName) -> Result<Option<Holder>> {
        self.backend.inspect(name).await
    }
}

#[cfg(test)]
mod tests {
    use lockyard_api::{Error, TtlRange};

    use super::*;
    use crate::NoopLock;

    fn noop() -> Connect {
        Arc::new(|| Box::pin(async { Ok(Arc::new(NoopLock::new()) as Arc<dyn DistributedLock>) }))
    }

    #[tokio::test]
    async fn holds_are_renewed_and_counted() {
        let cost = hold(&noop(), "name", 50, Duration::from_secs(1), Duration::from_millis(900)).await.expect("held");
        assert_eq!((cost.held, cost.missed_deadlines, cost.ttl_seconds), (50, 0, 1.0));
        assert!(cost.renewals_per_second > 0.0, "a renewal is due at a third of the ttl: {cost:?}");
        assert!(cost.client_cpu > 0.0, "{cost:?}");
    }

    /// Grants, and never confirms.
    #[derive(Debug)]
    struct Deaf;

    #[async_trait]
    impl DistributedLock for Deaf {
        fn capabilities(&self) -> Capabilities {
            let range = TtlRange::new(Duration::from_millis(1), Duration::from_secs(60), Duration::from_millis(1));
            Capabilities::new("deaf", range)
        }

        async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
            NoopLock::new().try_acquire(claim).await
        }

        async fn wait(&self, _claim: &Claim) -> Result<Wake> {
            Ok(Wake::Retry)
        }

        async fn renew(&self, _claim: &Claim) -> Result<Renewal> {
            Err(Error::unsupported("it never answers"))
        }

        async fn release(&self, _claim: &Claim) -> Result<Release> {
            Ok(Release::NotHeld)
        }

        async fn inspect(&self, _name: &LockName) -> Result<Option<Holder>> {
            Ok(None)
        }
    }

    #[tokio::test]
    async fn a_deadline_that_passes_is_counted() {
        let deaf: Connect = Arc::new(|| Box::pin(async { Ok(Arc::new(Deaf) as Arc<dyn DistributedLock>) }));
        let cost = hold(&deaf, "name", 7, Duration::from_millis(200), Duration::from_millis(600)).await.expect("held");
        assert_eq!(cost.missed_deadlines, 7);
    }
}
