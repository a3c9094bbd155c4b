//! `waiting_cost`: what a server has to do for one holder and many waiters that only wait.

use std::time::Duration;

use tokio::task::JoinSet;

use super::spread::Waiting;
use super::{Job, Requests, Sample, Trial};
use crate::side::{Contender, Outcome, Trouble};
use crate::stats::from_u64;

/// Until all waiters stand in the queue and their connecting is over.
const SETTLE: Duration = Duration::from_secs(1);

pub(super) async fn run(job: &Job, waiters: usize, processes: usize) -> Outcome<Trial> {
    let mut holder = job.ours.one().await?;
    holder.acquire(&job.name).await?;
    let requests = if processes > 1 {
        let counted = job.target.as_ref().and_then(|target| target.counted.as_ref());
        let url = &counted.ok_or_else(|| Trouble::new("the server does not count its requests"))?.url;
        let waiting = Waiting::start(job, url, waiters, processes).await?;
        let requests = count(job).await;
        waiting.end().await?;
        holder.release(&job.name).await?;
        requests?
    } else {
        here(job, waiters, &mut holder).await?
    };
    holder.close().await;
    Ok(Trial::alone(Sample { requests: Some(requests), ..Sample::default() }))
}

/// The waiters are tasks of this process, each with a client of its own; at the end each gets the name.
async fn here(job: &Job, waiters: usize, holder: &mut Box<dyn Contender>) -> Outcome<Requests> {
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
    let requests = count(job).await?;
    let early = tasks.try_join_next().is_some();
    holder.release(&job.name).await?;
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    if early {
        return Err(Trouble::new("a waiter got the name while it was held"));
    }
    Ok(requests)
}

/// What the server executes while all wait.
async fn count(job: &Job) -> Outcome<Requests> {
    let server = job.counting.as_ref().ok_or_else(|| Trouble::new("the server does not count its requests"))?;
    job.clock.sleep(SETTLE).await;
    let (before, start) = (server.requests().await?, job.clock.now());
    job.clock.sleep(job.slice).await;
    let after = server.requests().await?;
    let seconds = job.clock.now().since(start).as_secs_f64();
    let added = after.since(&before);
    let kept: u64 = housekeeping(&job.kind).iter().map(|method| added.of(method)).sum();
    let work = added.total_without(steps(&job.kind)).saturating_sub(kept);
    Ok(Requests { work: from_u64(work) / seconds, housekeeping: from_u64(kept) / seconds })
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
