//! A hold: a granted claim with the lease that it rests on.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tracing::{Id, Span};

use super::core::Core;
use crate::lease::Lease;
use crate::loss::{Hook, Loss};
use crate::{Claim, Clock, Drift, Grant, Liveness, LostReason, Moment, Renew, SessionWatch};

/// What keeps a hold alive, as the front end sees it.
enum Life {
    Lease(Mutex<Lease>, Loss),
    Session(SessionWatch),
    Process(Loss),
}

/// Whose hold it is, for those who are told of its end.
#[derive(Debug, Clone)]
pub(crate) struct Held {
    pub(crate) claim: Arc<Claim>,
    pub(crate) account: Option<Arc<Account>>,
}

/// What is kept of a hold where somebody wants to know.
#[derive(Debug)]
pub(crate) struct Account {
    /// The grant.
    pub(crate) since: Moment,
    /// Open as long as the hold lasts; what happens to it belongs to it.
    pub(crate) span: Span,
}

impl Held {
    /// How long it has been held; zero when nobody wanted to know.
    pub(crate) fn time(&self, clock: &Clock) -> Duration {
        self.account.as_ref().map_or(Duration::ZERO, |account| clock.stopwatch().since(account.since))
    }

    /// How it ended, for its span.
    pub(crate) fn ended(&self, outcome: &'static str) {
        if let Some(account) = &self.account {
            account.span.record("lock.outcome", outcome);
        }
    }

    pub(crate) fn span(&self) -> Option<Id> {
        self.account.as_ref().and_then(|account| account.span.id())
    }
}

/// Shared by the guard and the watchdog.
pub(crate) struct Hold {
    pub(crate) claim: Arc<Claim>,
    life: Life,
    drift: Drift,
    /// `None`: a third of the lease.
    renew_after: Option<Duration>,
    account: Option<Arc<Account>>,
}

/// What the clock says of a hold.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    Held,
    /// The clock jumped since the lease was confirmed: not to be relied on until a renewal answers.
    Doubtful,
    Lost(LostReason),
}

impl Hold {
    /// A hold whose loss the core hears of.
    pub(crate) fn new(claim: Arc<Claim>, grant: &Grant, core: &Arc<Core>, account: Option<Arc<Account>>) -> Self {
        let hook = hook(core, Held { claim: Arc::clone(&claim), account: account.clone() });
        let life = match &grant.liveness {
            Liveness::Lease { ttl } => Life::Lease(Mutex::new(Lease::new(grant.valid_from, *ttl)), Loss::told_by(hook)),
            Liveness::Session(watch) => {
                watch.loss().on_loss(hook);
                Life::Session(watch.clone())
            }
            Liveness::Process => Life::Process(Loss::told_by(hook)),
        };
        Self { claim, life, drift: core.drift, renew_after: core.renew_after, account }
    }

    /// The core hears of the loss while this holder has it.
    pub(crate) fn listen(&self, core: &Arc<Core>, account: Option<Arc<Account>>) {
        self.loss().on_loss(hook(core, self.held_by(account)));
    }

    /// For those who are told what happens to it; its first holder's account.
    pub(crate) fn held(&self) -> Held {
        self.held_by(self.account.clone())
    }

    /// For those who are told of the end of one holder's time.
    pub(crate) fn held_by(&self, account: Option<Arc<Account>>) -> Held {
        Held { claim: Arc::clone(&self.claim), account }
    }

    pub(crate) fn loss(&self) -> &Loss {
        match &self.life {
            Life::Lease(_, loss) | Life::Process(loss) => loss,
            Life::Session(watch) => watch.loss(),
        }
    }

    fn lease(&self) -> Option<Lease> {
        match &self.life {
            Life::Lease(lease, _) => Some(*lock(lease)),
            Life::Session(watch) => Some(watch.current()),
            Life::Process(_) => None,
        }
    }

    /// The lease granted; of a session, its timeout. The process has none.
    pub(crate) fn ttl(&self) -> Option<Duration> {
        self.lease().map(|lease| lease.ttl)
    }

