//! `--tick` and `--once-per`: the time for which a start is meant, claimed so that it starts once.

use lockyard::{Clock, Guard, Moment};
use lockyard_jobs::{ClaimedSlot, Invalid, Schedule, SlotClaim, Slots, Status, WallTime};

#[cfg(feature = "metrics")]
use lockyard_jobs::{JobError, metrics::JobMetrics};

use super::figures::Figures;
use crate::args::StartArgs;
use crate::exit::{Exit, Failure};
use crate::output::Voice;
use crate::source::Source;

/// The slot that this run is meant for.
#[derive(Debug)]
pub(super) struct Slot {
    schedule: Schedule,
    at: WallTime,
    figures: Figures,
}

/// The claim of the slot, while the command runs.
#[derive(Debug)]
pub(super) struct Claimed {
    slots: Slots,
    claimed: ClaimedSlot,
    figures: Figures,
    started: Moment,
}

/// What came of claiming it.
pub(super) enum Claim {
    Claimed(Claimed),
    /// It ran before.
    Used(String),
    Lost,
}

impl Slot {
    /// The slot of a start at this moment; `None` when none was asked for.
    ///
    /// # Errors
    /// `Usage` for a schedule or a zone that is none.
    pub(super) fn of(start: &StartArgs, name: &str, clock: &Clock) -> Result<Option<Self>, Failure> {
        let schedule = match (&start.tick, start.once_per) {
            (Some(expression), _) => {
                let schedule = Schedule::cron(expression.as_str());
                start.tz.iter().fold(schedule, |schedule, zone| schedule.tz(zone.as_str()))
            }
            (None, Some(period)) => Schedule::every(period),
            (None, None) => return Ok(None),
        };
        let now = WallTime::now(clock);
        let ticks = schedule.ticks(name, now).map_err(|error| explained(start, &error))?;
        let Some(at) = ticks.slot_at(now) else {
            return Err(Failure::usage("--tick: no time before now fits it: there is no slot to run"));
        };
        if let (Some(least), Some(period)) = (start.at_least_for, ticks.shortest_period(now))
            && least > period
        {
            let (least, period) = (super::times::shown(least), super::times::shown(period));
            return Err(Failure::config(format!(
                "--at-least-for {least} is longer than the {period} from one slot to the next: that one would find the name \
                 closed; make it shorter, the slot keeps a second start out by itself"
            )));
        }
        Ok(Some(Self { schedule, at, figures: Figures::none(at, clock.clone()) }))
    }

    /// Where it is told what becomes of it.
    pub(super) const fn figures(&self) -> &Figures {
        &self.figures
    }

    /// Counts what becomes of it, as of a job of this name.
    #[cfg(feature = "metrics")]
    pub(super) fn counted(mut self, name: &str, source: &Source) -> Result<Self, Failure> {
        let scheme = lockyard::Scheme::of(source.url())?;
        let now = WallTime::now(&source.options().clock);
        self.figures.fed_to(JobMetrics::new(name, &self.schedule, scheme.feature(), now).map_err(JobError::from)?);
        Ok(self)
    }

    /// The time of the slot, as the command is told.
    pub(super) fn at(&self) -> String {
        self.at.to_string()
    }

    /// Claims it under the lock.
    ///
    /// # Errors
    /// `Internal` for a record that cannot be used, and what the service did.
    pub(super) async fn claim(&self, source: &Source, guard: &Guard, holder: &str) -> Result<Claim, Failure> {
        let register = lockyard::connect_register(source.url()).await?;
        let clock = source.options().clock.clone();
        let slots = Slots::new(guard.name().as_str(), &self.schedule, register, clock)?;
        Ok(match slots.claim(guard, self.at, holder).await? {
            SlotClaim::Claimed(claimed) if guard.is_held() => {
                let (figures, started) = (self.figures.clone(), self.figures.started());
                Claim::Claimed(Claimed { slots, claimed, figures, started })
            }
            SlotClaim::Claimed(claimed) => {
                // Used up without a start: a later one may have the lock already.
                let _ = slots.close(claimed, Status::Lost, None).await;
                Claim::Lost
            }
            SlotClaim::Used { by, at } => {
                let by = by.map_or_else(String::new, |by| format!(" on {by}"));
                let at = at.map_or_else(String::new, |at| format!(" at {at}"));
                Claim::Used(format!("the slot {} ran already{by}{at}", self.at))
            }
            _ => Claim::Lost,
        })
    }
}

impl Claimed {
    /// Writes down how the command ended.
    pub(super) async fn close(self, exit: Exit, voice: Voice) {
        let (status, outcome) = match exit {
            Exit::Success | Exit::Own(0) => (Status::Succeeded, "ran"),
            Exit::Lost => (Status::Lost, "lost"),
            Exit::TimeLimit => (Status::TimedOut, "timed_out"),
            Exit::Signal(_) => (Status::Stopped, "stopped"),
            _ => (Status::Failed, "failed"),
        };
        self.figures.ended(outcome, self.started);
        let error = (status != Status::Succeeded).then(|| format!("exit code {}", exit.code()));
        if let Err(error) = self.slots.close(self.claimed, status, error).await {
            voice.warn(format_args!("the end of the slot was not written down: {error}"));
        }
    }
}

fn explained(start: &StartArgs, error: &Invalid) -> Failure {
    let option = match (error.option, &start.tick) {
        ("tz", _) => "--tz",
        (_, Some(_)) => "--tick",
        _ => "--once-per",
    };
    Failure::usage(format!("{option}: {}; {}", error.problem, error.cure))
}
