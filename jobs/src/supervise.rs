//! Runs the work of a job under its guard: cancels it in time, ends it in time.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use lockyard_api::{Clock, Guard, LostReason, Moment};
use tokio::sync::watch;

/// How a run came to its end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End<R> {
    /// The work returned.
    Returned(R),
    /// The lock was lost, or about to be.
    Lost(LostReason),
    /// The time was over.
    TimedOut,
    /// The program stops.
    Stopped,
}

/// Why a run was told to end.
#[derive(Debug, Clone, Copy)]
enum Cause {
    Losing,
    Time,
    Stop,
}

/// How long a run may go on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// From the start until it is told to end.
    pub(crate) at_most: Option<Duration>,
    /// From then until it is dropped.
    pub(crate) grace: Duration,
    /// How long before the lock is lost it is told.
    pub(crate) lead: Duration,
}

/// One run of some work.
pub(crate) struct Supervision<'a> {
    pub(crate) guard: &'a Guard,
    pub(crate) clock: &'a Clock,
    pub(crate) limits: Limits,
    pub(crate) cancel: watch::Sender<bool>,
    /// Turns true when the program stops and its patience is over.
    pub(crate) stop: watch::Receiver<bool>,
}

impl Supervision<'_> {
    /// Drives the work to its end. The guard is kept and renewed until the work has returned or was dropped.
    pub(crate) async fn run<R>(mut self, work: impl Future<Output = R> + Send) -> End<R> {
        let mut work = pin!(work);
        let over = self.limits.at_most.map_or(Moment::FAR, |time| self.clock.now().plus(time));
        // Why it was told to end, and when it is dropped.
        let mut told: Option<(Cause, Moment)> = None;
        loop {
            let alarm = told.map_or_else(|| over.min(self.look_again()), |(_, drop_at)| drop_at);
            tokio::select! {
                biased;
                // What the work was doing is dropped with it when this function returns.
                reason = self.guard.lost() => return End::Lost(reason),
                result = &mut work => return told.map_or(End::Returned(result), |(cause, _)| cause.into()),
                () = stopped(&mut self.stop), if told.is_none() => told = Some(self.tell(Cause::Stop)),
                () = self.clock.sleep_until(alarm) => match told {
                    Some((cause, _)) => return cause.into(),
                    None if self.clock.now() >= over => told = Some(self.tell(Cause::Time)),
                    None if self.is_losing() => told = Some(self.tell(Cause::Losing)),
                    None => {}
                },
            }
        }
    }

    fn tell(&self, cause: Cause) -> (Cause, Moment) {
        let _ = self.cancel.send(true);
        let drop_at = match cause {
            // The loss itself is when it is dropped.
            Cause::Losing => Moment::FAR,
            Cause::Time | Cause::Stop => self.clock.now().plus(self.limits.grace),
        };
        (cause, drop_at)
    }

    /// When the lease could be near its end, by what is known now.
    fn look_again(&self) -> Moment {
        let now = self.clock.now();
        let ahead = self.guard.remaining().saturating_sub(self.limits.lead);
        now.plus(ahead.max(Duration::from_millis(5)))
    }

    /// Whether the lease ends within the lead. A hold in doubt (after a jump of the clock) is none that ends: a renewal
    /// confirms it, or it is lost at its deadline.
    fn is_losing(&self) -> bool {
        let remaining = self.guard.remaining();
        !remaining.is_zero() && remaining <= self.limits.lead
    }
}

impl<R> From<Cause> for End<R> {
    fn from(cause: Cause) -> Self {
        match cause {
            Cause::Losing => Self::Lost(LostReason::Expired),
            Cause::Time => Self::TimedOut,
            Cause::Stop => Self::Stopped,
        }
    }
}

async fn stopped(stop: &mut watch::Receiver<bool>) {
    if stop.wait_for(|stopped| *stopped).await.is_err() {
        // Nobody is left to stop it.
        std::future::pending().await
    }
}
