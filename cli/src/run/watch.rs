//! Watches over a running command: its lock, its time limit, the signals, its end.

use std::io;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use lockyard::{Clock, Guard, LostReason, Moment};
use nix::sys::signal::Signal;

use super::child::Child;
use super::renewals::Renewals;
use super::schedule::{Demand, Schedule};
use super::signals::Signals;
use crate::args::OnLost;
use crate::output::Voice;

/// How often the group of a command that is being ended is looked at.
const POLL: Duration = Duration::from_millis(20);

/// Why lockyard ended the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// The lock is lost, for this reason; `None` when it was about to be.
    Lost(Option<LostReason>),
    /// Its time was over.
    TimeLimit,
    /// It was told to by a signal, and a second one.
    Signals,
}

/// How a watched command ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) status: ExitStatus,
    pub(super) cause: Option<Cause>,
}

/// What is fixed for the whole watch.
#[derive(Debug)]
pub(super) struct Watch<'a> {
    pub(super) guard: &'a Guard,
    pub(super) clock: Clock,
    pub(super) schedule: Schedule,
    pub(super) on_lost: OnLost,
    pub(super) limit: Option<Moment>,
    pub(super) renewals: Arc<Renewals>,
    pub(super) voice: Voice,
}

/// What changes while the command runs.
#[derive(Debug)]
struct State {
    /// D as far as it is known.
    deadline: Moment,
    ending: Option<Ending>,
    /// A signal was passed on: the command is gone when its whole group is.
    whole_group: bool,
    stops: u32,
    loss_told: bool,
    overdue_told: bool,
}

#[derive(Debug, Clone, Copy)]
struct Ending {
    cause: Cause,
    kill_at: Moment,
    killed: bool,
}

