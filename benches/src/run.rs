//! Runs a plan.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use lockyard_api::{Clock, Moment};

use crate::environment::{self, Environment};
use crate::floor::{self, Floor};
use crate::measure::{Job, Trial};
use crate::report::Backend;
use crate::side::{Ours, Outcome, Side, Trouble};
use crate::spinners::Spinners;
use crate::target::Connect;
use crate::{Machine, Plan, Progress, Scenario, Target};

/// How often the wish to end is looked at.
const LOOK: Duration = Duration::from_millis(100);
/// A cell that fails so often is not tried again.
const PATIENCE: usize = 2;

/// What a run has measured, before any arithmetic.
#[derive(Debug)]
#[non_exhaustive]
pub struct Measured {
    /// The seed of the plan.
    pub seed: u64,
    /// The machine.
    pub env: Environment,
    /// The backends that could be reached.
    pub backends: Vec<Backend>,
    /// Those that could not: id and reason.
    pub unreachable: Vec<(String, String)>,
    /// Whether it was ended before all was measured.
    pub cancelled: bool,
    /// When it began.
    pub(crate) started: Moment,
    pub(crate) cells: Vec<Cell>,
}

/// One scenario on one backend: all its trials.
#[derive(Debug)]
pub(crate) struct Cell {
    pub(crate) scenario: Scenario,
    pub(crate) backend: String,
    pub(crate) trials: Vec<Trial>,
    /// Why trials are missing.
    pub(crate) troubles: Vec<String>,
    /// Why there is no floor, where one was wanted.
    pub(crate) no_floor: Option<String>,
    /// Why it makes no sense here.
    pub(crate) refusal: Option<String>,
}

impl Cell {
    fn is_hopeless(&self) -> bool {
        self.refusal.is_some() || self.troubles.len() >= PATIENCE
    }

    fn take(&mut self, outcome: Outcome<Trial>, progress: &dyn Progress) {
        match outcome {
            Ok(trial) => self.trials.push(trial),
            Err(error) => {
                progress.trouble(&format!("{self}: {error}"));
                self.troubles.push(error.to_string());
            }
        }
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.backend, self.scenario)
    }
}

/// A target that answered, with its floor.
struct Runner {
    target: Target,
    floor: Option<Arc<dyn Floor>>,
    no_floor: Option<String>,
    rival: Option<Rival>,
}

/// A lock of somebody else, in the place of ours.
struct Rival {
    side: Arc<dyn Side>,
    /// The same on the server that counts.
    counted: Option<Arc<dyn Side>>,
    /// How long its waiters may sleep before they look again.
    poll: Duration,
    runs: fn(Scenario) -> bool,
}

impl Runner {
    fn runs(&self, scenario: Scenario) -> bool {
        self.target.runs(scenario) && self.rival.as_ref().is_none_or(|rival| (rival.runs)(scenario))
    }
}

/// Measures the plan on the targets: trial by trial, the backends of each scenario in a seeded random order.
///
/// Runs inside a multi-threaded tokio runtime. Every cell has a time limit; one that fails is told to `progress` and kept as
/// missing, with its reason.
///
/// # Cancel safety
/// Dropped, it keeps nothing of what it measured; use [`Progress::cancelled`] to end early. What was acquired ends with its
/// lease.
pub async fn run(plan: &Plan, targets: &[Target], progress: &dyn Progress) -> Measured {
    let mut measured = Measured {
        seed: plan.seed,
        env: Environment::here(),
        backends: Vec::new(),
        unreachable: Vec::new(),
        cancelled: false,
        started: Clock::system().now(),
        cells: Vec::new(),
    };
    let mut runners = meet(targets, &mut measured, progress).await;
    let rivals = rivals(plan, &runners, &mut measured);
    runners.extend(rivals);
    measured.cells = cells(plan, &runners);
    let order = order(plan, &measured.cells);
    let of = order.len();
    let (trials, waiting): (Vec<_>, Vec<_>) =
        order.into_iter().partition(|(at, _)| !measured.cells[*at].scenario.mostly_waits());
    let (crashes, waiting): (Vec<_>, Vec<_>) =
        waiting.into_iter().partition(|(at, _)| measured.cells[*at].scenario == Scenario::Failover);
    one_by_one(plan, &runners, &mut measured, &trials, of, progress).await;
    if !measured.cancelled {
        progress.step(trials.len(), of, "what mostly waits, on all servers");
        side_by_side(plan, &runners, &mut measured, &waiting, progress).await;
    }
    // A rival has the floor of ours.
    for floor in runners.iter().filter(|runner| runner.rival.is_none()).filter_map(|runner| runner.floor.as_ref()) {
        if let Err(error) = floor.finish().await {
            progress.trouble(&format!("leftovers of the floor: {error}"));
        }
    }
    // Last: afterwards no connection of before is good for anything.
    if !measured.cancelled {
        progress.step(of - crashes.len(), of, "crashes of the servers");
        side_by_side(plan, &runners, &mut measured, &crashes, progress).await;
    }
    progress.step(of, of, "done");
    measured
}

