//! Turns of contenders in several processes: who held the name, from when to when.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lockyard_api::{Clock, Moment};

use super::Sample;
use super::crowd::{Shape, Tally, Window};
use crate::side::{Contenders, Outcome};
use crate::stats::{self, Latencies, as_f64, from_u64};
use crate::worker::Turn;

/// The turns of the contenders of one process.
#[derive(Debug)]
pub(crate) struct TurnLog {
    first: usize,
    turns: Mutex<Vec<Turn>>,
}

impl TurnLog {
    /// A log whose contenders are numbered from `first` on.
    pub(crate) fn new(first: usize) -> Arc<Self> {
        Arc::new(Self { first, turns: Mutex::default() })
    }

    pub(super) fn add(&self, contender: usize, asked: Moment, entered: Moment, left: Moment) {
        let [asked, entered, left] = [asked, entered, left].map(nanos);
        let turn = Turn { contender: self.first + contender, asked, entered, left };
        self.turns.lock().unwrap_or_else(PoisonError::into_inner).push(turn);
    }

    pub(crate) fn take(&self) -> Vec<Turn> {
        std::mem::take(&mut *self.turns.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A moment as workers tell it.
pub(super) fn nanos(moment: Moment) -> u64 {
    u64::try_from(moment.since_boot().as_nanos()).unwrap_or(u64::MAX)
}

/// Lets the contenders work from `begin` on and logs their turns.
pub(crate) async fn turns(
    contenders: Contenders,
    name: &str,
    log: Arc<TurnLog>,
    begin: Moment,
    during: Duration,
    clock: &Clock,
) -> Outcome<Contenders> {
    let mut tally = Tally::new(contenders.len());
    clock.sleep_until(begin).await;
    let window = Window { begin, end: begin.plus(during) };
    super::crowd::window_of(contenders, &Shape::Logged(name.into(), log), window, clock, &mut tally).await
}

/// What the turns of all processes in `[begin, end)` say about so many contenders.
pub(super) fn sample(mut turns: Vec<Turn>, contenders: usize, begin: u64, end: u64) -> (Sample, Latencies) {
    turns.sort_by_key(|turn| turn.entered);
    let overlaps = turns.windows(2).filter(|pair| pair[1].entered < pair[0].left).count() as u64;
    let (mut waits, mut shares, mut hand_overs) = (Latencies::new(), vec![0; contenders], 0_u64);
    let mut before = None;
    for turn in &turns {
        let counts = (begin..end).contains(&turn.entered);
        if counts {
            waits.record(Duration::from_nanos(turn.entered.saturating_sub(turn.asked)));
            if let Some(share) = shares.get_mut(turn.contender) {
                *share += 1;
            }
            hand_overs += u64::from(before.is_some_and(|before| before != turn.contender));
        }
        before = Some(turn.contender);
    }
    let seconds = Duration::from_nanos(end.saturating_sub(begin)).as_secs_f64().max(1e-9);
    let all: u64 = shares.iter().sum();
    let sample = Sample {
        p50_us: waits.micros(0.5),
        p99_us: waits.micros(0.99),
        per_second: from_u64(hand_overs) / seconds,
        jain: stats::jain(&shares),
        max_wait_ms: Some(waits.max_millis()),
        mean_round_ms: (all > 0).then(|| as_f64(contenders) * seconds * 1e3 / from_u64(all)),
        overlaps,
        ..Sample::default()
    };
    (sample, waits)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn turn(contender: usize, asked: u64, entered: u64, left: u64) -> Turn {
        Turn { contender, asked: asked * MS, entered: entered * MS, left: left * MS }
    }

    #[test]
    fn turns_of_several_processes_are_put_in_order() {
        // One process had contender 0, the other 1 and 2; the first turn is before the window.
        let turns = vec![
            turn(0, 0, 5, 6),
            turn(0, 20, 22, 24),
            turn(1, 0, 10, 12),
            turn(2, 0, 12, 14),
            turn(1, 14, 16, 18),
            turn(1, 18, 18, 20),
        ];
        let (sample, _) = sample(turns, 3, 10 * MS, 110 * MS);
        assert_eq!(sample.overlaps, 0);
        assert!((sample.per_second - 40.0).abs() < 1e-9, "4 changes in 0.1 s: {sample:?}");
        assert!((sample.mean_round_ms.expect("turns") - 60.0).abs() < 1e-9, "3 contenders, 5 turns in 100 ms");
        assert!((sample.max_wait_ms.expect("waits") - 12.0).abs() < 0.1, "{sample:?}");
        assert_eq!(sample.jain, stats::jain(&[1, 3, 1]));
    }

    #[test]
    fn two_at_once_are_seen_across_processes() {
        let turns = vec![turn(0, 0, 1, 5), turn(1, 0, 4, 6)];
        assert_eq!(sample(turns, 2, 0, 10 * MS).0.overlaps, 1);
    }
}