    /// D, never to be believed beyond.
    pub(crate) fn deadline(&self) -> Moment {
        self.lease().map_or(Moment::FAR, |lease| lease.deadline(self.drift))
    }

    /// Where the hold stands by the clock. Past D it is lost from then on, whoever looks first.
    pub(crate) fn look(&self, now: Moment) -> Standing {
        if let Some(reason) = self.loss().get() {
            return Standing::Lost(reason);
        }
        let Some(lease) = self.lease() else { return Standing::Held };
        let doubtful = now.jump_since(lease.valid_from) > self.drift.margin(lease.ttl);
        if now >= lease.deadline(self.drift) {
            let reason = if doubtful { LostReason::ClockJump } else { LostReason::Expired };
            self.loss().set(reason);
            return Standing::Lost(self.loss().get().unwrap_or(reason));
        }
        if doubtful { Standing::Doubtful } else { Standing::Held }
    }

    /// Whether half of its lease or more is left.
    pub(crate) fn is_young(&self, now: Moment) -> bool {
        self.lease().is_none_or(|lease| now < lease.valid_from.plus(lease.ttl / 2))
    }

    /// When the watchdog has to look at a new hold.
    pub(crate) fn first_due(&mut self) -> Moment {
        let renewed = self.can_renew();
        let lease = match &mut self.life {
            Life::Lease(lease, _) => *lease.get_mut().unwrap_or_else(PoisonError::into_inner),
            Life::Session(watch) => return watch.current().deadline(self.drift),
            Life::Process(_) => return Moment::FAR,
        };
        let deadline = lease.deadline(self.drift);
        if renewed { deadline.min(self.renewal_of(lease)) } else { deadline }
    }

    /// How long before it is due its renewal may come: what is due soon goes together, and wakes client and server once.
    pub(crate) fn earliness(&self) -> Duration {
        const SHARE: u32 = 8;
        match &self.life {
            Life::Lease(lease, _) if self.claim.renew == Renew::Auto => {
                (self.interval_of(*lock(lease)) / SHARE).min(Clock::RECHECK)
            }
            _ => Duration::ZERO,
        }
    }

    /// When the watchdog renews next; `None` when renewing is not its business.
    pub(crate) fn renewal_due(&self) -> Option<Moment> {
        match &self.life {
            Life::Lease(lease, _) if self.claim.renew == Renew::Auto => {
                let lease = *lock(lease);
                Some(self.renewal_of(lease))
            }
            _ => None,
        }
    }

    fn renewal_of(&self, lease: Lease) -> Moment {
        lease.valid_from.plus(self.interval_of(lease))
    }

    /// From one renewal to the next.
    fn interval_of(&self, lease: Lease) -> Duration {
        self.renew_after.unwrap_or(lease.ttl / 3)
    }

    /// Whether time alone can end it.
    pub(crate) const fn is_watched(&self) -> bool {
        !matches!(self.life, Life::Process(_))
    }

    /// A lease that is not renewed would be shorter for each holder.
    pub(crate) fn can_be_handed_on(&self) -> bool {
        self.claim.renew == Renew::Auto
    }

    /// Whether the watchdog may ask the server about it.
    pub(crate) fn can_renew(&self) -> bool {
        self.is_watched() && self.claim.renew == Renew::Auto
    }

    /// A renewal was confirmed. The lease clock restarts, from `valid_from` and never backwards.
    pub(crate) fn confirm(&self, valid_from: Moment, ttl: Duration) {
        if let Life::Lease(lease, _) = &self.life {
            let mut lease = lock(lease);
            if valid_from >= lease.valid_from {
                *lease = Lease::new(valid_from, ttl);
            }
        }
    }
}

fn hook(core: &Arc<Core>, held: Held) -> Hook {
    let listener: Weak<Core> = Arc::downgrade(core);
    Hook { listener, held }
}

fn lock(lease: &Mutex<Lease>) -> MutexGuard<'_, Lease> {
    lease.lock().unwrap_or_else(PoisonError::into_inner)
}
