//! Clause 15: a holder that hangs loses the lock, and a waiter that hangs does not block for long.

use lockyard_api::{Release, Renewal};

use super::checks;
use crate::steps::{acquire, answered, eventually, granted, lost, queued, queued_behind, renew, stands, undo};
use crate::stop::ensure;
use crate::{Checked, Context};

checks! { 15 hung: holder_loses, waiter_does_not_block_for_long, waiter_is_forgotten v2 }

async fn holder_loses(ctx: &Context) -> Checked {
    ctx.needs_expiry()?;
    let (a, b) = ctx.two().await?;
    let link = a.needs_link()?;
    let name = ctx.name();
    let (first, second) = (ctx.short(&name), ctx.short(&name).queueing());
    let hold = granted(a.lock.try_acquire(&first).await?)?;
    let ttl = ctx.granted_ttl(&hold)?;
    queued_behind(ctx, &hold, b.lock.try_acquire(&second).await?)?;
    link.silence().await;
    let taken = acquire(&*b.lock, &second, ctx.takeover(ttl) + ctx.recheck(&second)).await;
    // The next holder stays: its hold is made long before the late one stirs.
    let kept = async {
        let next = taken?;
        let renewal = b.lock.renew(&second).await?;
        // Nobody has renewed the next hold either.
        ctx.needs(renewal != Renewal::Lost || !ctx.is_over(&next), "the machine is too slow for a ttl this short")?;
        stands(renewal)
    }
    .await;
    link.heal().await;
    kept?;
    lost(renew(ctx, &*a.lock, &first).await?)?;
    answered(undo(ctx, &*a.lock, &first).await?, Release::NotHeld)
}

async fn waiter_does_not_block_for_long(ctx: &Context) -> Checked {
    ctx.needs_expiry()?;
    let (a, b, c) = ctx.three().await?;
    let link = b.needs_link()?;
    let name = ctx.name();
    let (first, hung, third) = (ctx.claim(&name), ctx.short(&name).queueing(), ctx.short(&name).queueing());
    let ttl = ctx.granted_ttl(&granted(a.lock.try_acquire(&first).await?)?)?.min(hung.ttl * 2);
    queued(b.lock.try_acquire(&hung).await?)?;
    queued(c.lock.try_acquire(&third).await?)?;
    link.silence().await;
    a.lock.release(&first).await?;
    // It may be granted the name and keep it for its ttl; its session may have been heard of just now.
    let limit = ctx.takeover(ttl * 2) + ctx.recheck(&third);
    let taken = acquire(&*c.lock, &third, limit).await;
    link.heal().await;
    taken?;
    Ok(())
}

/// The place of a waiter that hangs goes although its turn does not come; the one behind it is next.
async fn waiter_is_forgotten(ctx: &Context) -> Checked {
    ctx.needs_expiry()?;
    let (a, b, c) = ctx.three().await?;
    let link = b.needs_link()?;
    let name = &ctx.name();
    let (first, hung, third) = (ctx.claim(name), ctx.short(name).queueing(), ctx.claim(name).queueing());
    let ttl = ctx.granted_ttl(&granted(a.lock.try_acquire(&first).await?)?)?.min(hung.ttl * 2);
    queued(b.lock.try_acquire(&hung).await?)?;
    let entries_are = |number| async move { Ok(ctx.entries(name).await? == number) };
    eventually(ctx.patience(), "a holder and a waiter should be two entries on the server", || entries_are(2)).await?;
    link.silence().await;
    let forgotten = async {
        // The server may be in the middle of the waiter's wait.
        let limit = ctx.takeover(ttl) + ctx.recheck(&hung);
        eventually(limit, "the place of a waiter that hangs should go", || entries_are(1)).await?;
        queued(c.lock.try_acquire(&third).await?)?;
        a.lock.release(&first).await?;
        acquire(&*c.lock, &third, ctx.wake(&third)).await?;
        c.lock.release(&third).await?;
        let entries = ctx.entries(name).await?;
        ensure!(entries == 0, "after the last release {entries} entries are left on the server");
        Ok(())
    }
    .await;
    link.heal().await;
    forgotten
}
