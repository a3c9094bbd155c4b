//! The front end over this backend, shared: clones of one locker, and callers that give up while others release.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use lockyard_api::{Attempt, ErrorKind, Guard, LivenessKind, LockName, Locker, Outcome, Release};

use super::checks;
use super::frontend::locker;
use crate::steps::{busy, granted, within};
use crate::stop::ensure;
use crate::timing::scaled;
use crate::{Checked, Client, Context, Stop};

checks! { 0 frontend: no_reentry v2, late_clone_spares_the_next v2, given_up_at_the_release v2, handed_on_tokens_rise v2 }

/// A second acquire of the same task does not enter, with or without the local queue, and frees nothing (B14).
async fn no_reentry(ctx: &Context) -> Checked {
    let (a, b) = ctx.two().await?;
    for local_queue in [true, false] {
        let locks = Locker::over(Arc::clone(&a.lock)).local_queue(local_queue).build()?;
        let (name, ttl) = (ctx.name(), ctx.long_ttl());
        let again = || locks.lock(&name).ttl(ttl);
        let outer = again().try_acquire().await?.ok_or_else(|| Stop::failed("the name is free and busy"))?;
        ensure!(again().try_acquire().await?.is_none(), "the holder's own second try got a second guard");
        let wait = Duration::from_millis(50);
        let limit = wait + ctx.patience() + ctx.harness().op_timeout();
        let inner = within(limit, "a wait should end", async { Ok(again().wait(wait).acquire().await) }).await?;
        let Err(error) = inner else { return Err(Stop::failed("the holder's own second acquire got a second guard")) };
        ensure!(error.kind() == ErrorKind::Timeout, "the wait is over and the error is {error:?}");
        busy(b.lock.try_acquire(&ctx.claim(&name)).await?)?;
        ensure!(outer.is_held(), "a second acquire took the first one's hold");
        ensure!(outer.release().await? == Release::Released, "a second acquire freed the first one's hold");
    }
    Ok(())
}

/// A grant of the server has room for the tokens of those it is handed on to in the process: the next grant's is larger.
async fn handed_on_tokens_rise(ctx: &Context) -> Checked {
    const HANDOFFS: u8 = u8::MAX;
    ctx.needs_fencing()?;
    let (a, b) = ctx.two().await?;
    let forever = Duration::from_secs(3600);
    let locks = Locker::over(Arc::clone(&a.lock)).cohort(HANDOFFS).cohort_time(forever).build()?;
    let (name, ttl) = (ctx.name(), ctx.long_ttl());
    let ask = || locks.lock(&name).ttl(ttl).acquire();
    let mut guard = within(ctx.patience(), "a free name should be acquired", async { Ok(ask().await?) }).await?;
    let owner = guard.claim().owner;
    let mut last = guard.fencing_token();
    for handoff in 1..=HANDOFFS {
        let mut next = Box::pin(ask());
        let waits = poll_fn(|context| Poll::Ready(next.as_mut().poll(context).is_pending())).await;
        ensure!(waits, "two guards of one name by one locker");
        let (good_until, lease) = (ctx.clock().now().plus(guard.remaining()), guard.ttl().unwrap_or(forever));
        ensure!(guard.release().await? == Release::Released, "a held guard released nothing");
        guard = within(ctx.patience(), "a lock handed on should arrive", async { Ok(next.await?) }).await?;
        if guard.claim().owner != owner {
            // What is near its end, since nothing was heard of the server for long, goes back to it.
            let is_young = good_until.since(ctx.clock().now()) > lease / 2;
            ctx.needs(is_young, "the machine is too slow for a ttl this short")?;
        }
        ensure!(guard.claim().owner == owner, "after {handoff} hand-offs the lock went to the server");
        let token = guard.fencing_token();
        ensure!(token > last, "token {token:?} after {last:?}");
        last = token;
        if handoff == 1 || handoff == HANDOFFS {
            busy(b.lock.try_acquire(&ctx.claim(&name)).await?)?;
        }
    }
    ensure!(guard.release().await? == Release::Released, "the last of a cohort released nothing");
    let next = granted(b.lock.try_acquire(&ctx.claim(&name)).await?)?.token;
    ensure!(next > last, "the server's next token is {next:?}, after {last:?} that was handed on");
    Ok(())
}

/// A hold that will end although its client lives on: by its fixed lease, or with its session.
async fn mortal(ctx: &Context, locks: &Locker, name: &LockName) -> Checked<Guard> {
    let request = locks.lock(name).ttl(ctx.harness().ttl());
    let fixed = ctx.capabilities().fixed_lease;
    let session = ctx.capabilities().liveness == LivenessKind::Session;
    ctx.needs(fixed || session, "a hold that lives as long as its client is never late")?;
    within(ctx.patience(), "a free name should be acquired", async {
        Ok(if fixed { request.fixed().acquire().await? } else { request.acquire().await? })
    })
    .await
}

