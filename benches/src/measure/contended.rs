//! `contended`: many contenders on one name.

use std::time::Duration;

use super::crowd::{Referee, Shape, Tally, window};
use super::warm::{warm, window_of_rounds};
use super::{Job, Trial};
use crate::Clients;
use crate::side::Outcome;

/// Windows of each side in a trial, one after the other in turn.
const ROUNDS: usize = 2;

pub(super) async fn run(job: &Job, contenders: usize, clients: Clients) -> Outcome<Trial> {
    let ours = match clients {
        Clients::Own => job.ours.own(contenders).await?,
        Clients::Unqueued => job.ours.unqueued(contenders).await?,
        Clients::Cohort => job.ours.cohort(contenders).await?,
        _ => job.ours.shared(contenders).await?,
    };
    let mut sides = vec![(ours, Tally::new(contenders))];
    // A driver has no local queue: there is nothing to compare tasks of one client with.
    if let (Some(floor), Clients::Own) = (&job.floor, clients) {
        sides.push((floor.own(contenders).await?, Tally::new(contenders)));
    }
    let mut slowest = Duration::ZERO;
    for (contenders, _) in &mut sides {
        let (warmed, round) = warm(std::mem::take(contenders), &job.name, &job.clock).await?;
        (*contenders, slowest) = (warmed, slowest.max(round));
    }
    let during = window_of_rounds(job.slice / 2, slowest);
    for round in 0..ROUNDS {
        for at in job.order(sides.len(), round) {
            let (contenders, tally) = &mut sides[at];
            let shape = Shape::Together(job.name.as_str().into(), Referee::new());
            let working = std::mem::take(contenders);
            *contenders = window(working, &shape, during, &job.clock, tally).await?;
        }
    }
    let mut samples = Vec::new();
    for (contenders, tally) in sides {
        super::close(contenders).await;
        samples.push((tally.hand_overs(), tally.into_latencies()));
    }
    Trial::of(samples)
}