/// Opens one client of each target and asks what it promises.
async fn meet(targets: &[Target], measured: &mut Measured, progress: &dyn Progress) -> Vec<Runner> {
    let mut runners = Vec::new();
    for target in targets {
        let limit = Duration::from_secs(15);
        let opened = tokio::time::timeout(limit, (target.connect)()).await;
        let lock = match opened {
            Ok(Ok(lock)) => lock,
            Ok(Err(error)) => {
                progress.trouble(&format!("{}: {error}", target.id));
                measured.unreachable.push((target.id.clone(), error.to_string()));
                continue;
            }
            Err(_) => {
                measured.unreachable.push((target.id.clone(), format!("no answer within {limit:?}")));
                continue;
            }
        };
        let (floor, no_floor) = match floor::of(target) {
            Ok(floor) => (floor, None),
            Err(error) => (None, Some(error.to_string())),
        };
        let settings = match &floor {
            Some(floor) => tokio::time::timeout(limit, floor.settings()).await.ok().and_then(Result::ok),
            None => None,
        };
        let mut backend = Backend::of(target, &lock.capabilities(), settings.unwrap_or_default());
        backend.round_trip_us = round_trip(target).await;
        measured.backends.push(backend);
        runners.push(Runner { target: target.clone(), floor, no_floor, rival: None });
    }
    runners
}

/// Without a server there is none.
async fn round_trip(target: &Target) -> Option<f64> {
    let port = match target.kind.as_str() {
        "redis" => 6379,
        "postgres" => 5432,
        "etcd" => 2379,
        "zookeeper" => 2181,
        _ => return None,
    };
    let (url, _) = target.parsed().ok()?;
    environment::round_trip_us(&url.hosts, port, &Clock::system()).await
}

/// The peers on the servers of those that answered. A quick run goes without.
#[cfg(feature = "peers")]
fn rivals(plan: &Plan, runners: &[Runner], measured: &mut Measured) -> Vec<Runner> {
    let mut rivals = Vec::new();
    for runner in runners.iter().filter(|_| plan.suite != crate::Suite::Quick) {
        for (peer, server) in crate::peer::of(&runner.target) {
            measured.backends.push(peer.backend(&runner.target));
            let counted = runner.target.counted.as_ref().map(|counted| (peer.side)(&counted.server));
            rivals.push(Runner {
                target: Target { id: peer.id.to_owned(), mode: "peer".to_owned(), ..runner.target.clone() },
                floor: runner.floor.clone(),
                no_floor: runner.no_floor.clone(),
                rival: Some(Rival {
                    side: (peer.side)(&server),
                    counted,
                    poll: peer.poll,
                    runs: crate::peer::Peer::runs,
                }),
            });
        }
    }
    rivals
}

#[cfg(not(feature = "peers"))]
const fn rivals(_plan: &Plan, _runners: &[Runner], _measured: &mut Measured) -> Vec<Runner> {
    Vec::new()
}

fn cells(plan: &Plan, runners: &[Runner]) -> Vec<Cell> {
    let empty = |scenario, backend: &str, no_floor: Option<&String>| {
        let (backend, no_floor) = (backend.to_owned(), no_floor.cloned());
        Cell { scenario, backend, trials: Vec::new(), troubles: Vec::new(), no_floor, refusal: None }
    };
    let mut cells = Vec::new();
    for scenario in plan.scenarios() {
        if scenario == Scenario::Noop {
            cells.push(empty(scenario, "noop", None));
        }
        let here = runners.iter().filter(|runner| runner.runs(scenario));
        cells.extend(here.map(|runner| Cell {
            refusal: runner.target.refusal(scenario),
            ..empty(scenario, &runner.target.id, runner.no_floor.as_ref())
        }));
    }
    cells
}

/// The cells with the number of the trial, in the order of measuring.
fn order(plan: &Plan, cells: &[Cell]) -> Vec<(usize, usize)> {
    let mut random = fastrand::Rng::with_seed(plan.seed);
    let mut order = Vec::new();
    for trial in 0..plan.trials.max(1) {
        for scenario in plan.scenarios() {
            let wanted = trial < plan.trials_of(scenario);
            let mut turn: Vec<usize> =
                (0..cells.len()).filter(|at| wanted && cells[*at].scenario == scenario).collect();
            random.shuffle(&mut turn);
            order.extend(turn.into_iter().map(|at| (at, trial)));
        }
    }
    order
}

/// Runs the trials of the cells one after the other.
async fn one_by_one(
    plan: &Plan,
    runners: &[Runner],
    measured: &mut Measured,
    trials: &[(usize, usize)],
    of: usize,
    progress: &dyn Progress,
) {
    for (done, (at, trial)) in trials.iter().enumerate() {
        let cell = &mut measured.cells[*at];
        progress.step(done, of, &cell.to_string());
        if cell.is_hopeless() {
            continue;
        }
        let Some((job, _)) = job(plan, cell, *trial, runners) else { continue };
        match guarded(job, progress).await {
            Some(outcome) => cell.take(outcome, progress),
            None => {
                measured.cancelled = true;
                return;
            }
        }
    }
}

