//! `uncontended`: acquire and release, one client, nobody else.

use super::{Job, Recording, Sample, Trial};
use crate::Names;
use crate::side::{Contender, Outcome};
use crate::stats::Latencies;

/// Cycles in a row of one side, before the other has its turn.
const BLOCK: usize = 50;
const WARM_UP: usize = 10;
/// Forth and back at least, whatever the time.
const MIN_ROUNDS: usize = 2;

/// One side: who cycles, and what was seen. `again` lanes cycle with the contender of the floor.
struct Lane {
    contender: usize,
    latencies: Latencies,
}

pub(super) async fn run(job: &Job, names: Names) -> Outcome<Trial> {
    let mut contenders = vec![job.ours.one().await?];
    let mut lanes = vec![Lane::of(0)];
    let mut label = None;
    if let Some(floor) = &job.floor {
        contenders.push(floor.one().await?);
        lanes.push(Lane::of(1));
        if names == Names::Same {
            lanes.push(Lane::of(1));
            if let Some((name, contender)) = floor.beside().await? {
                contenders.push(contender);
                lanes.push(Lane::of(2));
                label = Some(name);
            }
        }
    }
    let mut namer = Namer { base: &job.name, names, count: 0 };
    for contender in &mut contenders {
        cycles(job, contender.as_mut(), &mut namer, WARM_UP, &mut Latencies::new()).await?;
    }
    let budget = job.slice * u32::try_from(lanes.len()).unwrap_or(1);
    let start = job.clock.now();
    let mut round = 0;
    while round < MIN_ROUNDS || job.clock.now().since(start) < budget {
        for lane in job.order(lanes.len(), round) {
            let Lane { contender, latencies } = &mut lanes[lane];
            cycles(job, contenders[*contender].as_mut(), &mut namer, BLOCK, latencies).await?;
        }
        round += 1;
    }
    super::close(contenders).await;
    let sides = ["ours", "floor", "floor-again", label.unwrap_or_default()];
    let recordings = sides.into_iter().zip(&lanes).map(|(side, lane)| Recording::new(side, &lane.latencies)).collect();
    let mut samples = lanes.iter().map(Lane::sample);
    let ours = samples.next().ok_or_else(super::nothing_measured)?;
    let (floor, again) = (samples.next(), samples.next());
    Ok(Trial { floor, again, beside: label.zip(samples.next()), recordings, ..Trial::alone(ours) })
}

async fn cycles(
    job: &Job,
    contender: &mut dyn Contender,
    namer: &mut Namer<'_>,
    count: usize,
    latencies: &mut Latencies,
) -> Outcome<()> {
    for _ in 0..count {
        let name = namer.next();
        let start = job.clock.now();
        contender.acquire(&name).await?;
        contender.release(&name).await?;
        latencies.record(job.clock.now().since(start));
    }
    Ok(())
}

struct Namer<'a> {
    base: &'a str,
    names: Names,
    count: u64,
}

impl Namer<'_> {
    fn next(&mut self) -> String {
        self.count += 1;
        match self.names {
            Names::Same => self.base.to_owned(),
            Names::Fresh => format!("{}-{}", self.base, self.count),
        }
    }
}

impl Lane {
    fn of(contender: usize) -> Self {
        Self { contender, latencies: Latencies::new() }
    }

    fn sample(&self) -> Sample {
        Sample {
            p50_us: self.latencies.micros(0.5),
            p99_us: self.latencies.micros(0.99),
            tail_us: Some((self.latencies.micros(0.9), self.latencies.micros(0.999))),
            per_second: self.latencies.per_second(),
            ..Sample::default()
        }
    }
}
