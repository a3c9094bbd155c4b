//! Clause 2: exclusion is by owner, also inside one client and one session.

use super::checks;
use crate::steps::{acquire, busy, granted, lost, queued, stands};
use crate::{Checked, Context};

checks! { 2 owner: same_client, same_session_second_owner }

async fn same_client(ctx: &Context) -> Checked {
    let a = ctx.client().await?;
    let name = ctx.name();
    let first = ctx.claim(&name);
    granted(a.lock.try_acquire(&first).await?)?;
    busy(a.lock.try_acquire(&ctx.claim(&name)).await?)?;
    let second = ctx.claim(&name).queueing();
    queued(a.lock.try_acquire(&second).await?)?;
    a.lock.release(&first).await?;
    acquire(&*a.lock, &second, ctx.recheck(&second)).await?;
    Ok(())
}

async fn same_session_second_owner(ctx: &Context) -> Checked {
    let (a, b) = ctx.two().await?;
    let name = ctx.name();
    let (first, stranger) = (ctx.claim(&name), ctx.claim(&name));
    granted(a.lock.try_acquire(&first).await?)?;
    lost(a.lock.renew(&stranger).await?)?;
    lost(b.lock.renew(&stranger).await?)?;
    stands(a.lock.renew(&first).await?)?;
    busy(b.lock.try_acquire(&ctx.claim(&name)).await?)
}
