//! Many contenders at once, for a window of time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use lockyard_api::{Clock, Moment};
use tokio::task::JoinSet;

use super::{Sample, TurnLog};
use crate::side::{Contender, Contenders, Outcome, Trouble};
use crate::stats::{self, Latencies, from_u64};

/// What the contenders of a window do.
#[derive(Clone)]
pub(super) enum Shape {
    /// A name each; whole cycles are timed.
    Apart(Arc<str>),
    /// One name for all; waits are timed, and a referee looks on.
    Together(Arc<str>, Arc<Referee>),
    /// One name for all, here and in other processes; every turn is logged.
    Logged(Arc<str>, Arc<TurnLog>),
}

/// Who held the name: counts hand-overs, and catches two at once.
#[derive(Debug)]
pub(super) struct Referee {
    last: AtomicUsize,
    inside: AtomicBool,
    hand_overs: AtomicU64,
    overlaps: AtomicU64,
}

impl Referee {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            last: AtomicUsize::new(usize::MAX),
            inside: AtomicBool::new(false),
            hand_overs: AtomicU64::new(0),
            overlaps: AtomicU64::new(0),
        })
    }

    /// A contender holds the name now; `counts` when it is measured.
    fn enter(&self, contender: usize, counts: bool) {
        if self.inside.swap(true, Ordering::SeqCst) {
            self.overlaps.fetch_add(1, Ordering::SeqCst);
        }
        let before = self.last.swap(contender, Ordering::SeqCst);
        if before != contender && before != usize::MAX && counts {
            self.hand_overs.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn leave(&self) {
        self.inside.store(false, Ordering::SeqCst);
    }
}

/// What a side showed in its windows.
pub(super) struct Tally {
    latencies: Latencies,
    /// How many cycles each contender had.
    shares: Vec<u64>,
    elapsed: Duration,
    hand_overs: u64,
    overlaps: u64,
}

impl Tally {
    pub(super) fn new(contenders: usize) -> Self {
        let (latencies, shares) = (Latencies::new(), vec![0; contenders]);
        Self { latencies, shares, elapsed: Duration::ZERO, hand_overs: 0, overlaps: 0 }
    }

    pub(super) fn into_latencies(self) -> Latencies {
        self.latencies
    }

    /// The sample of contenders apart: cycles a second.
    pub(super) fn cycles(&self) -> Sample {
        Sample { per_second: self.rate(self.shares.iter().sum()), ..self.times() }
    }

    /// The sample of contenders together: hand-overs a second; of one alone, whom nobody follows, acquisitions.
    pub(super) fn hand_overs(&self) -> Sample {
        let alone = self.shares.len() == 1;
        let count = if alone { self.shares.iter().sum() } else { self.hand_overs };
        Sample {
            per_second: self.rate(count),
            jain: if alone { None } else { stats::jain(&self.shares) },
            max_wait_ms: Some(self.latencies.max_millis()),
            mean_round_ms: self.mean_round(),
            overlaps: self.overlaps,
            ..self.times()
        }
    }

    fn times(&self) -> Sample {
        let (p50_us, p99_us) = (self.latencies.micros(0.5), self.latencies.micros(0.99));
        Sample { p50_us, p99_us, ..Sample::default() }
    }

    /// How long it takes until everybody had a turn, in ms.
    fn mean_round(&self) -> Option<f64> {
        let all: u64 = self.shares.iter().sum();
        (all > 0).then(|| stats::as_f64(self.shares.len()) * self.elapsed.as_secs_f64() * 1e3 / from_u64(all))
    }

    fn rate(&self, count: u64) -> f64 {
        from_u64(count) / self.elapsed.as_secs_f64().max(1e-9)
    }
}

/// When a window counts.
#[derive(Clone, Copy)]
pub(super) struct Window {
    pub(super) begin: Moment,
    pub(super) end: Moment,
}

/// Lets all contenders work for a window and adds what was seen to the tally. The contenders come back.
pub(super) async fn window(
    contenders: Contenders,
    shape: &Shape,
    during: Duration,
    clock: &Clock,
    tally: &mut Tally,
) -> Outcome<Contenders> {
    let begin = clock.now().plus(during / 10);
    window_of(contenders, shape, Window { begin, end: begin.plus(during) }, clock, tally).await
}

/// The same from now on, counting what falls into the window.
pub(super) async fn window_of(
    contenders: Contenders,
    shape: &Shape,
    window: Window,
    clock: &Clock,
    tally: &mut Tally,
) -> Outcome<Contenders> {
    let mut tasks = JoinSet::new();
    for (at, contender) in contenders.into_iter().enumerate() {
        let (shape, clock) = (shape.clone(), clock.clone());
        tasks.spawn(async move { (at, work(contender, at, &shape, window, &clock).await) });
    }
    let mut back: Vec<(usize, Box<dyn Contender>)> = Vec::new();
    let mut trouble = None;
    while let Some(done) = tasks.join_next().await {
        match done? {
            (at, Ok((contender, latencies))) => {
                tally.shares[at] += latencies.count();
                tally.latencies.add(&latencies);
                back.push((at, contender));
            }
            (_, Err(error)) => trouble = trouble.or(Some(error)),
        }
    }
    if let Some(error) = trouble {
        return Err(error);
    }
    tally.elapsed += window.end.since(window.begin);
    if let Shape::Together(_, referee) = shape {
        tally.hand_overs += referee.hand_overs.swap(0, Ordering::SeqCst);
        tally.overlaps += referee.overlaps.swap(0, Ordering::SeqCst);
    }
    back.sort_by_key(|(at, _)| *at);
    Ok(back.into_iter().map(|(_, contender)| contender).collect())
}

/// The name of one that works apart.
pub(super) fn name_apart(name: &str, at: usize) -> String {
    format!("{name}-{at}")
}

type Worked = Result<(Box<dyn Contender>, Latencies), Trouble>;

async fn work(mut contender: Box<dyn Contender>, at: usize, shape: &Shape, window: Window, clock: &Clock) -> Worked {
    let mut latencies = Latencies::new();
    let name = match shape {
        Shape::Apart(name) => name_apart(name, at),
        Shape::Together(name, _) | Shape::Logged(name, _) => name.to_string(),
    };
    loop {
        let start = clock.now();
        if start >= window.end {
            return Ok((contender, latencies));
        }
        contender.acquire(&name).await?;
        let mut done = clock.now();
        let mut counts = done >= window.begin && done < window.end;
        match shape {
            Shape::Together(_, referee) => {
                referee.enter(at, counts);
                referee.leave();
            }
            Shape::Logged(_, log) => log.add(at, start, done, clock.now()),
            Shape::Apart(_) => {}
        }
        contender.release(&name).await?;
        if let Shape::Apart(_) = shape {
            done = clock.now();
            counts = done >= window.begin && done < window.end;
        }
        if counts {
            latencies.record(done.since(start));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_referee_counts_changes_and_catches_two_at_once() {
        let referee = Referee::new();
        for contender in [0, 0, 1, 0] {
            referee.enter(contender, true);
            referee.leave();
        }
        assert_eq!(referee.hand_overs.load(Ordering::SeqCst), 2);
        assert_eq!(referee.overlaps.load(Ordering::SeqCst), 0);
        referee.enter(0, true);
        referee.enter(1, false);
        assert_eq!(referee.overlaps.load(Ordering::SeqCst), 1);
        assert_eq!(referee.hand_overs.load(Ordering::SeqCst), 2, "what is not measured does not count");
    }

    #[test]
    fn one_alone_has_acquisitions_and_no_fairness() {
        let mut tally = Tally::new(1);
        tally.shares[0] = 10;
        tally.elapsed = Duration::from_secs(2);
        assert_eq!((tally.hand_overs().per_second, tally.hand_overs().jain), (5.0, None));
        let mut tally = Tally::new(2);
        (tally.shares, tally.hand_overs, tally.elapsed) = (vec![4, 4], 3, Duration::from_secs(1));
        assert_eq!((tally.hand_overs().per_second, tally.hand_overs().jain), (3.0, Some(1.0)));
        assert_eq!((tally.cycles().per_second, tally.hand_overs().mean_round_ms), (8.0, Some(250.0)));
    }
}