/// Measures on several servers at once, on each for one backend at a time: what mostly waits takes little processor, and one
/// after the other would take many minutes.
async fn side_by_side(
    plan: &Plan,
    runners: &[Runner],
    measured: &mut Measured,
    waiting: &[(usize, usize)],
    progress: &dyn Progress,
) {
    let prepared = waiting.iter().filter(|(at, _)| !measured.cells[*at].is_hopeless()).filter_map(|(at, trial)| {
        let (job, server) = job(plan, &measured.cells[*at], *trial, runners)?;
        Some((*at, server, job))
    });
    let mut jobs: Vec<(usize, usize, Job)> = prepared.collect();
    let mut lines = Vec::new();
    while let Some((_, server, _)) = jobs.first() {
        let server = *server;
        let line: Vec<_> = jobs.extract_if(.., |(_, other, _)| *other == server).collect();
        lines.push(async move {
            let mut done = Vec::new();
            for (at, _, job) in line {
                done.push((at, guarded(job, progress).await));
            }
            done
        });
    }
    for (at, outcome) in join_all(lines).await.into_iter().flatten() {
        match outcome {
            Some(outcome) => measured.cells[at].take(outcome, progress),
            None => measured.cancelled = true,
        }
    }
}

/// The job of a cell, and a number that is the same for the same server.
fn job(plan: &Plan, cell: &Cell, trial: usize, runners: &[Runner]) -> Option<(Job, usize)> {
    let scenario = cell.scenario;
    let runner = runners.iter().find(|runner| runner.target.id == cell.backend);
    let counted = match scenario {
        Scenario::WaitingCost(..) => runner.and_then(|runner| runner.target.counted.as_ref()),
        _ => None,
    };
    let connect: Connect = match (counted, runner) {
        (Some(counted), _) => Arc::clone(&counted.connect),
        (None, Some(runner)) => Arc::clone(&runner.target.connect),
        (None, None) if scenario == Scenario::Noop => {
            Arc::new(|| Box::pin(async { Err(lockyard_api::Error::unsupported("there is no backend")) }))
        }
        (None, None) => return None,
    };
    let server = runner.and_then(|runner| runner.target.server.clone());
    let counting = counted.map(|counted| Arc::clone(&counted.server)).or(server);
    let number = counting.as_ref().map_or(0, |server| Arc::as_ptr(server).addr());
    let rival = runner.and_then(|runner| runner.rival.as_ref());
    let ours: Arc<dyn Side> = match rival {
        Some(rival) => Arc::clone(rival.counted.as_ref().filter(|_| counted.is_some()).unwrap_or(&rival.side)),
        None => Arc::new(Ours::new(&connect)),
    };
    let job = Job {
        scenario,
        kind: runner.map(|runner| runner.target.kind.clone()).unwrap_or_default(),
        ours,
        poll: rival.map(|rival| rival.poll).unwrap_or_default(),
        floor: runner.and_then(|runner| runner.floor.clone()),
        slice: plan.slice_of(scenario),
        // New in every run, whatever the seed: a joined server may keep something of the last one.
        name: format!("{}-{:08x}", scenario.id().replace('_', "-"), fastrand::u32(..)),
        trial,
        counting,
        clock: Clock::system(),
        target: runner.map(|runner| runner.target.clone()),
    };
    Some((job, number))
}

/// Runs a job on a task of its own, as users do, with a time limit. `None` when the run is to end.
async fn guarded(job: Job, progress: &dyn Progress) -> Option<Outcome<Trial>> {
    let clock = job.clock.clone();
    let names = match job.scenario {
        Scenario::HoldCost(names) | Scenario::Connections(names) => u32::try_from(names).unwrap_or(u32::MAX),
        _ => 0,
    };
    let limit = job.slice * 12 + Duration::from_secs(60) + Duration::from_millis(20) * names;
    let end = clock.now().plus(limit);
    let spinners = match job.scenario {
        Scenario::Uncontended(_, Machine::Awake) => match Spinners::start() {
            Ok(spinners) => Some(spinners),
            Err(error) => return Some(Err(error)),
        },
        _ => None,
    };
    let mut task = tokio::spawn(async move { job.run().await });
    let outcome = loop {
        if let Ok(done) = tokio::time::timeout(LOOK, &mut task).await {
            break Some(done.unwrap_or_else(|error| Err(Trouble::new(format!("the measurement ended: {error}")))));
        }
        if progress.cancelled() {
            task.abort();
            break None;
        }
        if clock.now() > end {
            task.abort();
            break Some(Err(Trouble::new(format!("no result within {} s", limit.as_secs()))));
        }
    };
    drop(spinners);
    outcome
}
