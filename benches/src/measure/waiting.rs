//! `waiting_cost`: what a server has to do for one holder and many waiters that only wait.

use std::time::Duration;

use tokio::task::JoinSet;

use super::{Job, Requests, Sample, Trial};
use crate::side::{Outcome, Trouble};
use crate::stats::from_u64;

/// Until all waiters stand in the queue and their connecting is over.
const SETTLE: Duration = Duration::from_secs(1);

pub(super) async fn run(job: &Job, waiters: usize) -> Outcome<Trial> {
    let server = job.counting.as_ref().ok_or_else(|| Trouble::new("the server does not count its requests"))?;
    let mut holder = job.ours.one().await?;
    holder.acquire(&job.name).await?;
    let mut tasks = JoinSet::new();
    for mut waiter in job.ours.own(waiters).await? {
        let name = job.name.clone();
        tasks.spawn(async move {
            waiter.acquire(&name).await?;
            waiter.release(&name).await?;
            waiter.close().await;
            Ok::<_, Trouble>(())
        });
    }
    job.clock.sleep(SETTLE).await;
    let (before, start) = (server.requests().await?, job.clock.now());
    job.clock.sleep(job.slice).await;
    let after = server.requests().await?;
    let seconds = job.clock.now().since(start).as_secs_f64();
    let early = tasks.try_join_next().is_some();
    holder.release(&job.name).await?;
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    holder.close().await;
    if early {
        return Err(Trouble::new("a waiter got the name while it was held"));
    }
    let added = after.since(&before);
    let kept: u64 = housekeeping(&job.kind).iter().map(|method| added.of(method)).sum();
    let work = added.total_without(steps(&job.kind)).saturating_sub(kept);
    let requests = Requests { work: from_u64(work) / seconds, housekeeping: from_u64(kept) / seconds };
    Ok(Trial::alone(Sample { requests: Some(requests), ..Sample::default() }))
}

/// What keeps sessions alive.
fn housekeeping(kind: &str) -> &'static [&'static str] {
    match kind {
        "redis" => &["ping"],
        "postgres" => &["ping", "heartbeat"],
        "etcd" => &["LeaseKeepAlive", "LeaseTimeToLive"],
        "zookeeper" => &["ping", "sync", "getEphemerals"],
        _ => &[],
    }
}

/// Steps of the protocol that are no requests of their own.
fn steps(kind: &str) -> &'static [&'static str] {
    if kind == "postgres" { &["parse", "bind"] } else { &[] }
}
