//! Clause 12: no wake-up is lost for longer than the stated re-check.

use super::checks;
use crate::steps::{POLL, acquire, granted, persist, queued, queued_behind};
use crate::{Checked, Context};

checks! { 12 wake: on_release, lost_wakeup, dead_holder }

async fn on_release(ctx: &Context) -> Checked {
    let (a, b) = ctx.two().await?;
    let name = ctx.name();
    let (first, second) = (ctx.claim(&name), ctx.claim(&name).queueing());
    granted(a.lock.try_acquire(&first).await?)?;
    queued(b.lock.try_acquire(&second).await?)?;
    let release = async {
        // The waiter listens by now; if not, the check is only easier.
        ctx.clock().sleep(POLL * 10).await;
        Checked::Ok(a.lock.release(&first).await?)
    };
    let (released, grant) = tokio::join!(release, acquire(&*b.lock, &second, ctx.wake(&second)));
    released?;
    grant?;
    Ok(())
}

/// The message of the grant is lost with the connection that it came by.
async fn lost_wakeup(ctx: &Context) -> Checked {
    let (a, b) = ctx.two().await?;
    let link = b.needs_link()?;
    let name = ctx.name();
    // A ttl that the re-check follows, so that the check does not take long.
    let (first, second) = (ctx.claim(&name), ctx.short(&name).queueing());
    granted(a.lock.try_acquire(&first).await?)?;
    queued(b.lock.try_acquire(&second).await?)?;
    let limit = ctx.recheck(&second) + ctx.harness().op_timeout() + second.ttl;
    let disturb = async {
        ctx.clock().sleep(POLL * 5).await;
        link.silence().await;
        let released = a.lock.release(&first).await;
        link.cut().await;
        link.heal().await;
        Checked::Ok(released?)
    };
    let (released, granted) = tokio::join!(disturb, persist(&*b.lock, second.clone(), limit));
    released?;
    granted?;
    Ok(())
}

async fn dead_holder(ctx: &Context) -> Checked {
    let (a, b) = ctx.two().await?;
    let name = ctx.name();
    let (first, second) = (ctx.short(&name), ctx.short(&name).queueing());
    let hold = granted(a.lock.try_acquire(&first).await?)?;
    // Where nothing but the process ends a hold, the end of its client does.
    let ttl = ctx.granted_ttl(&hold).unwrap_or_default();
    queued_behind(ctx, &hold, b.lock.try_acquire(&second).await?)?;
    drop(a);
    acquire(&*b.lock, &second, ctx.takeover(ttl) + ctx.recheck(&second)).await?;
    Ok(())
}
