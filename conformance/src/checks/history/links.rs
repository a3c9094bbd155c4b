//! Links that break at any time, and the history of those behind them.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fastrand::Rng;
use lockyard_api::{Clock, Guard, LockName, Locker, Moment};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::{rng_of, seed, seeded};
use crate::history::{Event, FaultKind, FaultWindow, History, Rules, What};
use crate::steps::within;
use crate::timing::scaled;
use crate::{Checked, Client, Context, Link, Stop};

const CLIENTS: u32 = 4;
const NAMES: usize = 2;
/// How often a hold is looked at.
const LOOK: Duration = Duration::from_millis(5);

/// Four clients fight for two names while their links are silent, closed, or lose a reply. What they saw is that of a
/// lock; and when all links are well again, each gets each name.
pub(super) async fn random_links(ctx: &Context) -> Checked {
    let seed = seed();
    run(ctx, seed).await.map_err(|stop| seeded(stop, seed))
}

async fn run(ctx: &Context, seed: u64) -> Checked {
    let names: Arc<[LockName]> = (0..NAMES).map(|_| ctx.name()).collect();
    let record = Record::default();
    let (stop, stopped) = watch::channel(false);
    let (mut workers, mut breakers) = (JoinSet::new(), JoinSet::new());
    // The longer a lease, the longer until its end can be seen.
    let until = ctx.clock().now().plus((ctx.harness().ttl() * 2).max(Duration::from_secs(4)));
    for process in 1..=CLIENTS {
        let client = ctx.client().await?;
        client.needs_link()?;
        let worker = Worker { process, client: client.clone(), ctx: ctx.clone(), record: record.clone(), op: 0 };
        workers.spawn(worker.work(Arc::clone(&names), rng_of(seed, u64::from(process)), stopped.clone()));
        let breaker = Breaker { process, ttl: ctx.harness().ttl(), record: record.clone() };
        let rng = rng_of(seed, u64::from(CLIENTS + process));
        breakers.spawn(async move { breaker.work(client.needs_link()?, rng, until).await });
    }
    all_end(&mut breakers).await?;
    stop.send_replace(true);
    let recovery = scaled(Duration::from_secs(30));
    within(recovery, "with all links well again every client should get every name", all_end(&mut workers)).await?;
    let mut history = History::new(Rules::of(ctx.capabilities(), ctx.harness().ttl(), ctx.harness().op_timeout()));
    (history.events, history.faults) = record.take();
    let verdict = history.check();
    match verdict.violations.first() {
        None => Ok(()),
        Some(violation) => Err(Stop::failed(violation)),
    }
}

async fn all_end(tasks: &mut JoinSet<Checked>) -> Checked {
    while let Some(ended) = tasks.join_next().await {
        ended.map_err(|panic| Stop::failed(format_args!("a task ended by a panic: {panic}")))??;
    }
    Ok(())
}

/// What all who take part write into.
#[derive(Clone, Default)]
struct Record(Arc<Mutex<(Vec<Event>, Vec<FaultWindow>)>>);

impl Record {
    fn event(&self, event: Event) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0.push(event);
    }

    fn fault(&self, fault: FaultWindow) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).1.push(fault);
    }

    fn take(&self) -> (Vec<Event>, Vec<FaultWindow>) {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The time of events: `CLOCK_BOOTTIME`.
fn nanos(moment: Moment) -> u64 {
    u64::try_from(moment.since_boot().as_nanos()).unwrap_or(u64::MAX)
}

struct Worker {
    process: u32,
    client: Client,
    ctx: Context,
    record: Record,
    op: u64,
}

impl Worker {
    /// Takes names until told to stop, and then each of them once more.
    async fn work(mut self, names: Arc<[LockName]>, mut rng: Rng, stop: watch::Receiver<bool>) -> Checked {
        let locks = Locker::over(Arc::clone(&self.client.lock)).ttl(self.ctx.harness().ttl()).build()?;
        while !*stop.borrow() {
            let name = &names[rng.usize(..names.len())];
            let wait = Duration::from_millis(rng.u64(10..1_000));
            // Failures are what broken links are for.
            if let Ok(guard) = locks.lock(name).wait(wait).acquire().await {
                let time =
                    if rng.u8(..6) == 0 { self.ctx.harness().ttl() } else { Duration::from_millis(rng.u64(..30)) };
                self.hold(guard, time).await;
            }
            self.ctx.clock().sleep(Duration::from_millis(rng.u64(..10))).await;
        }
        for name in names.iter() {
            loop {
                // An outage that has just ended may still be told.
                if let Ok(guard) = locks.acquire(name).await {
                    self.hold(guard, Duration::ZERO).await;
                    break;
                }
                self.ctx.clock().sleep(Duration::from_millis(50)).await;
            }
        }
        Ok(())
    }

    /// Looks at the hold all the time. Only what was seen counts: up to the last look at which it was held.
    async fn hold(&mut self, guard: Guard, time: Duration) {
        self.op += 1;
        let (clock, name) = (Clock::system(), guard.name().as_str().to_owned());
        let (owner, token) = (guard.claim().owner.to_string(), guard.fencing_token().map(|token| token.get()));
        let begin = clock.now();
        let tell = |at, what| self.record.event(Event::new(nanos(at), self.process, self.op, name.as_str(), what));
        // No longer than this moment, unless the first look shows more.
        tell(begin, What::Granted { owner, token, until: nanos(begin) });
        loop {
            let now = clock.now();
            if !guard.is_held() {
                tell(now, What::Lost { reason: "seen".to_owned() });
                break;
            }
            tell(now, What::Held { until: nanos(now) });
            if now.since(begin) >= time {
                tell(clock.now(), What::Release);
                break;
            }
            clock.sleep(LOOK).await;
        }
        // Unanswered, it goes on in the background.
        drop(guard.release().await);
    }
}

struct Breaker {
    process: u32,
    ttl: Duration,
    record: Record,
}

impl Breaker {
    /// Breaks the link again and again, and leaves it well.
    async fn work(self, link: &dyn Link, mut rng: Rng, until: Moment) -> Checked {
        let clock = Clock::system();
        while clock.now() < until {
            let quiet = Duration::from_millis(rng.u64(50..600));
            clock.sleep(quiet).await;
            let from = nanos(clock.now());
            let time = self.ttl.mul_f64(0.05 + rng.f64() * 1.2);
            let fault = match rng.u8(..4) {
                0 => {
                    link.silence().await;
                    clock.sleep(time).await;
                    FaultKind::LinkHeld
                }
                1 => {
                    // What is on its way is lost.
                    link.silence().await;
                    clock.sleep(time / 4).await;
                    link.cut().await;
                    FaultKind::LinkCut
                }
                2 => {
                    link.cut().await;
                    FaultKind::LinkCut
                }
                _ => {
                    link.swallow_reply().await;
                    clock.sleep(time / 2).await;
                    FaultKind::RepliesSwallowed
                }
            };
            link.heal().await;
            // The swallowed reply may be the next one after this: it is a fault until the end.
            let to = if fault == FaultKind::RepliesSwallowed { u64::MAX } else { nanos(clock.now()) };
            self.record.fault(FaultWindow::new(fault, from, to, Some(self.process)));
        }
        Ok(())
    }
}
