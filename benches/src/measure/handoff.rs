//! `handoff`: from the call of release to the waiter of another client that holds.

use std::time::Duration;

use super::{Job, Sample, Trial};
use crate::side::{Contender, Contenders, Outcome, Trouble};
use crate::stats::Latencies;

/// Hand-offs in a row of one side.
const BLOCK: usize = 10;
/// Long enough that the waiter stands in the queue, and never in step with anything.
const HOLD_MS: u64 = 6;
const HOLD_SPREAD_MS: u64 = 6;
const MIN_ROUNDS: usize = 2;

/// Two clients that pass a name to and fro.
struct Pair {
    /// The one that holds, and the one that will wait.
    clients: Option<(Box<dyn Contender>, Box<dyn Contender>)>,
    latencies: Latencies,
}

pub(super) async fn run(job: &Job) -> Outcome<Trial> {
    let mut pairs = vec![Pair::of(job.ours.own(2).await?)?];
    if let Some(floor) = &job.floor {
        pairs.push(Pair::of(floor.own(2).await?)?);
    }
    let budget = job.slice * u32::try_from(pairs.len()).unwrap_or(1);
    let start = job.clock.now();
    let mut round = 0;
    while round < MIN_ROUNDS || job.clock.now().since(start) < budget {
        for at in job.order(pairs.len(), round) {
            pairs[at].block(job).await?;
        }
        round += 1;
    }
    let mut samples = Vec::new();
    for mut pair in pairs {
        samples.push((pair.sample(), std::mem::take(&mut pair.latencies)));
        if let Some((a, b)) = pair.clients.take() {
            super::close(vec![a, b]).await;
        }
    }
    Trial::of(samples)
}

/// The release has to fall anywhere between two looks of a waiter that polls.
fn spread(job: &Job) -> Duration {
    Duration::from_millis(HOLD_SPREAD_MS).max(job.poll)
}

impl Pair {
    fn of(mut clients: Contenders) -> Outcome<Self> {
        let clients = clients.pop().zip(clients.pop()).ok_or_else(|| Trouble::new("two clients are needed"))?;
        Ok(Self { clients: Some(clients), latencies: Latencies::new() })
    }

    async fn block(&mut self, job: &Job) -> Outcome<()> {
        let (mut holder, mut waiter) = self.clients.take().ok_or_else(|| Trouble::new("the clients are gone"))?;
        holder.acquire(&job.name).await?;
        // A waiter that polls is slow: fewer do.
        let block = if job.poll.is_zero() { BLOCK } else { BLOCK / 2 };
        for _ in 0..block {
            let (clock, name) = (job.clock.clone(), job.name.clone());
            let waiting = tokio::spawn(async move {
                let got = waiter.acquire(&name).await;
                (clock.now(), got, waiter)
            });
            job.clock.sleep(Duration::from_millis(HOLD_MS) + spread(job).mul_f64(fastrand::f64())).await;
            let released = job.clock.now();
            holder.release(&job.name).await?;
            let (held, got, next) = waiting.await?;
            got?;
            self.latencies.record(held.since(released));
            waiter = std::mem::replace(&mut holder, next);
        }
        holder.release(&job.name).await?;
        self.clients = Some((holder, waiter));
        Ok(())
    }

    fn sample(&self) -> Sample {
        Sample {
            p50_us: self.latencies.micros(0.5),
            p99_us: self.latencies.micros(0.99),
            tail_us: Some((self.latencies.micros(0.9), self.latencies.micros(0.999))),
            per_second: self.latencies.per_second(),
            max_wait_ms: Some(self.latencies.max_millis()),
            ..Sample::default()
        }
    }
}
