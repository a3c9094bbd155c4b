//! One acquisition with its options.

use std::sync::Arc;
use std::time::Duration;

use crate::front::{Acquire, Core};
use crate::{Claim, Error, ErrorKind, Guard, Kind, LockName, Operation, Result};

/// A lock about to be asked for: set what differs from the defaults, then [`LockRequest::acquire`] or
/// [`LockRequest::try_acquire`].
#[derive(Debug, Clone)]
#[must_use = "nothing is asked for until acquire or try_acquire"]
pub struct LockRequest {
    core: Arc<Core>,
    ask: Ask,
}

impl LockRequest {
    pub(crate) fn new(core: Arc<Core>, name: &str) -> Self {
        let ask = Ask::new(&core, name);
        Self { core, ask }
    }

    /// How long the lease is: after so long without a renewal the server lets others in. Longer: a dead holder blocks
    /// longer. Shorter: more renewals, and a shorter outage loses the lock.
    pub const fn ttl(mut self, ttl: Duration) -> Self {
        self.ask.ttl = Some(ttl);
        self
    }

    /// How long [`LockRequest::acquire`] waits; without it, for ever.
    pub const fn wait(mut self, wait: Duration) -> Self {
        self.ask.wait = Some(wait);
        self
    }

    /// No renewal: the hold ends one ttl after it was granted. `Unsupported` where the backend cannot.
    pub const fn fixed(mut self) -> Self {
        self.ask.fixed = true;
        self
    }

    /// A word about the holder for people who inspect the lock.
    pub fn label(mut self, label: impl Into<Arc<str>>) -> Self {
        self.ask.label = Some(label.into());
        self
    }

    /// Shared instead of exclusive, where the backend offers it.
    pub const fn shared(mut self) -> Self {
        self.ask.kind = Kind::Shared;
        self
    }

    /// One of `of` permits instead of an exclusive hold, where the backend offers it.
    pub const fn permit(mut self, of: u32) -> Self {
        self.ask.kind = Kind::Permit { of };
        self
    }

    /// Acquires the lock; waits while another holds it.
    ///
    /// # Errors
    /// Before any traffic: `InvalidName`, `InvalidTtl`, `Unsupported`, `Shutdown`. `Timeout` when the wait is over, with
    /// the outcome `NotApplied` once the claim is undone. Otherwise what the server or the network did: the first
    /// request's failure at once, an outage while waiting after the `Locker`'s patience.
    ///
    /// # Cancel safety
    /// Dropped at any await, the claim is undone in the background, or inherited by the next waiter of this process.
    pub async fn acquire(self) -> Result<Guard> {
        self.ask.acquire(&self.core).await
    }

    /// Acquires the lock if it is free. `None` when another holds it.
    ///
    /// # Errors
    /// As [`LockRequest::acquire`]; never `Timeout`.
    ///
    /// # Cancel safety
    /// Dropped at any await, the claim is undone in the background.
    pub async fn try_acquire(self) -> Result<Option<Guard>> {
        self.ask.try_acquire(&self.core).await
    }
}

/// What is asked for, of which locker is known by whoever has it.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    /// Or what is wrong with it, kept until the call that can report it.
    name: Result<LockName, String>,
    kind: Kind,
    ttl: Option<Duration>,
    wait: Option<Duration>,
    fixed: bool,
    label: Option<Arc<str>>,
}

impl Ask {
    pub(crate) fn new(core: &Core, name: &str) -> Self {
        let name = LockName::new(name).map_err(|error| error.message().to_owned());
        Self { name, kind: Kind::Exclusive, ttl: None, wait: None, fixed: false, label: core.label.clone() }
    }

    pub(crate) async fn acquire(self, core: &Arc<Core>) -> Result<Guard> {
        let wait = self.wait;
        Acquire::new(core, self.claim(core)?.queueing(), wait).waiting().await
    }

    pub(crate) async fn try_acquire(self, core: &Arc<Core>) -> Result<Option<Guard>> {
        Acquire::new(core, self.claim(core)?, None).once().await
    }

    /// The claim, checked before any traffic.
    fn claim(self, core: &Core) -> Result<Claim> {
        let name = self.name.map_err(|message| {
            Error::new(ErrorKind::InvalidName, message).not_applied().with_operation(Operation::Acquire)
        })?;
        let checked = || {
            core.check_open()?;
            let capabilities = &core.capabilities;
            capabilities.check_kind(self.kind)?;
            let ttl = self.ttl.unwrap_or(core.ttl);
            capabilities.ttl.check(ttl)?;
            check_renewal(ttl, core.renew_after)?;
            if self.fixed && !capabilities.fixed_lease {
                let backend = capabilities.backend;
                return Err(Error::unsupported(format!("{backend} has no fixed leases: only renewed ones")));
            }
            Ok(ttl)
        };
        let ttl = checked().map_err(|error: Error| error.with_operation(Operation::Acquire).with_name(&name))?;
        let mut claim = Claim::new(name, ttl).with_kind(self.kind);
        if self.fixed {
            claim = claim.fixed();
        }
        claim.label = self.label;
        Ok(claim)
    }
}

/// One renewal may fail: the next has to come before the lease ends.
fn check_renewal(ttl: Duration, renew_after: Option<Duration>) -> Result<()> {
    match renew_after {
        Some(time) if ttl < time.saturating_mul(2) => {
            let text =
                format!("ttl {ttl:?} is shorter than two renewals of {time:?} each: use a longer ttl or renew sooner");
            Err(Error::new(ErrorKind::InvalidTtl, text).not_applied())
        }
        _ => Ok(()),
    }
}
