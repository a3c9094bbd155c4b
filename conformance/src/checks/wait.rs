//! Clause 11: a dropped `wait` harms nobody, and a waiter does not block the holder's own work on the server.

use std::future::Future;
use std::pin::pin;
use std::task::Poll;

use lockyard_api::{Claim, LockName, Wake};

use super::checks;
use crate::steps::{POLL, acquire, dropped_wait, granted, queued, served_first, stands, within};
use crate::stop::ensure;
use crate::{Checked, Client, Context, Fault, Stop};

checks! {
    11 wait: dropped_wait_keeps_place, dropped_then_released_harms_nobody, holder_can_work, parked_wait_blocks_nobody,
    released_wait_is_no_grant v2
}

/// A held name with its holder's claim.
async fn held(ctx: &Context, holder: &Client) -> Checked<(LockName, Claim)> {
    let name = ctx.name();
    let claim = ctx.claim(&name);
    granted(holder.lock.try_acquire(&claim).await?)?;
    Ok((name, claim))
}

async fn dropped_wait_keeps_place(ctx: &Context) -> Checked {
    let (a, b, c) = ctx.three().await?;
    let (name, first) = held(ctx, &a).await?;
    let (second, third) = (ctx.claim(&name).queueing(), ctx.claim(&name).queueing());
    queued(b.lock.try_acquire(&second).await?)?;
    if ctx.is_fifo() {
        queued(c.lock.try_acquire(&third).await?)?;
    }
    dropped_wait(&*b.lock, &second).await?;
    dropped_wait(&*b.lock, &second).await?;
    a.lock.release(&first).await?;
    if ctx.is_fifo() {
        served_first((&*b.lock, &second), (&*c.lock, &third), ctx.recheck(&second)).await?;
        b.lock.release(&second).await?;
        acquire(&*c.lock, &third, ctx.recheck(&third)).await?;
    } else {
        acquire(&*b.lock, &second, ctx.recheck(&second)).await?;
    }
    Ok(())
}

async fn dropped_then_released_harms_nobody(ctx: &Context) -> Checked {
    let (a, b, c) = ctx.three().await?;
    let (name, first) = held(ctx, &a).await?;
    let (second, third) = (ctx.claim(&name).queueing(), ctx.claim(&name).queueing());
    queued(b.lock.try_acquire(&second).await?)?;
    queued(c.lock.try_acquire(&third).await?)?;
    dropped_wait(&*b.lock, &second).await?;
    b.lock.release(&second).await?;
    stands(a.lock.renew(&first).await?)?;
    a.lock.release(&first).await?;
    acquire(&*c.lock, &third, ctx.wake(&third)).await?;
    if let Some(entries) = ctx.harness().entries(&name).await {
        ensure!(entries == 1, "a holder and a waiter that gave up are {entries} entries on the server");
    }
    Ok(())
}

async fn holder_can_work(ctx: &Context) -> Checked {
    let (a, b) = ctx.two().await?;
    let (name, first) = held(ctx, &a).await?;
    let second = ctx.claim(&name).queueing();
    queued(b.lock.try_acquire(&second).await?)?;
    let work = async {
        ctx.clock().sleep(POLL * 5).await;
        let other = ctx.claim(&ctx.name());
        within(ctx.patience(), "a holder should get on with its work while another waits", async {
            granted(a.lock.try_acquire(&other).await?)?;
            a.lock.release(&other).await?;
            stands(a.lock.renew(&first).await?)
        })
        .await?;
        let limit = ctx.recheck(&second);
        let work = within(limit, "the holder's own work on the server should end", async {
            Ok(ctx.harness().work_while_waited_for().await)
        });
        match work.await? {
            Fault::Done | Fault::NotOffered(_) => Checked::Ok(()),
        }
    };
    // A waiter that waits all the time, as the front end's does.
    tokio::select! {
        done = work => done?,
        early = acquire(&*b.lock, &second, ctx.recheck(&second) * 2) => {
            early?;
            ensure!(false, "the name is held and a waiter got it");
        }
    }
    a.lock.release(&first).await?;
    acquire(&*b.lock, &second, ctx.recheck(&second)).await?;
    Ok(())
}

/// A wait that was polled once and is kept without being polled holds nothing that its client needs.
async fn parked_wait_blocks_nobody(ctx: &Context) -> Checked {
    let (a, b) = ctx.two().await?;
    let (name, first) = held(ctx, &a).await?;
    let second = ctx.claim(&name).queueing();
    queued(b.lock.try_acquire(&second).await?)?;
    let mut parked = pin!(b.lock.wait(&second));
    std::future::poll_fn(|cx| Poll::Ready(parked.as_mut().poll(cx).is_ready())).await;
    let other = ctx.claim(&ctx.name());
    within(ctx.patience(), "a client should work while one of its waits is not polled", async {
        granted(b.lock.try_acquire(&other).await?)?;
        stands(b.lock.renew(&other).await?)?;
        b.lock.release(&other).await?;
        b.lock.release(&second).await?;
        Ok(a.lock.release(&first).await?)
    })
    .await?;
    granted(a.lock.try_acquire(&ctx.claim(&name)).await?)?;
    Ok(())
}

/// A wait whose claim is released meanwhile may end or not: it does not end in a grant (B11).
async fn released_wait_is_no_grant(ctx: &Context) -> Checked {
    let (a, b, c) = ctx.three().await?;
    let (name, first) = held(ctx, &a).await?;
    let second = ctx.claim(&name).queueing();
    queued(b.lock.try_acquire(&second).await?)?;
    let listening = async {
        match b.lock.wait(&second).await {
            Ok(Wake::Granted(grant)) => {
                Stop::failed(format_args!("the claim was released and its wait answered {grant:?}"))
            }
            _ => std::future::pending().await,
        }
    };
    let undone = async {
        ctx.clock().sleep(POLL * 5).await;
        b.lock.release(&second).await?;
        ctx.clock().sleep(POLL * 5).await;
        stands(a.lock.renew(&first).await?)?;
        a.lock.release(&first).await?;
        ctx.clock().sleep(POLL * 5).await;
        Checked::Ok(())
    };
    tokio::select! {
        failed = listening => return Err(failed),
        undone = undone => undone?,
    }
    granted(c.lock.try_acquire(&ctx.claim(&name)).await?)?;
    Ok(())
}
