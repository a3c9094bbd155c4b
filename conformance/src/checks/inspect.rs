//! Clause 16: `inspect` tells the truth and takes nothing.

use lockyard_api::ErrorKind;

use super::checks;
use crate::steps::{granted, queued, stands};
use crate::stop::ensure;
use crate::{Checked, Context, Stop};

checks! { 16 inspect: tells_holder, takes_nothing, unsupported_is_said }

async fn tells_holder(ctx: &Context) -> Checked {
    ctx.needs_inspect()?;
    let (a, b) = ctx.two().await?;
    let name = ctx.name();
    ensure!(b.lock.inspect(&name).await?.is_none(), "nobody holds the name and inspect tells of a holder");
    let claim = ctx.claim(&name).with_label("conformance");
    let grant = granted(a.lock.try_acquire(&claim).await?)?;
    queued(b.lock.try_acquire(&ctx.claim(&name).queueing()).await?)?;
    let holder = b.lock.inspect(&name).await?;
    let holder = holder.ok_or_else(|| Stop::failed("the name is held and inspect tells of nobody"))?;
    let owner = holder.owner.unwrap_or(claim.owner);
    ensure!(owner == claim.owner, "{:?} holds the name and inspect tells of {owner:?}", claim.owner);
    let token = holder.token.or(grant.token);
    ensure!(token == grant.token, "the holder's token is {:?} and inspect tells {token:?}", grant.token);
    let label = holder.label.as_deref().unwrap_or("conformance");
    ensure!(label == "conformance", "the holder's label is \"conformance\" and inspect tells {label:?}");
    if let (Some(rest), Ok(ttl)) = (holder.expires_in, ctx.granted_ttl(&grant)) {
        let most = ttl + ctx.capabilities().slack;
        ensure!(rest <= most, "the lease is {ttl:?} and inspect says that it ends in {rest:?}");
    }
    ensure!(holder.waiters.is_none_or(|waiters| waiters <= 1), "one waits and inspect tells {:?}", holder.waiters);
    a.lock.release(&claim).await?;
    // The waiter may hold it by now, the holder of before does not.
    let owner = a.lock.inspect(&name).await?.and_then(|holder| holder.owner);
    ensure!(owner != Some(claim.owner), "the hold was released and inspect still tells of it");
    Ok(())
}

async fn takes_nothing(ctx: &Context) -> Checked {
    ctx.needs_inspect()?;
    let (a, b) = ctx.two().await?;
    let name = ctx.name();
    for client in [&b, &a, &b] {
        client.lock.inspect(&name).await?;
    }
    let claim = ctx.claim(&name);
    granted(a.lock.try_acquire(&claim).await?)?;
    for client in [&b, &a, &b] {
        client.lock.inspect(&name).await?;
    }
    stands(a.lock.renew(&claim).await?)?;
    a.lock.release(&claim).await?;
    b.lock.inspect(&name).await?;
    granted(a.lock.try_acquire(&ctx.claim(&name)).await?)?;
    Ok(())
}

async fn unsupported_is_said(ctx: &Context) -> Checked {
    ctx.needs(!ctx.capabilities().inspect, "inspect is offered")?;
    match ctx.client().await?.lock.inspect(&ctx.name()).await {
        Err(error) if error.kind() == ErrorKind::Unsupported => Ok(()),
        other => Err(Stop::failed(format_args!("inspect is not offered and answers {other:?}"))),
    }
}