impl Watch<'_> {
    /// Ends when the command has ended, its group too once lockyard has sent it a signal.
    pub(super) async fn supervise(&self, child: &mut Child, signals: &mut Signals) -> io::Result<Ended> {
        let mut state = State::new(self.clock.now());
        loop {
            let now = self.clock.now();
            state.deadline = self.deadline(now, state.deadline);
            self.tell_of_trouble(now, state.deadline);
            let until = self.look(now, &mut state, child);
            if let Some(ended) = state.ended(child) {
                return Ok(ended);
            }
            let running = child.status().is_none();
            tokio::select! {
                biased;
                // Nothing is lost with the branches not taken: all is looked at anew.
                status = child.ended(), if running => drop(status?),
                signal = signals.next() => self.pass_on(signal, &mut state, child),
                _ = self.guard.lost(), if self.cares_for_loss(&state) => {}
                () = self.clock.sleep_until(until) => child.reap_orphans(),
            }
        }
    }

    /// D: as the guard knows it while it stands by its hold, else as it was known last.
    fn deadline(&self, now: Moment, known: Moment) -> Moment {
        if self.guard.is_held() { now.plus(self.guard.remaining()) } else { known }
    }

    fn cares_for_loss(&self, state: &State) -> bool {
        !state.loss_told && state.ending.is_none()
    }

    /// Does what is due and says when to look again.
    fn look(&self, now: Moment, state: &mut State, child: &Child) -> Moment {
        // What is left of the group of a command that has ended is looked at often.
        let mut next = now.plus(if child.status().is_some() { POLL } else { Clock::RECHECK });
        next = next.min(self.look_at_lock(now, state, child));
        if let Some(limit) = self.limit {
            if now >= limit && state.ending.is_none() {
                self.voice.warn("the time limit (--at-most-for) is reached, stopping the command");
                self.end(Cause::TimeLimit, now.plus(self.schedule.kill_after), state, child);
            }
            if now < limit {
                next = next.min(limit);
            }
        }
        self.look_at_ending(now, state, child).map_or(next, |due| next.min(due))
    }

    fn look_at_lock(&self, now: Moment, state: &mut State, child: &Child) -> Moment {
        let lost = self.guard.lost_reason();
        let cause = Cause::Lost(lost);
        match (self.schedule.demand(now, state.deadline, lost), self.on_lost) {
            (Demand::Run { until }, _) => return until,
            (_, OnLost::Ignore) => self.tell_of_ignored_loss(lost, state),
            (Demand::End { by }, OnLost::Terminate) => self.end(cause, by, state, child),
            // Killed where the other would be killed; at once when another may hold the lock already.
            (Demand::End { by }, OnLost::Kill) if lost.is_none() => return by,
            (Demand::End { .. } | Demand::Die, _) => self.end(cause, now, state, child),
        }
        now.plus(Clock::RECHECK)
    }

    /// Begins to end the command, or moves the end that has begun forward.
    fn end(&self, cause: Cause, kill_at: Moment, state: &mut State, child: &Child) {
        if let Some(ending) = &mut state.ending {
            ending.kill_at = ending.kill_at.min(kill_at);
            return;
        }
        if let Cause::Lost(reason) = cause {
            let why = reason.map_or_else(|| "it could not be renewed".to_owned(), |reason| reason.to_string());
            self.voice.warn(format_args!("lock {:?} is lost: {why}; stopping the command", self.name()));
        }
        state.ending = Some(Ending { cause, kill_at, killed: false });
        state.whole_group = true;
        if kill_at > self.clock.now() {
            child.signal(Signal::SIGTERM);
        }
    }

    /// Kills what is overdue; again and again until nothing is left.
    fn look_at_ending(&self, now: Moment, state: &mut State, child: &Child) -> Option<Moment> {
        let ending = state.ending.as_mut()?;
        if now >= ending.kill_at {
            child.signal(Signal::SIGKILL);
            ending.killed = true;
        }
        let overdue = matches!(ending.cause, Cause::Lost(_)) && ending.killed && now >= state.deadline;
        if overdue && !std::mem::replace(&mut state.overdue_told, true) {
            let left = child.members();
            if !left.is_empty() {
                self.voice.warn(format_args!("SIGKILL was sent, but these processes have not ended yet: {left:?}"));
            }
        }
        Some(if ending.killed { now.plus(POLL) } else { ending.kill_at })
    }

    /// Passes a signal to the command; the second INT or TERM kills it.
    fn pass_on(&self, signal: Signal, state: &mut State, child: &Child) {
        state.whole_group |= !matches!(signal, Signal::SIGUSR1 | Signal::SIGUSR2);
        if matches!(signal, Signal::SIGINT | Signal::SIGTERM) {
            state.stops += 1;
        }
        if state.stops > 1 && matches!(signal, Signal::SIGINT | Signal::SIGTERM) {
            self.voice.tell(format_args!("a second {signal}: killing the command"));
            self.end(Cause::Signals, self.clock.now(), state, child);
        } else if !(child.shares_terminal() && matches!(signal, Signal::SIGINT | Signal::SIGQUIT)) {
            // A terminal has sent its keys to the command already.
            child.signal(signal);
        }
    }

    /// Warns once in a row of failed renewals, while something can still be done.
    fn tell_of_trouble(&self, now: Moment, deadline: Moment) {
        if let Some(kind) = self.renewals.new_trouble() {
            let left = deadline.since(now);
            self.voice.warn(format_args!(
                "cannot renew lock {:?} ({kind}): trying again; without success it is lost in {left:.1?}",
                self.name()
            ));
        }
    }

    fn tell_of_ignored_loss(&self, lost: Option<LostReason>, state: &mut State) {
        if let Some(reason) = lost
            && !std::mem::replace(&mut state.loss_told, true)
        {
            let name = self.name();
            self.voice.warn(format_args!("lock {name:?} is lost: {reason}; the command runs on (--on-lost ignore)"));
        }
    }

    fn name(&self) -> &str {
        self.guard.name().as_str()
    }
}

impl State {
    const fn new(now: Moment) -> Self {
        Self { deadline: now, ending: None, whole_group: false, stops: 0, loss_told: false, overdue_told: false }
    }

    fn ended(&self, child: &Child) -> Option<Ended> {
        let status = child.status()?;
        if self.whole_group && !child.members().is_empty() {
            return None;
        }
        Some(Ended { status, cause: self.ending.map(|ending| ending.cause) })
    }
}
