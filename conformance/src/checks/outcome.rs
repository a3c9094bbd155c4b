//! Clause 14: an error says `NotApplied` only if that is certain.

use std::time::Duration;

use lockyard_api::{Claim, Error, ErrorKind, Kind, Outcome, Renewal, Result};

use super::checks;
use crate::steps::{acquire, eventually, granted, persist, undo, within};
use crate::stop::ensure;
use crate::{Checked, Client, Context, Stop};

checks! {
    14 outcome: unreachable_is_unknown, swallowed_reply, swallowed_release, bad_ttl_is_not_applied,
    unsupported_kind, frozen_server alone, refused_repeat_is_unknown v2
}

/// A call to a server that does not answer ends by itself, with an error.
async fn ends<T: Send + std::fmt::Debug>(ctx: &Context, call: impl Future<Output = Result<T>>) -> Checked<Error> {
    let limit = ctx.harness().op_timeout() + ctx.patience();
    match within(limit, "a call to a silent server should end", async { Ok(call.await) }).await? {
        Err(error) => Ok(error),
        Ok(answer) => Err(Stop::failed(format_args!("the server was silent and the call answered {answer:?}"))),
    }
}

/// Opens what a claim of this ttl is sent by: a backend that had to open it later would know that nothing was sent. For a long
/// ttl: what it opened must not have run out by then on a machine that stands still for a moment.
async fn warm(client: &Client, claim: &Claim) -> Checked {
    granted(client.lock.try_acquire(claim).await?)?;
    client.lock.release(claim).await?;
    Ok(())
}

/// The request was written to an open connection: nobody can know.
fn unknown(error: &Error) -> Checked {
    ensure!(error.outcome() == Outcome::Unknown, "a request was sent, no answer came, and the error says: {error:?}");
    Ok(())
}

async fn unreachable_is_unknown(ctx: &Context) -> Checked {
    let (a, b) = ctx.two().await?;
    let link = a.needs_link()?;
    let (name, hold) = (ctx.name(), ctx.claim(&ctx.name()));
    granted(a.lock.try_acquire(&hold).await?)?;
    warm(&a, &ctx.claim(&ctx.name())).await?;
    let claim = ctx.claim(&name);
    link.silence().await;
    let (attempt, renewal, release) = tokio::join!(
        ends(ctx, a.lock.try_acquire(&claim)),
        ends(ctx, a.lock.renew(&hold)),
        ends(ctx, a.lock.inspect(&name)),
    );
    link.heal().await;
    unknown(&attempt?)?;
    renewal?;
    release?;
    undo(ctx, &*a.lock, &claim).await?;
    let next = ctx.claim(&name).queueing();
    acquire(&*b.lock, &next, ctx.takeover(claim.ttl * 2) + ctx.recheck(&next)).await?;
    Ok(())
}

async fn swallowed_reply(ctx: &Context) -> Checked {
    let (a, b) = ctx.two().await?;
    let link = a.needs_link()?;
    warm(&a, &ctx.claim(&ctx.name())).await?;
    let claim = ctx.claim(&ctx.name());
    link.swallow_reply().await;
    // A backend may connect again and ask again: then it knows, and an answer is right.
    if let Err(error) = a.lock.try_acquire(&claim).await {
        unknown(&error)?;
    }
    undo(ctx, &*a.lock, &claim).await?;
    let next = ctx.short(&claim.name).queueing();
    acquire(&*b.lock, &next, ctx.takeover(claim.ttl * 2) + ctx.recheck(&next)).await?;
    Ok(())
}

/// What is told of a repeat says nothing of the request before it, which had arrived.
async fn refused_repeat_is_unknown(ctx: &Context) -> Checked {
    let (a, b) = ctx.two().await?;
    let link = a.needs_link()?;
    warm(&a, &ctx.claim(&ctx.name())).await?;
    let claim = ctx.claim(&ctx.name());
    link.swallow_reply_and_refuse().await.made()?;
    let limit = ctx.harness().op_timeout() + ctx.patience();
    let attempt =
        within(limit, "a call whose repeat is refused should end", async { Ok(a.lock.try_acquire(&claim).await) })
            .await;
    // A heartbeat's reply may have been the one: then nothing was sent, and that may be said.
    let entries = ctx.harness().entries(&claim.name).await.unwrap_or(0);
    link.heal().await;
    if let Err(error) = attempt? {
        ensure!(
            error.outcome() == Outcome::Unknown || entries == 0,
            "the claim is on the server, and the error of its repeat says: {error:?}"
        );
    }
    undo(ctx, &*a.lock, &claim).await?;
    let next = ctx.claim(&claim.name).queueing();
    acquire(&*b.lock, &next, ctx.takeover(claim.ttl * 2) + ctx.recheck(&next)).await?;
    Ok(())
}