/// Ends it, and waits until its holder knows.
async fn ended(ctx: &Context, client: &Client, late: &Guard) -> Checked {
    if !ctx.capabilities().fixed_lease {
        ctx.harness().end_session(client).await.made()?;
    }
    let limit = ctx.takeover(late.ttl().unwrap_or_default()) + ctx.harness().op_timeout();
    within(limit, "a hold that has ended should be told lost", async { Ok(late.lost().await) }).await?;
    Ok(())
}

/// Two tasks share one locker: the late one releases its own hold and not the other's (B04).
async fn late_clone_spares_the_next(ctx: &Context) -> Checked {
    let (a, b) = ctx.two().await?;
    let (locks, name) = (locker(&a)?, ctx.name());
    let late = mortal(ctx, &locks, &name).await?;
    let (clone, claim) = (locks.clone(), ctx.brisk(&name));
    let limit = ctx.takeover(late.ttl().unwrap_or_default()) + ctx.recheck(&claim);
    let next = within(limit, "the name of a hold that has ended should become free", async {
        Ok(clone.lock(&name).ttl(claim.ttl).acquire().await?)
    });
    let (ended, next) = tokio::join!(ended(ctx, &a, &late), next);
    ended?;
    let next = next?;
    ensure!(next.claim().owner != late.claim().owner, "two acquisitions of one locker have one owner");
    let known = late.fencing_token().is_some();
    ensure!(!known || next.fencing_token() > late.fencing_token(), "the later hold's token is not the larger one");
    // On the connection that ended with the hold there may be no answer; an answer is that nothing was released.
    if let Ok(release) = late.release().await {
        ensure!(release == Release::NotHeld, "a hold that has ended was released");
    }
    busy(b.lock.try_acquire(&ctx.claim(&name)).await?)?;
    ensure!(next.is_held(), "the next holder lost the name to a late release by a clone");
    ensure!(next.release().await? == Release::Released, "the next holder's claim was released by a late clone");
    Ok(())
}

/// Callers whose time is over just when the holder releases have the lock or an error, and the server agrees (B11).
async fn given_up_at_the_release(ctx: &Context) -> Checked {
    let (a, b, c) = ctx.three().await?;
    let d = ctx.client().await?;
    let (holder, waiter, clock) = (locker(&a)?, locker(&b)?, ctx.clock());
    let mut name = ctx.name();
    let (ttl, start) = (ctx.long_ttl(), ctx.clock().now());
    for round in 0..200 {
        if round >= 20 && clock.now().since(start) > scaled(Duration::from_secs(15)) {
            break;
        }
        let limit = ctx.takeover(ttl);
        let guard = within(limit, "the name of a claim that was given up should be free", async {
            Ok(holder.lock(&name).ttl(ttl).acquire().await?)
        })
        .await?;
        ensure!(guard.is_held(), "a fresh guard is not held");
        let release = async {
            clock.sleep(Duration::from_micros(fastrand::u64(2_000..9_000))).await;
            Checked::Ok(guard.release().await?)
        };
        let wait = Duration::from_micros(fastrand::u64(2_000..9_000));
        let (released, got) = tokio::join!(release, waiter.lock(&name).ttl(ttl).wait(wait).acquire());
        ensure!(released? == Release::Released, "a held guard released nothing");
        match got {
            Ok(guard) => agreed(ctx, &c, guard).await?,
            Err(error) if error.kind() != ErrorKind::Timeout => return Err(error.into()),
            Err(error) if error.outcome() == Outcome::NotApplied => {
                let claim = ctx.claim(&name);
                granted(d.lock.try_acquire(&claim).await?)?;
                d.lock.release(&claim).await?;
            }
            // What is left of it goes in its own time.
            Err(_) => name = ctx.name(),
        }
    }
    Ok(())
}

/// Who has a guard holds the name at the server.
async fn agreed(ctx: &Context, other: &Client, guard: Guard) -> Checked {
    let attempt = other.lock.try_acquire(&ctx.claim(guard.name())).await?;
    ensure!(!matches!(attempt, Attempt::Granted(_)), "acquire gave a guard and another could enter");
    ensure!(guard.is_held(), "acquire gave a guard that is not held");
    ensure!(guard.release().await? == Release::Released, "acquire gave a guard and the server knows of no hold");
    Ok(())
}
