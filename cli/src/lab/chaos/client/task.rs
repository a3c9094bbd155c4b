//! One acquisition: from the request to the end of its hold.

use std::sync::Arc;
use std::time::Duration;

use lockyard::{Clock, Guard, Locker, Release};
use lockyard_conformance::history::What;
use tokio::sync::mpsc::UnboundedReceiver;

use super::super::puppet::{Do, nanos, now};
use super::Told;
use super::register::{Answer, Register};

/// How often a hold is looked at for a new deadline.
const LOOK: Duration = Duration::from_millis(20);
/// A deadline that moved by less did not move: it is computed from two readings of the clock.
const MOVED: u64 = 5_000_000;

pub(super) struct Acquisition {
    op: u64,
    name: String,
    told: Arc<Told>,
    register: Option<Register>,
}

impl Acquisition {
    pub(super) const fn new(op: u64, name: String, told: Arc<Told>, register: Option<Register>) -> Self {
        Self { op, name, told, register }
    }

    fn tell(&self, at: u64, what: What) {
        self.told.tell(at, self.op, &self.name, what);
    }

    /// Runs to the end of the hold: when it is given back, or when there are no more steps.
    pub(super) async fn run(self, locks: Locker, request: Do, mut steps: UnboundedReceiver<Do>) {
        let acquire = async {
            if let Do::Race { at, .. } = request {
                Clock::system().sleep(Duration::from_nanos(at.saturating_sub(now()))).await;
            }
            self.tell(now(), What::Acquire);
            acquire(&locks, &self.name, request).await
        };
        let granted = tokio::select! {
            granted = acquire => granted,
            // Whatever the step, or the end of the steps: the request is dropped.
            _ = steps.recv() => {
                let (operation, kind) = ("acquire".to_owned(), "cancelled".to_owned());
                return self.tell(now(), What::Failed { operation, kind, unknown: true });
            }
        };
        match granted {
            Ok(Some(guard)) => self.hold(guard, steps).await,
            Ok(None) => self.tell(now(), What::Busy),
            Err(error) => self.told.failed(self.op, &self.name, "acquire", &error),
        }
    }

    async fn hold(self, guard: Guard, mut steps: UnboundedReceiver<Do>) {
        let (at, mut until) = deadline(&guard);
        let token = guard.fencing_token().map(lockyard::FencingToken::get);
        self.tell(at, What::Granted { owner: guard.claim().owner.to_string(), token, until });
        let (clock, mut is_lost) = (Clock::system(), false);
        loop {
            tokio::select! {
                biased;
                reason = guard.lost(), if !is_lost => {
                    is_lost = true;
                    self.tell(now(), What::Lost { reason: reason.as_str().to_owned() });
                }
                step = steps.recv() => match step {
                    Some(Do::Write) => self.write(token).await,
                    Some(Do::Release) => return self.release(guard).await,
                    Some(Do::Acquire { .. } | Do::Try { .. } | Do::Race { .. } | Do::Cancel) => {}
                    Some(Do::Drop) | None => {
                        self.tell(now(), What::Release);
                        return drop(guard);
                    }
                },
                () = clock.sleep(LOOK), if !is_lost => {
                    let (at, later) = deadline(&guard);
                    if later > until.saturating_add(MOVED) {
                        until = later;
                        self.tell(at, What::Held { until });
                    }
                }
            }
        }
    }

    async fn release(&self, guard: Guard) {
        self.tell(now(), What::Release);
        match guard.release().await {
            Ok(release) => self.tell(now(), What::Released { held: release == Release::Released }),
            Err(error) => self.told.failed(self.op, &self.name, "release", &error),
        }
    }

    async fn write(&self, token: Option<u64>) {
        let (Some(register), Some(token)) = (&self.register, token) else { return };
        self.tell(now(), What::Write { token: Some(token) });
        match register.write(token).await {
            Ok(Answer::Written) => self.tell(now(), What::Written),
            Ok(Answer::Stale) => self.tell(now(), What::Stale),
            Err(error) => {
                let (operation, kind) = ("write".to_owned(), error.kind().to_string());
                self.tell(now(), What::Failed { operation, kind, unknown: true });
            }
        }
    }
}

async fn acquire(locks: &Locker, name: &str, request: Do) -> lockyard::Result<Option<Guard>> {
    match request {
        Do::Acquire { wait_ms, .. } => locks.lock(name).wait(Duration::from_millis(wait_ms)).acquire().await.map(Some),
        _ => locks.lock(name).try_acquire().await,
    }
}

/// When this is, and up to when the guard may be believed: never later than D, since the clock is read before.
fn deadline(guard: &Guard) -> (u64, u64) {
    let now = Clock::system().now();
    (nanos(now), nanos(now.plus(guard.remaining())))
}
