//! Clause 4: `Leave` leaves nothing on the server when the name is held.

use super::checks;
use crate::steps::{busy, granted};
use crate::stop::ensure;
use crate::{Checked, Context};

checks! { 4 leave: nothing_left, busy_then_free }

async fn nothing_left(ctx: &Context) -> Checked {
    let (a, b, c) = ctx.three().await?;
    let name = ctx.name();
    let claim = ctx.claim(&name);
    granted(a.lock.try_acquire(&claim).await?)?;
    for client in [&b, &c, &b] {
        busy(client.lock.try_acquire(&ctx.claim(&name)).await?)?;
    }
    let entries = ctx.entries(&name).await?;
    ensure!(entries == 1, "a holder and three claims that left are {entries} entries on the server");
    a.lock.release(&claim).await?;
    let entries = ctx.entries(&name).await?;
    ensure!(entries == 0, "after the release {entries} entries are left on the server");
    Ok(())
}

async fn busy_then_free(ctx: &Context) -> Checked {
    let (a, b, c) = ctx.three().await?;
    let name = ctx.name();
    let claim = ctx.claim(&name);
    granted(a.lock.try_acquire(&claim).await?)?;
    busy(b.lock.try_acquire(&ctx.claim(&name)).await?)?;
    busy(b.lock.try_acquire(&ctx.claim(&name)).await?)?;
    a.lock.release(&claim).await?;
    // Nothing of the claims that left stands in front.
    granted(c.lock.try_acquire(&ctx.claim(&name)).await?)?;
    Ok(())
}
