//! Contenders and waiters in several processes.

use std::time::Duration;

use futures_util::future::try_join_all;

use super::turns::{nanos, sample};
use super::warm::window_of_rounds;
use super::{Job, Trial};
use crate::side::{Outcome, Trouble};
use crate::worker::{Answer, Order, Worker, unexpected};

/// What starting a process and opening its clients may take.
const START: Duration = Duration::from_secs(60);
/// What a message to all processes may take before they begin.
const BARRIER: Duration = Duration::from_millis(200);

/// `contended` by clients in several processes.
pub(super) async fn contended(job: &Job, contenders: usize, processes: usize) -> Outcome<Trial> {
    let each = contenders / processes.max(1);
    let order = |at| Order::Contend { name: job.name.clone(), contenders: each, first: at * each };
    let target = job.target.as_ref().ok_or_else(super::no_target)?;
    let (mut workers, round) = start(job, &target.url, processes, order).await?;
    let during = window_of_rounds(job.slice, round);
    let before = during / 10;
    let begin = job.clock.now().plus(BARRIER + before);
    let end = begin.plus(during);
    let from = Order::Start {
        at_nanos: nanos(begin.minus(before)),
        for_nanos: u64::try_from((during + before).as_nanos()).unwrap_or(u64::MAX),
    };
    try_join_all(workers.iter_mut().map(|worker| worker.tell(&from))).await?;
    let answers = try_join_all(workers.iter_mut().map(|worker| worker.hear(START + during * 2))).await?;
    let mut turns = Vec::new();
    for answer in answers {
        match answer {
            Answer::Contended { turns: more } => turns.extend(more),
            other => return Err(unexpected(&other)),
        }
    }
    try_join_all(workers.into_iter().map(|worker| worker.end(START))).await?;
    Trial::of([sample(turns, each * processes, nanos(begin), nanos(end))])
}

/// Waiters in several processes.
pub(super) struct Waiting {
    workers: Vec<Worker>,
}

impl Waiting {
    pub(super) async fn start(job: &Job, url: &str, waiters: usize, processes: usize) -> Outcome<Self> {
        let order = |_| Order::Wait { name: job.name.clone(), tasks: waiters / processes.max(1) };
        let (workers, _) = start(job, url, processes, order).await?;
        Ok(Self { workers })
    }

    /// Ends the waiting; an error when somebody got the name.
    pub(super) async fn end(self) -> Outcome<()> {
        try_join_all(self.workers.into_iter().map(|mut worker| async move {
            worker.tell(&Order::End).await?;
            match worker.hear(START).await? {
                Answer::Waited { early: false } => worker.end(START).await,
                Answer::Waited { early: true } => Err(Trouble::new("a waiter got the name while it was held")),
                other => Err(unexpected(&other)),
            }
        }))
        .await
        .map(drop)
    }
}

/// Starts the processes and waits until each stands where it was told to; the longest time that one tells of then.
async fn start(
    job: &Job,
    url: &str,
    processes: usize,
    order: impl Fn(usize) -> Order,
) -> Outcome<(Vec<Worker>, Duration)> {
    let spawn = job.target.as_ref().and_then(|target| target.worker.as_ref()).ok_or_else(super::no_worker)?;
    let mut workers = Vec::with_capacity(processes);
    for at in 0..processes {
        let mut worker = Worker::start(spawn, url)?;
        worker.tell(&order(at)).await?;
        workers.push(worker);
    }
    let times = try_join_all(workers.iter_mut().map(|worker| worker.ready(START))).await?;
    Ok((workers, times.into_iter().flatten().max().unwrap_or_default()))
}
