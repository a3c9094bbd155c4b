//! `parallel`: many tasks of one client, a name each.

use super::crowd::{Shape, Tally, window};
use super::warm::hold_all_at_once;
use super::{Job, Trial};
use crate::side::Outcome;

/// Windows of each side in a trial, one after the other in turn.
const ROUNDS: usize = 2;

pub(super) async fn run(job: &Job, tasks: usize) -> Outcome<Trial> {
    let shape = Shape::Apart(job.name.as_str().into());
    let mut sides = vec![(job.ours.shared(tasks).await?, Tally::new(tasks))];
    if let Some(floor) = &job.floor {
        sides.push((floor.shared(tasks).await?, Tally::new(tasks)));
    }
    for (contenders, _) in &mut sides {
        *contenders = hold_all_at_once(std::mem::take(contenders), &job.name).await?;
    }
    for round in 0..ROUNDS {
        for at in job.order(sides.len(), round) {
            let (contenders, tally) = &mut sides[at];
            let working = std::mem::take(contenders);
            *contenders = window(working, &shape, job.slice / 2, &job.clock, tally).await?;
        }
    }
    let mut samples = Vec::new();
    for (contenders, tally) in sides {
        super::close(contenders).await;
        samples.push((tally.cycles(), tally.into_latencies()));
    }
    Trial::of(samples)
}
