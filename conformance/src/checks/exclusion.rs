//! Clause 1: a name has one holder at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lockyard_api::{Attempt, Clock, FencingToken, LockName};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use super::checks;
use crate::steps::{acquire, busy, dropped_wait, granted, queued, within};
use crate::stop::ensure;
use crate::timing::scaled;
use crate::{Checked, Client, Context, Stop};

checks! { 1 exclusion: one_holder, many_contend, first_use v2 alone, late_push_is_no_grant v2 }

async fn one_holder(ctx: &Context) -> Checked {
    let (a, b) = ctx.two().await?;
    let name = ctx.name();
    let first = ctx.claim(&name);
    granted(a.lock.try_acquire(&first).await?)?;
    busy(b.lock.try_acquire(&ctx.claim(&name)).await?)?;
    let second = ctx.claim(&name).queueing();
    queued(b.lock.try_acquire(&second).await?)?;
    a.lock.release(&first).await?;
    acquire(&*b.lock, &second, ctx.recheck(&second)).await?;
    busy(a.lock.try_acquire(&ctx.claim(&name)).await?)
}

async fn many_contend(ctx: &Context) -> Checked {
    const CLIENTS: usize = 8;
    let name = ctx.name();
    let inside = Arc::new(AtomicUsize::new(0));
    let mut contenders = JoinSet::new();
    for _ in 0..CLIENTS {
        contenders.spawn(contend(ctx.clone(), name.clone(), Arc::clone(&inside)));
    }
    while let Some(ended) = contenders.join_next().await {
        ended.map_err(|panic| Stop::failed(format_args!("a contender ended by a panic: {panic}")))??;
    }
    Ok(())
}

/// Takes and gives back the name a few times; fewer where a hand-over takes long.
async fn contend(ctx: Context, name: LockName, inside: Arc<AtomicUsize>) -> Checked {
    let client = ctx.client().await?;
    let clock = ctx.clock();
    let start = clock.now();
    for round in 0..6 {
        if round > 0 && clock.now().since(start) > scaled(Duration::from_secs(10)) {
            break;
        }
        let claim = ctx.brisk(&name);
        let grant = acquire(&*client.lock, &claim, scaled(Duration::from_secs(45))).await?;
        let before = inside.fetch_add(1, Ordering::SeqCst);
        Clock::system().sleep(Duration::from_millis(2)).await;
        let after = inside.fetch_sub(1, Ordering::SeqCst);
        // A holder that was stopped for longer than its lease has to expect others.
        let slow = ctx.is_over(&grant);
        ensure!(slow || (before == 0 && after == 1), "{} holders of one name at a time", before.max(after - 1) + 1);
        within(ctx.patience(), "a release should be answered", async { Ok(client.lock.release(&claim).await?) })
            .await?;
    }
    Ok(())
}

/// Names that nobody has used before, wanted by all at the same moment (B13).
async fn first_use(ctx: &Context) -> Checked {
    const CLIENTS: usize = 8;
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(ctx.client().await?);
    }
    for _ in 0..25 {
        let name = ctx.name();
        let first = race(ctx, &clients, &name).await?;
        let second = race(ctx, &clients, &name).await?;
        ensure!(second > first || second.is_none(), "{name:?} was used with the token {first:?} and then {second:?}");
    }
    Ok(())
}

/// All try the name at once, one gets it; answers its token.
async fn race(ctx: &Context, clients: &[Client], name: &LockName) -> Checked<Option<FencingToken>> {
    let start = Arc::new(Barrier::new(clients.len()));
    let mut tries = JoinSet::new();
    for client in clients.iter().cloned() {
        let (claim, start) = (ctx.claim(name), Arc::clone(&start));
        tries.spawn(async move {
            start.wait().await;
            let attempt = client.lock.try_acquire(&claim).await?;
            Checked::Ok((client, claim, attempt))
        });
    }
    let mut holders = Vec::new();
    while let Some(ended) = tries.join_next().await {
        let ended = ended.map_err(|panic| Stop::failed(format_args!("a try ended by a panic: {panic}")))?;
        match ended? {
            (client, claim, Attempt::Granted(grant)) => holders.push((client, claim, grant.token)),
            (_, _, attempt) => busy(attempt)?,
        }
    }
    ensure!(holders.len() == 1, "{} of {} got a name that all wanted first", holders.len(), clients.len());
    let mut token = None;
    for (client, claim, its) in holders {
        client.lock.release(&claim).await?;
        token = its;
    }
    Ok(token)
}

/// The message of a grant is on its way for longer than the grant lasts, and its waiter has been told since to wait.
async fn late_push_is_no_grant(ctx: &Context) -> Checked {
    ctx.needs_leases()?;
    let (a, b, c) = ctx.three().await?;
    let link = b.needs_link()?;
    let name = ctx.name();
    let (first, waiting, next) = (ctx.claim(&name), ctx.short(&name).queueing(), ctx.claim(&name));
    granted(a.lock.try_acquire(&first).await?)?;
    queued(b.lock.try_acquire(&waiting).await?)?;
    link.keep_pushes().await.made()?;
    let told_late = async {
        a.lock.release(&first).await?;
        // The name is the waiter's, who does not know it, and goes on when that lease ends.
        let hold = acquire(&*c.lock, &next, ctx.takeover(waiting.ttl)).await?;
        queued(b.lock.try_acquire(&waiting).await?)?;
        Checked::Ok(hold)
    }
    .await;
    link.heal().await;
    let hold = told_late?;
    dropped_wait(&*b.lock, &waiting).await?;
    c.lock.release(&next).await?;
    // What was late may arrive only now, before what tells of this hand-over: its token gives it away.
    let grant = acquire(&*b.lock, &waiting, ctx.wake(&waiting)).await?;
    ensure!(
        grant.token.is_none() || grant.token > hold.token,
        "{:?} was granted after {:?}: the grant of before the hold in between",
        grant.token,
        hold.token
    );
    Ok(())
}
