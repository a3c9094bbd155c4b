//! One run: a workload under faults, then the same names with all faults off, then the check.

use std::sync::Arc;
use std::time::Duration;

use lockyard::Clock;
use lockyard_conformance::history::History;
use lockyard_conformance::{NoHarness, scaled};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::super::targets::Candidate;
use super::faults;
use super::outcome::Outcome;
use super::plan::Shape;
use super::site::Site;
use super::stage::Stage;
use super::work::{Worker, name_of};

/// How long a client may take to give everything back and end.
const FAREWELL: Duration = Duration::from_secs(20);

pub(super) async fn run(
    candidate: &Candidate,
    shape: &Shape,
    allow_faults: bool,
) -> Result<(Outcome, History), NoHarness> {
    let clock = Clock::system();
    let begin = clock.now();
    let site = Site::of(candidate, shape.ttl, allow_faults).await?;
    let planned = shape.faults(&site.offered);
    let set = Stage::set(site, shape.clients).await;
    let (stage, ears) = set.map_err(|error| NoHarness::failed(format!("no client: {error}")))?;
    let stage = Arc::new(stage);
    let workers = ears.into_iter().enumerate().map(|(slot, ear)| Worker::new(&stage, slot, shape, ear)).collect();
    let (mut workers, not_made) = under_faults(&stage, workers, planned, shape.duration).await;
    let (recovered, stuck) = recover(&stage, &mut workers, shape.names).await;
    let mut hangs: Vec<String> = workers.iter_mut().flat_map(|worker| std::mem::take(&mut worker.hangs)).collect();
    let operations = workers.iter().map(|worker| worker.operations).sum();
    hangs.extend(end(&stage).await);
    let left = left_behind(&stage.site, shape.names).await;
    let mut history = History::new(stage.site.rules.clone());
    (history.events, history.faults) = stage.record.all();
    let mut outcome = Outcome::of(&history);
    (outcome.operations, outcome.recovered, outcome.took) = (operations, recovered, clock.now().since(begin));
    (outcome.stuck, outcome.hangs, outcome.left, outcome.not_made) = (stuck, hangs, left, not_made);
    if let Err(error) = stage.site.clean().await {
        outcome.not_made.push(format!("what was left could not be removed: {error}"));
    }
    Ok((outcome, history))
}

/// The workload under faults; the workers are returned when the last fault is over.
async fn under_faults(
    stage: &Arc<Stage>,
    workers: Vec<Worker>,
    planned: Vec<super::plan::Planned>,
    duration: Duration,
) -> (Vec<Worker>, Vec<String>) {
    let (stop, stopped) = watch::channel(false);
    let mut working = JoinSet::new();
    for worker in workers {
        working.spawn(worker.work(stopped.clone()));
    }
    let not_made = faults::make_all(stage, planned, duration).await;
    stop.send_replace(true);
    (working.join_all().await, not_made)
}

/// With all faults off, every client gets every name again: how long the slowest took, and who did not.
async fn recover(stage: &Arc<Stage>, workers: &mut Vec<Worker>, names: usize) -> (Duration, Vec<String>) {
    let limit = stage.site.recovery();
    let (mut longest, mut stuck) = (Duration::ZERO, Vec::new());
    for name in (0..names).map(name_of) {
        let mut taking = JoinSet::new();
        for mut worker in workers.drain(..) {
            let name = name.clone();
            taking.spawn(async move {
                let took = worker.take(&name, limit).await;
                (worker, took)
            });
        }
        for (worker, took) in taking.join_all().await {
            workers.push(worker);
            match took {
                Ok(took) => longest = longest.max(took),
                Err(reason) => stuck.push(reason),
            }
        }
    }
    (longest, stuck)
}

/// Ends the clients, and waits until all that they said was heard.
async fn end(stage: &Stage) -> Vec<String> {
    let mut hangs = Vec::new();
    for (slot, it) in stage.slots.iter().enumerate() {
        let ended = tokio::time::timeout(scaled(FAREWELL), async { it.puppet.lock().await.end().await }).await;
        match ended {
            Ok(Ok(true)) => {}
            Ok(_) => hangs.push(format!("client {slot} did not end in order")),
            Err(_) => hangs.push(format!("client {slot} did not end within {FAREWELL:?}")),
        }
    }
    let all_heard = async {
        while stage.record.ended() < stage.slots.len() {
            Clock::system().sleep(Duration::from_millis(5)).await;
        }
    };
    let _those_that_hang = tokio::time::timeout(scaled(Duration::from_secs(5)), all_heard).await;
    hangs
}

/// The names on which the server still has a claim when all leases must have ended.
async fn left_behind(site: &Site, names: usize) -> Vec<String> {
    let mut left = Vec::new();
    for name in (0..names).map(name_of) {
        let empty = async {
            // What cannot be counted is not.
            while site.entries(&name).await.is_some_and(|entries| entries > 0) {
                Clock::system().sleep(Duration::from_millis(50)).await;
            }
        };
        let limit = site.recovery();
        if tokio::time::timeout(limit, empty).await.is_err() {
            left.push(format!("a claim on {name} is on the server {limit:?} after its last client ended"));
        }
    }
    left
}
