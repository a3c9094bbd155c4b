//! Clause 10: `Queueing::Fifo` is the order in which `Queued` was answered.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lockyard_api::{Attempt, LockName};
use tokio::task::JoinSet;

use super::checks;
use crate::steps::{acquire, granted, queued};
use crate::stop::ensure;
use crate::timing::scaled;
use crate::{Checked, Client, Context, Stop};

checks! { 10 fifo: order, newcomer_does_not_overtake, shares v2 alone }

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

/// Clients that come back again and again, one of them far away: nobody is served twice while another waits (B136).
async fn shares(ctx: &Context) -> Checked {
    ctx.needs_fifo()?;
    let (name, served) = (ctx.name(), Arc::new(Mutex::new(Vec::new())));
    let mut tasks = JoinSet::new();
    for number in 0..CLIENTS {
        let client = ctx.client().await?;
        if let (0, Some(link)) = (number, &client.link) {
            // Where there is no such delay all are as near.
            let _ = link.delay(Duration::from_millis(30)).await;
        }
        tasks.spawn(take_turns(ctx.clone(), client, name.clone(), number, Arc::clone(&served)));
    }
    while let Some(ended) = tasks.join_next().await {
        ended.map_err(|panic| Stop::failed(format_args!("a client ended by a panic: {panic}")))??;
    }
    Ok(())
}

const CLIENTS: usize = 8;

async fn take_turns(
    ctx: Context,
    client: Client,
    name: LockName,
    number: usize,
    served: Arc<Mutex<Vec<usize>>>,
) -> Checked {
    let (clock, start) = (ctx.clock(), ctx.clock().now());
    let seen = || served.lock().unwrap_or_else(PoisonError::into_inner).clone();
    for round in 0..5 {
        // Fewer where a hand-over takes long.
        if round > 0 && clock.now().since(start) > scaled(Duration::from_secs(10)) {
            break;
        }
        let claim = ctx.brisk(&name);
        let mut before = None;
        if let Attempt::Queued = client.lock.try_acquire(&claim).await? {
            before = Some(seen().len());
            acquire(&*client.lock, &claim, scaled(Duration::from_secs(45))).await?;
        }
        let ahead = before.map(|before| seen().split_off(before));
        served.lock().unwrap_or_else(PoisonError::into_inner).push(number);
        for other in 0..CLIENTS {
            let turns = ahead.iter().flatten().filter(|one| **one == other).count();
            ensure!(turns <= 1, "client {number} waited and client {other} was served {turns} times: {ahead:?}");
        }
        clock.sleep(Duration::from_millis(2)).await;
        client.lock.release(&claim).await?;
    }
    Ok(())
}
