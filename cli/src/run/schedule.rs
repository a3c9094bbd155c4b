//! When a command must end so that it is dead before anybody else can hold its lock.

use std::time::Duration;

use lockyard::{Drift, LostReason, Moment};

use crate::exit::Failure;

/// The times around a lock's deadline D: TERM at D − reap − `kill_after`, KILL at D − reap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Schedule {
    /// Between TERM and KILL.
    pub(super) kill_after: Duration,
    /// What the kernel may take to end the processes after KILL.
    reap: Duration,
}

/// What the lock demands of the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Demand {
    /// Run on; look again at this moment.
    Run { until: Moment },
    /// End, by this moment at the latest.
    End { by: Moment },
    /// End now.
    Die,
}

impl Schedule {
    const LONGEST_GRACE: Duration = Duration::from_secs(5);
    const LONGEST_REAP: Duration = Duration::from_millis(250);
    /// After a definite loss another may hold the lock already.
    const GRACE_WHEN_LOST: Duration = Duration::from_secs(1);

    /// The schedule for a lease of this ttl; without one nothing but the end of lockyard ends the lock.
    ///
    /// # Errors
    /// `Config` when the ttl leaves no room for two renewals and the end of the command.
    pub(super) fn new(
        ttl: Option<Duration>,
        drift: Drift,
        kill_after: Option<Duration>,
        renew: Option<Duration>,
    ) -> Result<Self, Failure> {
        let Some(ttl) = ttl else {
            return Ok(Self { kill_after: kill_after.unwrap_or(Self::LONGEST_GRACE), reap: Self::LONGEST_REAP });
        };
        let kill_after = kill_after.unwrap_or_else(|| (ttl / 6).min(Self::LONGEST_GRACE));
        let reap = (ttl / 20).min(Self::LONGEST_REAP);
        let renew = renew.unwrap_or(ttl / 3);
        let needed =
            renew.saturating_mul(2).saturating_add(kill_after.saturating_add(reap).saturating_add(drift.margin(ttl)));
        if ttl < needed {
            return Err(Failure::config(format!(
                "a ttl of {ttl:?} is too short: two renewals ({renew:?} each), --kill-after ({kill_after:?}) and the time \
                 to reap need {needed:?}; use a longer --ttl, a shorter --kill-after or a sooner --renew"
            )));
        }
        Ok(Self { kill_after, reap })
    }

    /// What to do now, by the deadline known and the loss noticed.
    pub(super) fn demand(&self, now: Moment, deadline: Moment, lost: Option<LostReason>) -> Demand {
        let kill = deadline.minus(self.reap);
        let term = kill.minus(self.kill_after);
        match lost {
            Some(LostReason::Revoked | LostReason::SessionEnded) => {
                Demand::End { by: now.plus(self.kill_after.min(Self::GRACE_WHEN_LOST)) }
            }
            // Past the deadline, by whatever clock.
            Some(_) => Demand::Die,
            None if now >= kill => Demand::Die,
            None if now >= term => Demand::End { by: kill },
            None => Demand::Run { until: term },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockyard::Clock;

    const TTL: Duration = Duration::from_secs(30);

    fn default() -> Schedule {
        Schedule::new(Some(TTL), Drift::DEFAULT, None, None).expect("the default fits")
    }

    #[test]
    fn the_defaults_fit_at_every_ttl_that_backends_take() {
        for millis in [100, 500, 1_000, 3_000, 30_000, 600_000] {
            let ttl = Duration::from_millis(millis);
            assert!(Schedule::new(Some(ttl), Drift::DEFAULT, None, None).is_ok(), "{ttl:?}");
        }
        let failure =
            Schedule::new(Some(TTL), Drift::DEFAULT, Some(Duration::from_secs(10)), None).expect_err("no room");
        assert_eq!(failure.exit.code(), 78);
        assert!(failure.message.contains("--kill-after"), "{}", failure.message);
        let seldom = Schedule::new(Some(TTL), Drift::DEFAULT, None, Some(Duration::from_secs(14)));
        assert!(seldom.expect_err("no room").message.contains("--renew"));
        assert!(Schedule::new(Some(Duration::ZERO), Drift::DEFAULT, Some(Duration::MAX), None).is_err());
    }

    #[test]
    fn the_command_is_told_and_killed_before_the_deadline() {
        let schedule = default();
        let now = Clock::manual().now();
        let deadline = now.plus(Duration::from_secs(20));
        let kill = deadline.minus(Duration::from_millis(250));
        let term = kill.minus(Duration::from_secs(5));
        assert_eq!(schedule.demand(now, deadline, None), Demand::Run { until: term });
        assert_eq!(schedule.demand(term, deadline, None), Demand::End { by: kill });
        assert_eq!(schedule.demand(kill, deadline, None), Demand::Die);
        assert_eq!(schedule.demand(deadline.plus(TTL), deadline, None), Demand::Die);
    }

    #[test]
    fn a_definite_loss_leaves_a_second_and_a_late_one_nothing() {
        let schedule = default();
        let now = Clock::manual().now();
        let by = now.plus(Duration::from_secs(1));
        for definite in [LostReason::Revoked, LostReason::SessionEnded] {
            assert_eq!(schedule.demand(now, now.plus(TTL), Some(definite)), Demand::End { by });
        }
        for late in [LostReason::Expired, LostReason::ClockJump] {
            assert_eq!(schedule.demand(now, now.plus(TTL), Some(late)), Demand::Die);
        }
    }

    #[test]
    fn without_a_lease_there_is_no_deadline() {
        let schedule = Schedule::new(None, Drift::DEFAULT, None, None).expect("nothing to fit");
        let now = Clock::manual().now();
        assert!(matches!(schedule.demand(now, Moment::FAR, None), Demand::Run { .. }));
    }
}
