//! Clause 3: repeating `try_acquire` with the same claim.

use lockyard_api::{Attempt, ErrorKind};

use super::checks;
use crate::steps::{acquire, busy, dropped_wait, eventually, granted, queued, served_first, token};
use crate::stop::ensure;
use crate::{Checked, Context, Stop};

checks! { 3 repeat: same_token, fresh_lease, queued_keeps_place, queued_finds_grant, later_session }

async fn same_token(ctx: &Context) -> Checked {
    ctx.needs_fencing()?;
    let a = ctx.client().await?;
    let claim = ctx.claim(&ctx.name());
    let first = token(&granted(a.lock.try_acquire(&claim).await?)?)?;
    let again = token(&granted(a.lock.try_acquire(&claim).await?)?)?;
    ensure!(first == again, "the repeated claim got token {again} after {first}");
    Ok(())
}

async fn fresh_lease(ctx: &Context) -> Checked {
    ctx.needs_leases()?;
    let (a, b) = ctx.two().await?;
    let clock = ctx.clock();
    let name = ctx.name();
    let claim = ctx.short(&name);
    let first = granted(a.lock.try_acquire(&claim).await?)?;
    let ttl = ctx.granted_ttl(&first)?;
    clock.sleep_until(first.valid_from.plus(ttl * 6 / 10)).await;
    let again = granted(a.lock.try_acquire(&claim).await?)?;
    ensure!(again.valid_from > first.valid_from, "the repeated claim's lease did not start anew");
    clock.sleep_until(first.valid_from.plus(ttl * 12 / 10)).await;
    let attempt = b.lock.try_acquire(&ctx.claim(&name)).await?;
    if clock.now() >= again.valid_from.plus(ttl) {
        return Err(Stop::ignored("the machine is too slow for a ttl this short"));
    }
    busy(attempt)
}

async fn queued_keeps_place(ctx: &Context) -> Checked {
    let (a, b, c) = ctx.three().await?;
    let name = ctx.name();
    let (first, second, third) = (ctx.claim(&name), ctx.claim(&name).queueing(), ctx.claim(&name).queueing());
    granted(a.lock.try_acquire(&first).await?)?;
    queued(b.lock.try_acquire(&second).await?)?;
    queued(c.lock.try_acquire(&third).await?)?;
    queued(b.lock.try_acquire(&second).await?)?;
    if let Some(entries) = ctx.harness().entries(&name).await {
        ensure!(entries <= 3, "a holder and two waiters, one of whom asked twice, are {entries} entries");
    }
    a.lock.release(&first).await?;
    if ctx.is_fifo() {
        served_first((&*b.lock, &second), (&*c.lock, &third), ctx.recheck(&second)).await?;
        b.lock.release(&second).await?;
    } else {
        b.lock.release(&second).await?;
    }
    acquire(&*c.lock, &third, ctx.recheck(&third)).await?;
    Ok(())
}

/// Nobody listens when the grant comes: the repeated call finds it.
async fn queued_finds_grant(ctx: &Context) -> Checked {
    let (a, b) = ctx.two().await?;
    let name = ctx.name();
    let (first, second) = (ctx.claim(&name), ctx.claim(&name).queueing());
    granted(a.lock.try_acquire(&first).await?)?;
    queued(b.lock.try_acquire(&second).await?)?;
    dropped_wait(&*b.lock, &second).await?;
    a.lock.release(&first).await?;
    eventually(ctx.recheck(&second), "a repeated try_acquire should find the grant", || async {
        Ok(matches!(b.lock.try_acquire(&second).await?, Attempt::Granted(_)))
    })
    .await
}

async fn later_session(ctx: &Context) -> Checked {
    ctx.needs_sessions()?;
    let a = ctx.client().await?;
    let claim = ctx.claim(&ctx.name());
    let ttl = ctx.granted_ttl(&granted(a.lock.try_acquire(&claim).await?)?)?;
    ctx.harness().end_session(&a).await.made()?;
    let limit = ctx.takeover(ttl) + ctx.harness().op_timeout();
    eventually(limit, "a claim of an earlier session should answer SessionChanged", || async {
        match a.lock.try_acquire(&claim).await {
            Err(error) if error.kind() == ErrorKind::SessionChanged => Ok(true),
            Err(error) if error.kind().is_transient() => Ok(false),
            Err(error) => Err(error.into()),
            Ok(attempt) => Err(Stop::failed(format_args!("the claim's session has ended, yet it answers {attempt:?}"))),
        }
    })
    .await
}
