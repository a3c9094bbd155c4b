//! `open_loop`: cycles that are due at a fixed rate, whether the ones before are done or not.
//!
//! Each is timed from when it was due. A client that measures from when it got round to the next cycle leaves out what a stall
//! did to all that were due meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lockyard_api::{Clock, Moment};
use tokio::task::JoinSet;

use super::{Job, OPEN_LOOP_TASKS, Sample, Trial};
use crate::side::{Contender, Contenders, Outcome};
use crate::stats::{Latencies, from_u64};

/// Windows of each side in a trial, one after the other in turn.
const ROUNDS: u32 = 2;

pub(super) async fn run(job: &Job, rate: u64) -> Outcome<Trial> {
    let mut sides = vec![(job.ours.shared(OPEN_LOOP_TASKS).await?, Response::default())];
    if let Some(floor) = &job.floor {
        sides.push((floor.shared(OPEN_LOOP_TASKS).await?, Response::default()));
    }
    let schedule = Schedule::new(rate, job.slice / ROUNDS);
    for round in 0..2 {
        for at in job.order(sides.len(), round) {
            let (contenders, response) = &mut sides[at];
            let working = std::mem::take(contenders);
            *contenders = arrivals(working, &job.name, schedule, &job.clock, response).await?;
        }
    }
    let mut samples = Vec::new();
    for (contenders, response) in sides {
        super::close(contenders).await;
        samples.push((response.sample(), response.latencies));
    }
    Trial::of(samples)
}

/// When cycles are due.
#[derive(Debug, Clone, Copy)]
struct Schedule {
    every: Duration,
    count: u32,
}

impl Schedule {
    fn new(rate: u64, during: Duration) -> Self {
        let every = Duration::from_nanos(1_000_000_000 / rate.max(1));
        let count = during.as_nanos() / every.as_nanos().max(1);
        Self { every, count: u32::try_from(count).unwrap_or(u32::MAX).max(1) }
    }

    fn due(self, begin: Moment, at: u32) -> Moment {
        begin.plus(self.every * at)
    }
}

/// Response times of one side, and how long all its cycles took.
#[derive(Default)]
struct Response {
    latencies: Latencies,
    elapsed: Duration,
}

impl Response {
    fn sample(&self) -> Sample {
        Sample {
            p50_us: self.latencies.micros(0.5),
            p99_us: self.latencies.micros(0.99),
            per_second: from_u64(self.latencies.count()) / self.elapsed.as_secs_f64().max(1e-9),
            max_wait_ms: Some(self.latencies.max_millis()),
            ..Sample::default()
        }
    }
}

/// Lets whoever is free take the next cycle when it is due, or at once when it is overdue.
async fn arrivals(
    contenders: Contenders,
    name: &str,
    schedule: Schedule,
    clock: &Clock,
    response: &mut Response,
) -> Outcome<Contenders> {
    let next = Arc::new(AtomicU32::new(0));
    let begin = clock.now();
    let mut tasks = JoinSet::new();
    for (at, contender) in contenders.into_iter().enumerate() {
        let (next, clock, name) = (Arc::clone(&next), clock.clone(), format!("{name}-{at}"));
        tasks.spawn(async move { take(contender, &name, &next, schedule, begin, &clock).await });
    }
    let mut back = Vec::new();
    while let Some(done) = tasks.join_next().await {
        let (contender, latencies) = done??;
        response.latencies.add(&latencies);
        back.push(contender);
    }
    response.elapsed += clock.now().since(begin);
    Ok(back)
}

async fn take(
    mut contender: Box<dyn Contender>,
    name: &str,
    next: &AtomicU32,
    schedule: Schedule,
    begin: Moment,
    clock: &Clock,
) -> Outcome<(Box<dyn Contender>, Latencies)> {
    let mut latencies = Latencies::new();
    loop {
        let at = next.fetch_add(1, Ordering::Relaxed);
        if at >= schedule.count {
            return Ok((contender, latencies));
        }
        let due = schedule.due(begin, at);
        clock.sleep_until(due).await;
        contender.acquire(name).await?;
        contender.release(name).await?;
        latencies.record(clock.now().since(due));
    }
}

#[cfg(test)]
mod tests {
    use lockyard_api::async_trait;

    use super::*;

    /// Does nothing, but once stalls.
    struct Stalls {
        at: u32,
        cycles: u32,
        stall: Duration,
    }

    #[async_trait]
    impl Contender for Stalls {
        async fn acquire(&mut self, _name: &str) -> Outcome<()> {
            self.cycles += 1;
            if self.cycles == self.at {
                Clock::system().sleep(self.stall).await;
            }
            Ok(())
        }

        async fn release(&mut self, _name: &str) -> Outcome<()> {
            Ok(())
        }
    }

    /// One stall of 400 ms in 1000 cycles: who measures from the start of each cycle has one slow cycle, which no p99 shows.
    #[tokio::test]
    async fn a_stall_counts_for_all_that_were_due_meanwhile() {
        let stall = Duration::from_millis(400);
        let schedule = Schedule::new(1000, Duration::from_secs(1));
        assert_eq!(schedule.count, 1000);
        let mut response = Response::default();
        let stalls: Contenders = vec![Box::new(Stalls { at: 100, cycles: 0, stall })];
        arrivals(stalls, "name", schedule, &Clock::system(), &mut response).await.expect("cycles");
        assert_eq!(response.latencies.count(), 1000, "nothing that was due is left out");
        // 400 cycles were due in the stall; a hundredth of all waited for nearly the whole of it.
        assert!(response.latencies.micros(0.99) > 350_000.0, "{}", response.latencies.micros(0.99));
        assert!(response.latencies.micros(0.75) > 100_000.0, "{}", response.latencies.micros(0.75));
    }

    #[test]
    fn cycles_are_due_at_even_distances() {
        let schedule = Schedule::new(200, Duration::from_secs(2));
        let begin = Clock::system().now();
        assert_eq!(schedule.count, 400);
        assert_eq!(schedule.due(begin, 3).since(begin), Duration::from_millis(15));
        assert_eq!(Schedule::new(1, Duration::from_millis(1)).count, 1, "at least one");
    }
}