async fn swallowed_release(ctx: &Context) -> Checked {
    let (a, b) = ctx.two().await?;
    let link = a.needs_link()?;
    let claim = ctx.short(&ctx.name());
    granted(a.lock.try_acquire(&claim).await?)?;
    link.swallow_reply().await;
    if let Err(error) = a.lock.release(&claim).await {
        unknown(&error)?;
    }
    undo(ctx, &*a.lock, &claim).await?;
    let next = ctx.short(&claim.name).queueing();
    persist(&*b.lock, next.clone(), ctx.takeover(claim.ttl) + ctx.recheck(&next)).await?;
    Ok(())
}

/// Refused before any traffic, so certain.
fn refused<T: std::fmt::Debug>(answer: Result<T>, kind: ErrorKind, what: &str) -> Checked {
    let error = match answer {
        Err(error) => error,
        Ok(answer) => return Err(Stop::failed(format_args!("{what} should be refused and answers {answer:?}"))),
    };
    ensure!(error.kind() == kind, "{what} should be {kind:?} and is {:?}: {error}", error.kind());
    ensure!(
        error.outcome() == Outcome::NotApplied,
        "{what} is refused before any traffic and says {:?}",
        error.outcome()
    );
    Ok(())
}

async fn bad_ttl_is_not_applied(ctx: &Context) -> Checked {
    let a = ctx.client().await?;
    let name = ctx.name();
    let range = ctx.capabilities().ttl;
    let nano = Duration::from_nanos(1);
    let bad = [Duration::ZERO, range.min.saturating_sub(nano), range.max.saturating_add(nano), Duration::MAX];
    for ttl in bad.into_iter().filter(|ttl| range.check(*ttl).is_err()) {
        let claim = Claim::new(name.clone(), ttl);
        refused(a.lock.try_acquire(&claim).await, ErrorKind::InvalidTtl, &format!("a ttl of {ttl:?}"))?;
        refused(a.lock.try_acquire(&claim.queueing()).await, ErrorKind::InvalidTtl, &format!("a ttl of {ttl:?}"))?;
    }
    granted(a.lock.try_acquire(&ctx.claim(&name)).await?)?;
    Ok(())
}

async fn unsupported_kind(ctx: &Context) -> Checked {
    let a = ctx.client().await?;
    let name = ctx.name();
    for kind in [Kind::Exclusive, Kind::Shared, Kind::Permit { of: 2 }] {
        let claim = ctx.claim(&name).with_kind(kind);
        if !ctx.capabilities().kinds.contains(&kind.as_str()) {
            let what = format!("a claim of the kind {} that is not offered", kind.as_str());
            refused(a.lock.try_acquire(&claim).await, ErrorKind::Unsupported, &what)?;
        }
    }
    if !ctx.capabilities().fixed_lease {
        let claim = ctx.claim(&name).fixed();
        refused(a.lock.try_acquire(&claim).await, ErrorKind::Unsupported, "a fixed lease that is not offered")?;
    }
    granted(a.lock.try_acquire(&ctx.claim(&name)).await?)?;
    Ok(())
}

async fn frozen_server(ctx: &Context) -> Checked {
    let a = ctx.client().await?;
    let hold = ctx.claim(&ctx.name());
    granted(a.lock.try_acquire(&hold).await?)?;
    warm(&a, &ctx.claim(&ctx.name())).await?;
    ctx.harness().freeze_server().await.made()?;
    let claim = ctx.claim(&ctx.name());
    let (attempt, renewal) = tokio::join!(ends(ctx, a.lock.try_acquire(&claim)), ends(ctx, a.lock.renew(&hold)));
    ctx.harness().thaw_server().await.made()?;
    unknown(&attempt?)?;
    renewal?;
    undo(ctx, &*a.lock, &claim).await?;
    // What became of the hold is for the server to say; it has to say it.
    let limit = ctx.harness().op_timeout() + ctx.patience();
    eventually(limit, "after the thaw renew should be answered", || async {
        Ok(matches!(a.lock.renew(&hold).await, Ok(Renewal::Renewed { .. } | Renewal::Lost)))
    })
    .await
}
