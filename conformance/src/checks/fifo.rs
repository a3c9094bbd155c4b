//! Clause 10: `Queueing::Fifo` is the order in which `Queued` was answered.

use std::sync::{Arc, Mutex, PoisonError};

use lockyard_api::Attempt;
use tokio::task::JoinSet;

use super::checks;
use crate::steps::{acquire, granted, queued};
use crate::stop::ensure;
use crate::{Checked, Context, Stop};

checks! { 10 fifo: order, newcomer_does_not_overtake }

async fn order(ctx: &Context) -> Checked {
    ctx.needs_fifo()?;
    let a = ctx.client().await?;
    let name = ctx.name();
    let first = ctx.claim(&name);
    granted(a.lock.try_acquire(&first).await?)?;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let mut waiters = JoinSet::new();
    for place in 0..5 {
        let (client, claim) = (ctx.client().await?, ctx.brisk(&name));
        queued(client.lock.try_acquire(&claim).await?)?;
        let (seen, limit) = (Arc::clone(&seen), ctx.recheck(&claim) * 3);
        waiters.spawn(async move {
            // The whole of it: the link has to live as long as its client.
            let client = client;
            acquire(&*client.lock, &claim, limit).await?;
            seen.lock().unwrap_or_else(PoisonError::into_inner).push(place);
            Checked::Ok(client.lock.release(&claim).await?)
        });
    }
    a.lock.release(&first).await?;
    while let Some(ended) = waiters.join_next().await {
        ended.map_err(|panic| Stop::failed(format_args!("a waiter ended by a panic: {panic}")))??;
    }
    let seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    ensure!(*seen == [0, 1, 2, 3, 4], "waiters that queued as 0 to 4 were served in the order {seen:?}");
    Ok(())
}

async fn newcomer_does_not_overtake(ctx: &Context) -> Checked {
    ctx.needs_fifo()?;
    let (a, b, c) = ctx.three().await?;
    let name = ctx.name();
    let (first, second) = (ctx.claim(&name), ctx.claim(&name).queueing());
    granted(a.lock.try_acquire(&first).await?)?;
    queued(b.lock.try_acquire(&second).await?)?;
    a.lock.release(&first).await?;
    let attempt = c.lock.try_acquire(&ctx.claim(&name)).await?;
    ensure!(!matches!(attempt, Attempt::Granted(_)), "a newcomer got the name ahead of a waiter");
    acquire(&*b.lock, &second, ctx.recheck(&second)).await?;
    Ok(())
}
