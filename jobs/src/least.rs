//! The marker that keeps a job closed for `at_least_for`, by the server's clock where the server keeps such a thing.

use std::sync::Arc;
use std::time::Duration;

use lockyard_api::{Attempt, Claim, LivenessKind, LockName, Locker, Result};

/// A lease that nobody renews and nobody releases: it stands in the server's data, whatever becomes of its maker.
#[derive(Debug, Clone)]
pub(crate) struct Marker {
    locks: Locker,
    name: LockName,
    ttl: Duration,
}

impl Marker {
    /// The marker of a job; `None` where the backend has no lease that outlives its client. A hold that is bound to a
    /// connection goes with it; what a restart of the server does not end stands in its data.
    pub(crate) fn new(locks: &Locker, name: LockName, at_least: Duration) -> Option<Self> {
        let capabilities = locks.capabilities();
        let stands = capabilities.liveness == LivenessKind::Lease || capabilities.restart_safe;
        // One that is rounded up would close the job for longer than was asked for.
        let fits = capabilities.ttl.check(at_least).is_ok() && capabilities.ttl.round_up(at_least) == at_least;
        let offered = capabilities.fixed_lease && capabilities.inspect && stands && fits;
        offered.then(|| Self { locks: locks.clone(), name, ttl: at_least })
    }

    /// How long the job is still closed.
    pub(crate) async fn closed_for(&self) -> Result<Option<Duration>> {
        let holder = self.locks.inspect(self.name.as_str()).await?;
        Ok(holder.map(|holder| holder.expires_in.unwrap_or(self.ttl)))
    }

    /// Closes the job from now on. `false` when it is closed already.
    pub(crate) async fn set(&self) -> Result<bool> {
        let claim = Claim::new(self.name.clone(), self.ttl).fixed();
        let attempt = self.locks.backend().try_acquire(&claim).await;
        self.forget_later(claim);
        Ok(matches!(attempt?, Attempt::Granted(_)))
    }

    /// Once it has ended by itself, the client need not remember it.
    fn forget_later(&self, claim: Claim) {
        let backend = Arc::downgrade(self.locks.backend());
        let clock = self.locks.clock().clone();
        let ended = clock.now().plus(self.ttl + self.locks.capabilities().slack);
        tokio::spawn(async move {
            clock.sleep_until(ended).await;
            if let Some(backend) = backend.upgrade() {
                // It holds nothing any more; a failure leaves a line in the client's memory.
                let _ = backend.release(&claim).await;
            }
        });
    }
}
