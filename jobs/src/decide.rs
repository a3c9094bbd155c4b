//! Whether a slot is run, by what the record says: pure, under the lock.

use std::time::Duration;

use crate::record::{Record, Run, Status};
use crate::{Misfire, OnCrash, Skipped, Ticks, WallTime};

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// The slot of a tick.
    Slot(WallTime),
    /// The run that somebody has asked for by hand, if it is still wanted.
    Trigger,
}

/// The rules of the job.
#[derive(Debug)]
pub(crate) struct Rules<'a> {
    pub(crate) ticks: &'a Ticks,
    pub(crate) misfire: Misfire,
    pub(crate) on_crash: OnCrash,
    /// How much later than its tick a run begins on purpose.
    pub(crate) delay: Duration,
    /// Whether the record's `not_before` counts: where the server keeps no marker for it.
    pub(crate) heeds_record: bool,
}

/// What to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Run this slot.
    Run(Plan),
    /// Run nothing.
    Skip(Skipped),
    /// Run nothing, and write down that this slot is over.
    Miss { slot: WallTime },
}

/// A run about to be claimed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) slot: WallTime,
    pub(crate) attempt: u32,
    pub(crate) triggered: bool,
    /// The slots before it that nobody has run: the first, and how many.
    pub(crate) missed: Option<(WallTime, u64)>,
    /// The run that was never finished.
    pub(crate) crashed: Option<Run>,
}

impl Rules<'_> {
    /// Most slots that are counted as missed.
    const MOST_COUNTED: u64 = 10_000;

    /// `called` is when it was asked for, `now` when the lock was had.
    pub(crate) fn decide(&self, record: &Record, wanted: Wanted, called: WallTime, now: WallTime) -> Decision {
        // The lock is ours: whoever is said to be running is not.
        let crashed = record.last.as_ref().filter(|run| run.status == Status::Running);
        let slot = match wanted {
            Wanted::Trigger => return self.triggered(record, crashed, now),
            Wanted::Slot(slot) => self.caught_up(record, slot),
        };
        if let Some(skipped) = used(record, slot) {
            return match crashed.filter(|run| run.slot == slot && !run.triggered) {
                Some(run) if self.on_crash == OnCrash::Rerun && record.paused.is_none() => {
                    let attempt = run.attempt.saturating_add(1);
                    Decision::Run(Plan { slot, attempt, triggered: false, missed: None, crashed: crashed.cloned() })
                }
                Some(_) => Decision::Skip(Skipped::Misfired { missed: 0, crashed: true }),
                None => Decision::Skip(skipped),
            };
        }
        if record.paused.is_some() || record.resumed_at.is_some_and(|resumed| slot <= resumed) {
            return Decision::Skip(Skipped::Paused);
        }
        if self.is_too_late(slot, called) {
            return Decision::Miss { slot };
        }
        if let Some(until) = self.closed_until(record, now) {
            return Decision::Skip(Skipped::TooSoon { until });
        }
        Decision::Run(Plan {
            slot,
            attempt: 1,
            triggered: false,
            missed: self.missed(record, slot),
            crashed: crashed.cloned(),
        })
    }

    fn triggered(&self, record: &Record, crashed: Option<&Run>, now: WallTime) -> Decision {
        match &record.trigger {
            Some(_) if record.paused.is_some() => Decision::Skip(Skipped::Paused),
            Some(trigger) => match self.closed_until(record, now) {
                Some(until) => Decision::Skip(Skipped::TooSoon { until }),
                None => {
                    let plan =
                        Plan { slot: trigger.at, attempt: 1, triggered: true, missed: None, crashed: crashed.cloned() };
                    Decision::Run(plan)
                }
            },
            None => Decision::Skip(claimed(record)),
        }
    }

    fn closed_until(&self, record: &Record, now: WallTime) -> Option<WallTime> {
        record.not_before.filter(|until| self.heeds_record && *until > now)
    }

    /// The oldest slot that is to be caught up; else the slot itself.
    fn caught_up(&self, record: &Record, slot: WallTime) -> WallTime {
        let (Misfire::CatchUp { max }, Some(floor)) = (self.misfire, record.slot.max(record.resumed_at)) else {
            return slot;
        };
        let mut oldest = slot;
        for _ in 0..max {
            match self.ticks.latest_before(oldest) {
                Some(tick) if tick > floor => oldest = tick,
                _ => break,
            }
        }
        oldest
    }

    fn is_too_late(&self, slot: WallTime, called: WallTime) -> bool {
        let late = called.since(slot).saturating_sub(self.delay);
        match self.misfire {
            _ if self.ticks.is_manual() => false,
            Misfire::Skip => late > self.ticks.period_at(slot).unwrap_or(Duration::MAX).min(Duration::from_secs(60)),
            Misfire::FireOnce { grace } => late > grace,
            Misfire::CatchUp { .. } => false,
        }
    }

    /// The slots between the record's and this one.
    pub(crate) fn missed(&self, record: &Record, slot: WallTime) -> Option<(WallTime, u64)> {
        let floor = record.slot?.max(record.resumed_at.unwrap_or(WallTime::from_millis(0)));
        let first = self.ticks.next_after(floor).filter(|first| *first < slot)?;
        Some((first, self.ticks.count_between(floor, slot, Self::MOST_COUNTED)))
    }
}

/// The reason why a slot is used up, if it is.
fn used(record: &Record, slot: WallTime) -> Option<Skipped> {
    record.slot.filter(|used| slot <= *used).map(|_| claimed(record))
}

fn claimed(record: &Record) -> Skipped {
    match &record.last {
        Some(run) => Skipped::Claimed { by: Some(run.holder.clone()), at: Some(run.started_at) },
        None => Skipped::Claimed { by: None, at: None },
    }
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;
