//! The scenarios: each times what a client sees, and its floor beside it in the same trial.

mod connections;
mod contended;
mod crowd;
mod failover;
mod handoff;
mod hold;
mod noop;
mod open_loop;
mod parallel;
mod process;
mod spread;
mod takeover;
mod turns;
mod uncontended;
mod waiting;
mod warm;

use std::sync::Arc;
use std::time::Duration;

use lockyard_api::Clock;
use lockyard_testbed::Server;

pub(crate) use failover::Crash;
pub(crate) use hold::hold;
pub use noop::NoopLock;
pub(crate) use turns::{TurnLog, turns};
pub(crate) use warm::warm;

use crate::floor::Floor;
use crate::report::{Connections, HoldCost};
use crate::side::{Contenders, Outcome, Side, Trouble};
use crate::stats::Latencies;
use crate::target::Target;
use crate::{Clients, Scenario};

/// What one side showed in one trial.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Sample {
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    /// The percentiles 90 and 99.9, where a chart shows them.
    pub(crate) tail_us: Option<(f64, f64)>,
    pub(crate) per_second: f64,
    pub(crate) jain: Option<f64>,
    pub(crate) max_wait_ms: Option<f64>,
    /// Until every contender had its turn once.
    pub(crate) mean_round_ms: Option<f64>,
    /// How often two held the name at once: never, or the lock is broken.
    pub(crate) overlaps: u64,
    /// Processor time of the process for one cycle.
    pub(crate) cpu_ns: Option<f64>,
    pub(crate) requests: Option<Requests>,
}

/// Requests a second that a server executed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Requests {
    pub(crate) work: f64,
    /// Pings, keep-alives and heartbeats of sessions.
    pub(crate) housekeeping: f64,
}

/// One trial of a cell.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Trial {
    pub(crate) ours: Sample,
    pub(crate) floor: Option<Sample>,
    /// The floor a second time: what differs here is noise.
    pub(crate) again: Option<Sample>,
    /// Another way to lock, with its name.
    pub(crate) beside: Option<(&'static str, Sample)>,
    /// What is neither a latency nor a rate.
    pub(crate) found: Option<Found>,
    /// The latencies of its sides.
    pub(crate) recordings: Vec<Recording>,
}

/// The latencies of one side in one trial.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Recording {
    pub(crate) side: &'static str,
    /// The histogram, as HDR V2.
    pub(crate) encoded: Vec<u8>,
    /// When the trial began, since the start of the machine, and how long it took.
    pub(crate) begin: Duration,
    pub(crate) lasted: Duration,
}

impl Recording {
    pub(crate) fn new(side: &'static str, latencies: &Latencies) -> Self {
        Self { side, encoded: latencies.encoded(), begin: Duration::ZERO, lasted: Duration::ZERO }
    }
}

/// What single scenarios find.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Found {
    HoldCost(HoldCost),
    Connections(Connections),
    /// From the fault to the next grant, and what is promised.
    Takeover {
        seconds: f64,
        bound_seconds: f64,
    },
    Failover(Crash),
}

impl Trial {
    /// What ours and perhaps the floor showed; an error when one of them had no turn at all, which is no latency of zero.
    pub(crate) fn of(sides: impl IntoIterator<Item = (Sample, Latencies)>) -> Outcome<Self> {
        let shown = |(sample, latencies): (Sample, Latencies)| {
            if latencies.count() == 0 { Err(nothing_measured()) } else { Ok((sample, latencies)) }
        };
        let mut sides = sides.into_iter().map(shown);
        let (ours, latencies) = sides.next().ok_or_else(nothing_measured)??;
        let mut trial = Self { recordings: vec![Recording::new("ours", &latencies)], ..Self::alone(ours) };
        if let Some((floor, latencies)) = sides.next().transpose()? {
            trial.recordings.push(Recording::new("floor", &latencies));
            trial.floor = Some(floor);
        }
        Ok(trial)
    }

    pub(crate) const fn alone(ours: Sample) -> Self {
        Self { ours, floor: None, again: None, beside: None, found: None, recordings: Vec::new() }
    }
}

/// How many cycles of `open_loop` can be under way at a time.
pub(crate) const OPEN_LOOP_TASKS: usize = 64;

/// One cell to be measured once.
pub(crate) struct Job {
    pub(crate) scenario: Scenario,
    pub(crate) kind: String,
    pub(crate) ours: Arc<dyn Side>,
    pub(crate) floor: Option<Arc<dyn Floor>>,
    /// How long a waiter may sleep before it looks again; zero for one that is told.
    pub(crate) poll: Duration,
    /// How long each side is measured.
    pub(crate) slice: Duration,
    /// A name that nothing else uses.
    pub(crate) name: String,
    /// Which trial it is: the order of the sides alternates with it.
    pub(crate) trial: usize,
    /// The server whose requests are counted.
    pub(crate) counting: Option<Arc<Server>>,
    pub(crate) clock: Clock,
    /// What is measured, for scenarios that need more of it than its clients.
    pub(crate) target: Option<Target>,
}

impl Job {
    pub(crate) async fn run(&self) -> Outcome<Trial> {
        let begin = self.clock.now();
        let mut trial = self.measure().await?;
        let lasted = self.clock.now().since(begin);
        for recording in &mut trial.recordings {
            (recording.begin, recording.lasted) = (begin.since_boot(), lasted);
        }
        Ok(trial)
    }

    async fn measure(&self) -> Outcome<Trial> {
        match self.scenario {
            Scenario::Noop => noop::run().await,
            Scenario::Uncontended(names, _) => uncontended::run(self, names).await,
            Scenario::Parallel(tasks) => parallel::run(self, tasks).await,
            Scenario::Contended(contenders, Clients::Spread(processes)) => {
                spread::contended(self, contenders, processes).await
            }
            Scenario::Contended(contenders, clients) => contended::run(self, contenders, clients).await,
            Scenario::Handoff => handoff::run(self).await,
            Scenario::OpenLoop(rate) => open_loop::run(self, rate).await,
            Scenario::WaitingCost(waiters, processes) => waiting::run(self, waiters, processes).await,
            Scenario::HoldCost(names) => hold::run(self, names).await,
            Scenario::Connections(names) => connections::run(self, names).await,
            Scenario::Takeover(fault) => takeover::run(self, fault).await,
            Scenario::Failover => failover::run(self).await,
        }
    }

    /// The sides of this job in the order of one round: forth and back, so that drift hits both alike.
    fn order(&self, sides: usize, round: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..sides).collect();
        order.rotate_left(self.trial % sides.max(1));
        if round % 2 == 1 {
            order.reverse();
        }
        order
    }
}

pub(crate) async fn close(contenders: Contenders) {
    for contender in contenders {
        contender.close().await;
    }
}

fn no_target() -> Trouble {
    Trouble::new("there is no backend")
}

fn no_worker() -> Trouble {
    Trouble::new("there is no program that could be started as another process")
}

fn nothing_measured() -> Trouble {
    Trouble::new("nothing was measured in the time given")
}
