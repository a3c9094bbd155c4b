//! Clause 6: tokens rise strictly per name; a waiter draws none.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lockyard_api::{Fencing, FencingToken, LockName};
use tokio::task::JoinSet;

use super::checks;
use crate::steps::{acquire, dropped_wait, granted, persist, queued, token};
use crate::stop::ensure;
use crate::timing::scaled;
use crate::{Checked, Context, Stop};

checks! { 6 token: rises, rises_in_contention, waiter_draws_none alone, rises_across_restart alone }

async fn rises(ctx: &Context) -> Checked {
    ctx.needs_fencing()?;
    let (a, b) = ctx.two().await?;
    let name = ctx.name();
    let mut last = None;
    for client in [&a, &b, &b, &a, &a, &b] {
        let claim = ctx.claim(&name);
        let token = token(&granted(client.lock.try_acquire(&claim).await?)?)?;
        ensure!(last < Some(token), "token {token} after {last:?}");
        last = Some(token);
        client.lock.release(&claim).await?;
    }
    Ok(())
}

async fn rises_in_contention(ctx: &Context) -> Checked {
    ctx.needs_fencing()?;
    let name = ctx.name();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let mut contenders = JoinSet::new();
    for _ in 0..4 {
        contenders.spawn(note_tokens(ctx.clone(), name.clone(), Arc::clone(&seen)));
    }
    while let Some(ended) = contenders.join_next().await {
        ended.map_err(|panic| Stop::failed(format_args!("a contender ended by a panic: {panic}")))??;
    }
    let seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    ensure!(seen.is_sorted_by(|a, b| a < b), "the holders one after another had the tokens {seen:?}");
    Ok(())
}

async fn note_tokens(ctx: Context, name: LockName, seen: Arc<Mutex<Vec<FencingToken>>>) -> Checked {
    let client = ctx.client().await?;
    for _ in 0..3 {
        let claim = ctx.brisk(&name);
        let grant = acquire(&*client.lock, &claim, scaled(Duration::from_secs(45))).await?;
        let token = token(&grant)?;
        if !ctx.is_over(&grant) {
            seen.lock().unwrap_or_else(PoisonError::into_inner).push(token);
        }
        client.lock.release(&claim).await?;
    }
    Ok(())
}

/// Alone, since the number may be the whole server's.
async fn waiter_draws_none(ctx: &Context) -> Checked {
    ctx.needs_fencing()?;
    let (a, b, c) = ctx.three().await?;
    let name = ctx.name();
    let unread = || Stop::ignored("the harness cannot read the last token without drawing one");
    granted(a.lock.try_acquire(&ctx.claim(&name)).await?)?;
    let before = ctx.harness().last_token(&name).await.ok_or_else(unread)?;
    for client in [&b, &c] {
        let claim = ctx.claim(&name).queueing();
        queued(client.lock.try_acquire(&claim).await?)?;
        queued(client.lock.try_acquire(&claim).await?)?;
        dropped_wait(&*client.lock, &claim).await?;
    }
    let after = ctx.harness().last_token(&name).await.ok_or_else(unread)?;
    ensure!(before == after, "two waiters moved the last token from {before} to {after}");
    Ok(())
}

async fn rises_across_restart(ctx: &Context) -> Checked {
    ctx.needs(ctx.capabilities().fencing == Fencing::Durable, "no capability: durable fencing")?;
    let a = ctx.client().await?;
    let mut before = Vec::new();
    for _ in 0..3 {
        let name = ctx.name();
        let grant = granted(a.lock.try_acquire(&ctx.short(&name)).await?)?;
        before.push((name, token(&grant)?, ctx.granted_ttl(&grant).unwrap_or_default()));
    }
    ctx.harness().kill_server().await.made()?;
    // The holder is gone as well, so that its session does not keep the names.
    drop(a);
    ctx.harness().restart_server().await.made()?;
    let b = ctx.client().await?;
    for (name, old, ttl) in before {
        let claim = ctx.claim(&name).queueing();
        // A server that counts leases anew after a restart keeps them for one ttl more.
        let limit = ctx.takeover(ttl * 2) + ctx.recheck(&claim);
        let new = token(&persist(&*b.lock, claim, limit).await?.1)?;
        ensure!(new > old, "token {new} after the restart, {old} before");
    }
    Ok(())
}
