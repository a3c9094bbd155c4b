//! What keeps a job closed for `at_least_for`, by the server's clock where the server keeps such a thing.

use std::sync::Arc;
use std::time::Duration;

use lockyard_api::{
    Attempt, Claim, Error, FencedRegister, FencingToken, LivenessKind, LockName, Locker, Result, Write,
};

/// A mark in the server's data, whatever becomes of its maker.
#[derive(Debug, Clone)]
pub(crate) struct Marker {
    name: LockName,
    time: Duration,
    kind: Kind,
}

#[derive(Debug, Clone)]
enum Kind {
    /// A lease that nobody renews and nobody releases.
    Lease(Locker),
    /// A value, of which the server tells how old it is.
    Stamp(Arc<dyn FencedRegister>),
}

impl Marker {
    /// How often a stamp is written that others write at the same time.
    const ATTEMPTS: u32 = 10;

    /// The marker of a job; `None` where the backend has neither a lease that outlives its client nor a register that tells
    /// ages. A hold that is bound to a connection goes with it; what a restart of the server does not end stands in its data.
    pub(crate) fn new(
        locks: &Locker,
        register: &Arc<dyn FencedRegister>,
        name: LockName,
        time: Duration,
    ) -> Option<Self> {
        let capabilities = locks.capabilities();
        let stands = capabilities.liveness == LivenessKind::Lease || capabilities.restart_safe;
        // One that is rounded up would close the job for longer than was asked for.
        let fits = capabilities.ttl.check(time).is_ok() && capabilities.ttl.round_up(time) == time;
        let leased = capabilities.fixed_lease && capabilities.inspect && stands && fits;
        let kind = if leased {
            Kind::Lease(locks.clone())
        } else if register.tells_age() {
            Kind::Stamp(Arc::clone(register))
        } else {
            return None;
        };
        Some(Self { name, time, kind })
    }

    /// How long the job is still closed.
    pub(crate) async fn closed_for(&self) -> Result<Option<Duration>> {
        match &self.kind {
            Kind::Lease(locks) => {
                let holder = locks.inspect(self.name.as_str()).await?;
                Ok(holder.map(|holder| holder.expires_in.unwrap_or(self.time)))
            }
            Kind::Stamp(register) => {
                let age = register.age(&self.name).await?;
                Ok(age.and_then(|age| self.time.checked_sub(age)).filter(|left| !left.is_zero()))
            }
        }
    }

    /// Closes the job from now on, under the token of its lock. `false` when it is closed already, or the lock is lost.
    pub(crate) async fn set(&self, token: FencingToken) -> Result<bool> {
        match &self.kind {
            Kind::Lease(locks) => {
                let claim = Claim::new(self.name.clone(), self.time).fixed();
                let attempt = locks.backend().try_acquire(&claim).await;
                self.forget_later(locks, claim);
                Ok(matches!(attempt?, Attempt::Granted(_)))
            }
            Kind::Stamp(register) => {
                for _ in 0..Self::ATTEMPTS {
                    let found = register.read(&self.name).await?;
                    match register.write(&self.name, b"closed", token, found.version).await? {
                        Write::Written { .. } => return Ok(true),
                        Write::StaleToken { .. } => return Ok(false),
                        _ => {}
                    }
                }
                Err(Error::new(lockyard_api::ErrorKind::Unreachable, "the stamp of the job changes too fast"))
            }
        }
    }

    /// Once it has ended by itself, the client need not remember it.
    fn forget_later(&self, locks: &Locker, claim: Claim) {
        let backend = Arc::downgrade(locks.backend());
        let clock = locks.clock().clone();
        let ended = clock.now().plus(self.time + locks.capabilities().slack);
        tokio::spawn(async move {
            clock.sleep_until(ended).await;
            if let Some(backend) = backend.upgrade() {
                // It holds nothing any more; a failure leaves a line in the client's memory.
                let _ = backend.release(&claim).await;
            }
        });
    }
}
