//! A caller may drop its acquire at any poll.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use fastrand::Rng;
use lockyard_api::{Attempt, Claim, LockName, Locker};

use super::{rng_of, seed, seeded};
use crate::steps::{eventually, persist, undo};
use crate::{Checked, Client, Context};

/// So often, unless the time is over before. `LOCKYARD_ROUNDS` asks for another number, however long that takes.
const ROUNDS: usize = 300;
const TIME: Duration = Duration::from_secs(4);
/// After so many rounds it is looked at what is left.
const LOOK: usize = 50;
/// How long a caller waits for its next poll before it gives up all the same: nothing may come any more.
const NO_POLL: Duration = Duration::from_millis(20);

/// Hundreds of callers that give up at a random poll, of a name that is free, held, or given back just then. Afterwards the
/// next waiter gets the name soon, and nothing of those who gave up is on the server.
pub(super) async fn cancelled_at_each_poll(ctx: &Context) -> Checked {
    let seed = seed();
    run(ctx, rng_of(seed, 0)).await.map_err(|stop| seeded(stop, seed))
}

async fn run(ctx: &Context, mut rng: Rng) -> Checked {
    let (a, b) = ctx.two().await?;
    let (holder, name) = (ctx.client().await?, ctx.name());
    let lockers = [&a, &b].map(|client| Locker::over(Arc::clone(&client.lock)).ttl(ctx.long_ttl()).build());
    let [first, second] = lockers;
    let lockers = [first?, second?];
    let (clock, start) = (ctx.clock(), ctx.clock().now());
    let asked_for = std::env::var("LOCKYARD_ROUNDS").ok().and_then(|text| text.parse().ok());
    let (rounds, time) = asked_for.map_or((ROUNDS, TIME), |rounds| (rounds, Duration::MAX));
    for round in 1..=rounds {
        let locks = &lockers[rng.usize(..lockers.len())];
        give_up_once(ctx, &holder, locks, &name, &mut rng).await?;
        let over = clock.now().since(start) > time;
        if round % LOOK == 0 || over {
            nothing_left(ctx, &holder, &name).await?;
        }
        if over {
            break;
        }
    }
    nothing_left(ctx, &holder, &name).await
}

/// One caller, while the name is free or another holds it, and gives it back or not.
async fn give_up_once(ctx: &Context, holder: &Client, locks: &Locker, name: &LockName, rng: &mut Rng) -> Checked {
    let claim = ctx.claim(name);
    let held = rng.bool() && matches!(holder.lock.try_acquire(&claim).await, Ok(Attempt::Granted(_)));
    let polls = rng.u32(..7);
    let give_up = async {
        // A guard is dropped as well: nobody wants it any more.
        drop(tokio::time::timeout(NO_POLL, up_to(polls, locks.lock(name).acquire())).await);
    };
    let give_back = async {
        if held {
            ctx.clock().sleep(Duration::from_micros(rng.u64(..2_000))).await;
        }
        // Also what was not granted: the answer may have been lost on a busy machine.
        undo(ctx, &*holder.lock, &claim).await.map(|_| ())
    };
    let ((), given_back) = tokio::join!(give_up, give_back);
    given_back
}

/// Others get the name, and nothing is left but their own claim.
async fn nothing_left(ctx: &Context, holder: &Client, name: &LockName) -> Checked {
    let claim: Claim = ctx.claim(name).queueing();
    // A waiter, not one who asks again and again: it must be told. Less than the lease that would end what was left.
    let (claim, _) = persist(&*holder.lock, claim, ctx.patience()).await?;
    eventually(ctx.patience(), "the one who holds the name should be its only entry on the server", || async {
        Ok(ctx.harness().entries(name).await.unwrap_or(1) == 1)
    })
    .await?;
    undo(ctx, &*holder.lock, &claim).await.map(|_| ())
}

/// Polls a future so often at most, and drops it after the last: `None` then.
async fn up_to<F: Future>(polls: u32, future: F) -> Option<F::Output> {
    let mut future: Option<Pin<Box<F>>> = Some(Box::pin(future));
    let mut left = polls;
    std::future::poll_fn(move |context| {
        let Some(running) = future.as_mut().filter(|_| left > 0) else {
            future = None;
            return Poll::Ready(None);
        };
        left -= 1;
        match running.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if left == 0 => {
                future = None;
                Poll::Ready(None)
            }
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}
