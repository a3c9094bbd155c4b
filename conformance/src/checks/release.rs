//! Clause 5: `release` touches only its owner's claim.

use lockyard_api::{Outcome, Release};

use super::checks;
use crate::steps::{answered, busy, granted, persist, queued, stands, undo, within};
use crate::stop::{Stop, ensure};
use crate::{Checked, Context};

checks! { 5 release: only_owner, queued_place, absent, idempotent, delayed_request }

async fn only_owner(ctx: &Context) -> Checked {
    let (a, b) = ctx.two().await?;
    let name = ctx.name();
    let claim = ctx.claim(&name);
    granted(a.lock.try_acquire(&claim).await?)?;
    answered(a.lock.release(&ctx.claim(&name)).await?, Release::NotHeld)?;
    answered(b.lock.release(&ctx.claim(&name)).await?, Release::NotHeld)?;
    busy(b.lock.try_acquire(&ctx.claim(&name)).await?)?;
    stands(a.lock.renew(&claim).await?)?;
    answered(a.lock.release(&claim).await?, Release::Released)
}

async fn queued_place(ctx: &Context) -> Checked {
    let (a, b, c) = ctx.three().await?;
    let name = ctx.name();
    let (first, second) = (ctx.claim(&name), ctx.claim(&name).queueing());
    granted(a.lock.try_acquire(&first).await?)?;
    queued(b.lock.try_acquire(&second).await?)?;
    let release = b.lock.release(&second).await?;
    if ctx.is_fifo() {
        answered(release, Release::Released)?;
    }
    if let Some(entries) = ctx.harness().entries(&name).await {
        ensure!(entries == 1, "a holder and a waiter that released are {entries} entries on the server");
    }
    stands(a.lock.renew(&first).await?)?;
    a.lock.release(&first).await?;
    granted(c.lock.try_acquire(&ctx.claim(&name)).await?)?;
    Ok(())
}

async fn absent(ctx: &Context) -> Checked {
    let a = ctx.client().await?;
    let name = ctx.name();
    answered(a.lock.release(&ctx.claim(&name)).await?, Release::NotHeld)?;
    answered(a.lock.release(&ctx.claim(&name).queueing()).await?, Release::NotHeld)?;
    granted(a.lock.try_acquire(&ctx.claim(&name)).await?)?;
    Ok(())
}

async fn idempotent(ctx: &Context) -> Checked {
    let (a, b, c) = ctx.three().await?;
    let name = ctx.name();
    let (first, second) = (ctx.claim(&name), ctx.claim(&name));
    granted(a.lock.try_acquire(&first).await?)?;
    answered(a.lock.release(&first).await?, Release::Released)?;
    answered(a.lock.release(&first).await?, Release::NotHeld)?;
    granted(b.lock.try_acquire(&second).await?)?;
    // A late repetition finds the next holder and leaves it alone.
    answered(a.lock.release(&first).await?, Release::NotHeld)?;
    stands(b.lock.renew(&second).await?)?;
    busy(c.lock.try_acquire(&ctx.claim(&name)).await?)
}

/// The request is under way when its undo is sent: whatever arrives when, nothing is left for longer than the ttl.
async fn delayed_request(ctx: &Context) -> Checked {
    let (a, b) = ctx.two().await?;
    let link = a.needs_link()?;
    let (warm, name) = (ctx.short(&ctx.name()), ctx.name());
    let ttl = ctx.granted_ttl(&granted(a.lock.try_acquire(&warm).await?)?);
    a.lock.release(&warm).await?;
    let claim = ctx.short(&name).queueing();
    link.silence().await;
    let limit = ctx.harness().op_timeout() + ctx.patience();
    let attempt = within(limit, "a call to a silent server should end", async { Ok(a.lock.try_acquire(&claim).await) });
    let attempt = attempt.await;
    let early =
        within(limit, "a release to a silent server should end", async { Ok(a.lock.release(&claim).await) }).await;
    link.heal().await;
    let Err(failed) = attempt? else { return Err(Stop::failed("the server was silent and try_acquire succeeded")) };
    // What was surely not sent needs nobody's answer: its session may have ended before its turn came.
    let nothing_was_sent = failed.outcome() == Outcome::NotApplied;
    let early = early?;
    let is_known = early.is_err() || (nothing_was_sent && matches!(early, Ok(Release::NotHeld)));
    ensure!(is_known, "the server was silent, the attempt ended with {failed} and the release with {early:?}");
    undo(ctx, &*a.lock, &claim).await?;
    let limit = ctx.takeover(ttl.unwrap_or(claim.ttl)) + ctx.recheck(&claim);
    let (second, _) = persist(&*b.lock, ctx.short(&name).queueing(), limit).await?;
    stands(b.lock.renew(&second).await?)
}
