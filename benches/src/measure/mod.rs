//! The scenarios: each times what a client sees, and its floor beside it in the same trial.

mod contended;
mod crowd;
mod handoff;
mod noop;
mod parallel;
mod uncontended;
mod waiting;

use std::sync::Arc;
use std::time::Duration;

use lockyard_api::Clock;
use lockyard_testbed::Server;

pub use noop::NoopLock;

use crate::Scenario;
use crate::floor::Floor;
use crate::side::{Contenders, Outcome, Side, Trouble};

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
}

impl Trial {
    pub(crate) const fn alone(ours: Sample) -> Self {
        Self { ours, floor: None, again: None, beside: None }
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
    /// How long each side is measured.
    pub(crate) slice: Duration,
    /// A name that nothing else uses.
    pub(crate) name: String,
    /// Which trial it is: the order of the sides alternates with it.
    pub(crate) trial: usize,
    /// The server whose requests are counted.
    pub(crate) counting: Option<Arc<Server>>,
    pub(crate) clock: Clock,
}

impl Job {
    pub(crate) async fn run(&self) -> Outcome<Trial> {
        match self.scenario {
            Scenario::Noop => noop::run().await,
            Scenario::Uncontended(names, _) => uncontended::run(self, names).await,
            Scenario::Parallel(tasks) => parallel::run(self, tasks).await,
            Scenario::Contended(contenders, clients) => contended::run(self, contenders, clients).await,
            Scenario::Handoff => handoff::run(self).await,
            Scenario::WaitingCost(waiters, 1) => waiting::run(self, waiters).await,
            _ => Err(Trouble::new("there is no such scenario here")),
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

async fn close(contenders: Contenders) {
    for contender in contenders {
        contender.close().await;
    }
}

fn nothing_measured() -> Trouble {
    Trouble::new("nothing was measured in the time given")
}
