//! Releases that nobody waits for.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, Semaphore};
use tracing::{Instrument, Span};

use super::backoff::Backoff;
use super::core::Core;
use super::spans;
use super::turn::Turn;
use crate::{Claim, ErrorKind, LivenessKind, Operation};

/// How many background releases are under way at once.
const AT_ONCE: usize = 64;
/// A session that cannot be told to release for so long is given up; its end frees the name.
const LONGEST: Duration = Duration::from_secs(600);

/// The background releases of a `Locker`.
pub(crate) struct Releases {
    pending: AtomicUsize,
    drained: Notify,
    permits: Semaphore,
}

impl Default for Releases {
    fn default() -> Self {
        Self { pending: AtomicUsize::new(0), drained: Notify::new(), permits: Semaphore::new(AT_ONCE) }
    }
}

impl Releases {
    pub(crate) fn pending(&self) -> usize {
        self.pending.load(Ordering::SeqCst)
    }

    /// Ends when no release is under way.
    pub(crate) async fn drained(&self) {
        loop {
            let drained = self.drained.notified();
            if self.pending() == 0 {
                return;
            }
            drained.await;
        }
    }
}

/// Counts a release as long as it lives, also when its task is dropped.
struct Pending(std::sync::Weak<Core>);

impl Pending {
    fn new(core: &Arc<Core>) -> Self {
        core.releases.pending.fetch_add(1, Ordering::SeqCst);
        Self(Arc::downgrade(core))
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let Some(core) = self.0.upgrade()
            && core.releases.pending.fetch_sub(1, Ordering::SeqCst) == 1
        {
            core.releases.drained.notify_waiters();
        }
    }
}

/// What a release undoes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Undo {
    /// A hold that somebody had.
    Hold,
    /// What a claim that was given up may have left.
    Claim,
}

/// Releases the turn's claim in the background and repeats it until it is answered; the turn, which is not armed any more,
/// passes on after the first answer.
pub(crate) fn spawn(turn: Turn, what: Undo) {
    let (core, claim) = (Arc::clone(turn.core()), Arc::clone(turn.claim()));
    let pending = Pending::new(&core);
    let handle = core.handle.clone();
    let span = spans::release(&claim, core.events.backend()).unwrap_or_else(Span::none);
    handle.spawn(run(claim, core, Some(turn), what, pending).instrument(span));
}

/// Repeats a release whose first attempt has failed.
pub(crate) fn retry(claim: Arc<Claim>, core: &Arc<Core>, what: Undo) {
    let pending = Pending::new(core);
    core.handle.spawn(run(claim, Arc::clone(core), None, what, pending));
}

async fn run(claim: Arc<Claim>, mut core: Arc<Core>, mut turn: Option<Turn>, what: Undo, pending: Pending) {
    let began = core.clock.now();
    let limit = give_up_after(&core, &claim);
    let mut backoff = Backoff::new(Duration::from_millis(20), Duration::from_secs(2));
    let mut first = turn.is_some();
    loop {
        if !std::mem::take(&mut first) {
            // Asleep it holds no client: when the last user has gone, the end of the client ends the claim.
            let (weak, clock) = (Arc::downgrade(&core), core.clock.clone());
            drop(core);
            clock.sleep(backoff.next()).await;
            let Some(back) = weak.upgrade() else { break };
            core = back;
        }
        let permit = core.releases.permits.acquire().await;
        let result = core.backend.release(&claim).await;
        drop(permit);
        drop(turn.take());
        match result {
            Ok(release) => {
                match what {
                    Undo::Hold => core.events.released(&claim, release),
                    Undo::Claim => core.events.undone(&claim, release),
                }
                break;
            }
            Err(error) if error.kind() == ErrorKind::SessionChanged => break,
            Err(error) => {
                core.events.error(Operation::Release, Some(&claim.name), &error);
                if core.clock.now().since(began) >= limit {
                    core.events.release_abandoned(&claim);
                    break;
                }
            }
        }
    }
    drop(pending);
}

/// A lease that was not renewed for twice its ttl has ended; a session keeps what it has until it ends.
fn give_up_after(core: &Core, claim: &Claim) -> Duration {
    match core.capabilities.liveness {
        LivenessKind::Lease => claim.ttl.saturating_mul(2).min(LONGEST),
        _ => LONGEST,
    }
}
