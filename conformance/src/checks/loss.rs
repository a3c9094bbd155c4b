//! Clause 8: the loss of a session ends all its holds and is signalled; the loss of one hold is signalled for it.

use lockyard_api::{Grant, Liveness, LostReason, Release, Renewal};

use super::checks;
use crate::steps::{acquire, answered, busy, eventually, granted, lost, persist, renew, stands};
use crate::stop::ensure;
use crate::{Checked, Context, Stop};

checks! { 8 loss: session, revoked, renew_of_lost, renew_after_takeover, restart_is_told alone }

async fn session(ctx: &Context) -> Checked {
    ctx.needs_sessions()?;
    let (a, b) = ctx.two().await?;
    let (first, second, bystander) = (ctx.claim(&ctx.name()), ctx.claim(&ctx.name()), ctx.claim(&ctx.name()));
    let holds = [granted(a.lock.try_acquire(&first).await?)?, granted(a.lock.try_acquire(&second).await?)?];
    let other = granted(b.lock.try_acquire(&bystander).await?)?;
    ctx.harness().end_session(&a).await.made()?;
    let limit = ctx.takeover(ctx.granted_ttl(&holds[0])?) + ctx.harness().op_timeout();
    for hold in &holds {
        eventually(limit, "the end of a session should be signalled to each of its holds", || async {
            Ok(reason(hold).is_some())
        })
        .await?;
        let reason = reason(hold);
        ensure!(reason == Some(LostReason::SessionEnded), "the session ended and the hold is lost by {reason:?}");
    }
    lost(renew(ctx, &*a.lock, &first).await?)?;
    for claim in [&first, &second] {
        let next = ctx.claim(&claim.name).queueing();
        acquire(&*b.lock, &next, limit + ctx.recheck(&next)).await?;
    }
    ensure!(reason(&other).is_none(), "another client's session ended and this hold was told lost");
    stands(b.lock.renew(&bystander).await?)
}

fn reason(grant: &Grant) -> Option<LostReason> {
    match &grant.liveness {
        Liveness::Session(watch) => watch.lost(),
        _ => None,
    }
}

async fn revoked(ctx: &Context) -> Checked {
    let a = ctx.client().await?;
    let (gone, kept) = (ctx.claim(&ctx.name()), ctx.claim(&ctx.name()));
    let gone_hold = granted(a.lock.try_acquire(&gone).await?)?;
    let kept_hold = granted(a.lock.try_acquire(&kept).await?)?;
    ctx.harness().revoke(&gone).await.made()?;
    if let Liveness::Session(_) = &gone_hold.liveness {
        let limit = ctx.takeover(ctx.granted_ttl(&gone_hold)?) + ctx.harness().op_timeout();
        eventually(limit, "a revoked hold should be signalled", || async { Ok(reason(&gone_hold).is_some()) }).await?;
    }
    eventually(ctx.patience(), "the renewal of a revoked hold should be Lost", || async {
        Ok(a.lock.renew(&gone).await? == Renewal::Lost)
    })
    .await?;
    ensure!(reason(&kept_hold).is_none(), "one hold was revoked and another was told lost");
    stands(a.lock.renew(&kept).await?)
}

async fn renew_of_lost(ctx: &Context) -> Checked {
    let (a, b) = ctx.two().await?;
    let name = ctx.name();
    let (first, second) = (ctx.claim(&name), ctx.claim(&name));
    lost(a.lock.renew(&first).await?)?;
    granted(a.lock.try_acquire(&first).await?)?;
    a.lock.release(&first).await?;
    lost(a.lock.renew(&first).await?)?;
    granted(b.lock.try_acquire(&second).await?)?;
    lost(a.lock.renew(&first).await?)?;
    stands(b.lock.renew(&second).await?)
}

/// A holder that slept past its lease renews and releases: the next holder does not notice.
async fn renew_after_takeover(ctx: &Context) -> Checked {
    ctx.needs_expiry()?;
    let (a, b, c) = ctx.three().await?;
    let name = ctx.name();
    let late = ctx.short(&name);
    let ttl = ctx.granted_ttl(&granted(a.lock.try_acquire(&late).await?)?)?;
    ctx.hang(&a).await?;
    let next = ctx.claim(&name);
    let taken = acquire(&*b.lock, &next, ctx.takeover(ttl) * 2).await;
    ctx.unhang(&a).await;
    taken?;
    lost(renew(ctx, &*a.lock, &late).await?)?;
    answered(crate::steps::undo(ctx, &*a.lock, &late).await?, Release::NotHeld)?;
    stands(b.lock.renew(&next).await?)?;
    busy(c.lock.try_acquire(&ctx.claim(&name)).await?)
}

async fn restart_is_told(ctx: &Context) -> Checked {
    ctx.needs(!ctx.capabilities().restart_safe, "a restart keeps the locks (restart_safe)")?;
    let (a, b) = ctx.two().await?;
    let claim = ctx.short(&ctx.name());
    let hold = granted(a.lock.try_acquire(&claim).await?)?;
    ctx.harness().kill_server().await.made()?;
    ctx.harness().restart_server().await.made()?;
    let ttl = ctx.granted_ttl(&hold).unwrap_or(claim.ttl);
    let next = ctx.claim(&claim.name).queueing();
    let limit = ctx.takeover(ttl) + ctx.recheck(&next) + ctx.harness().op_timeout();
    let (next, _) = persist(&*b.lock, next, limit).await?;
    match renew(ctx, &*a.lock, &claim).await? {
        Renewal::Lost => {}
        other => return Err(Stop::failed(format_args!("another holds the name and renew answered {other:?}"))),
    }
    if let Liveness::Session(_) = &hold.liveness {
        eventually(limit, "a hold lost by a restart should be signalled", || async { Ok(reason(&hold).is_some()) })
            .await?;
    }
    stands(b.lock.renew(&next).await?)
}
