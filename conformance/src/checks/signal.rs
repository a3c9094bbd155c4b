//! The front end over this backend: a loss is signalled in time.

use std::sync::Arc;
use std::time::Duration;

use lockyard_api::{Guard, Moment};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::checks;
use super::frontend::{guard, locker};
use crate::steps::within;
use crate::stop::ensure;
use crate::timing::scaled;
use crate::{Checked, Context, Stop};

checks! {
    0 frontend: cut_off_is_told_by_the_deadline v2 alone, revocation_is_told_soon v2, ended_session_is_told_soon v2
}

const CLIENTS: usize = 25;
const NAMES: usize = 8;
/// How late a timer may be on a machine that is busy with 200 of them.
const LATE: Duration = Duration::from_millis(500);

/// Clients that are cut off: each of 200 holds is told lost by its deadline, although nothing is heard from the server.
async fn cut_off_is_told_by_the_deadline(ctx: &Context) -> Checked {
    ctx.needs_expiry()?;
    let mut clients = JoinSet::new();
    let few = Arc::new(Semaphore::new(4));
    for _ in 0..CLIENTS {
        clients.spawn(hold_and_be_cut_off(ctx.clone(), Arc::clone(&few)));
    }
    let mut told = 0;
    while let Some(ended) = clients.join_next().await {
        told += ended.map_err(|panic| Stop::failed(format_args!("a client ended by a panic: {panic}")))??;
    }
    ensure!(told == CLIENTS * NAMES, "{told} of {} holds were told lost", CLIENTS * NAMES);
    Ok(())
}

/// `few` of them connect and acquire at once: a server that opens a session for each hold is not what is tested.
async fn hold_and_be_cut_off(ctx: Context, few: Arc<Semaphore>) -> Checked<usize> {
    let connecting = few.acquire_owned().await;
    let client = ctx.client().await?;
    let link = client.needs_link()?;
    let locks = locker(&client)?;
    let mut guards = Vec::new();
    for _ in 0..NAMES {
        let (request, limit) = (locks.lock(ctx.name()).ttl(ctx.harness().ttl() * 2), ctx.patience() * 2);
        guards.push(within(limit, "a free name should be acquired", async { Ok(request.acquire().await?) }).await?);
    }
    drop(connecting);
    link.silence().await;
    // No answer that is still to be read was asked for later than this.
    let silent = ctx.clock().now();
    let mut told = 0;
    for guard in &guards {
        told += told_lost(&ctx, guard, silent).await?;
    }
    link.heal().await;
    Ok(told)
}

async fn told_lost(ctx: &Context, guard: &Guard, silent: Moment) -> Checked<usize> {
    let ttl = guard.ttl().unwrap_or_default();
    let (clock, limit) = (ctx.clock(), silent.plus(ttl).plus(scaled(LATE)));
    let told = tokio::select! {
        biased;
        _ = guard.lost() => 1,
        () = clock.sleep_until(limit) => 0,
    };
    let now = clock.now();
    ensure!(now < silent.plus(ttl) || !guard.is_held(), "held {:?} after the link fell silent", now.since(silent));
    Ok(told)
}

/// Rounds of holds that are ended at a moment of their own between two renewals: more than twenty in all.
const ROUNDS: usize = 3;
const AT_ONCE: usize = 7;

/// Records that are removed at the server: told at the next renewal at the latest.
async fn revocation_is_told_soon(ctx: &Context) -> Checked {
    let a = ctx.client().await?;
    let (mut took, mut interval) = (Vec::new(), Duration::ZERO);
    for _ in 0..ROUNDS {
        let mut telling = JoinSet::new();
        for _ in 0..AT_ONCE {
            let guard = guard(ctx, &a, &ctx.name()).await?;
            let (ctx, ttl) = (ctx.clone(), ttl_of(ctx, &guard));
            interval = ttl / 3;
            telling.spawn(async move {
                ctx.clock().sleep(interval.mul_f64(fastrand::f64())).await;
                ctx.harness().revoke(guard.claim()).await.made()?;
                told_after(&ctx, &guard, ttl).await
            });
        }
        took.extend(all_told(telling).await?);
    }
    soon(took, interval + scaled(Duration::from_millis(300)), "revoked")
}

/// Sessions that are ended at the server: the same, and at once where the server tells its clients.
async fn ended_session_is_told_soon(ctx: &Context) -> Checked {
    ctx.needs_sessions()?;
    let (mut took, mut interval) = (Vec::new(), Duration::ZERO);
    for _ in 0..ROUNDS {
        let a = ctx.client().await?;
        let mut guards = Vec::new();
        for _ in 0..AT_ONCE {
            guards.push(guard(ctx, &a, &ctx.name()).await?);
        }
        let ttl = guards.first().map_or(ctx.harness().ttl(), |guard| ttl_of(ctx, guard));
        interval = ttl / 3;
        ctx.clock().sleep(interval.mul_f64(fastrand::f64())).await;
        ctx.harness().end_session(&a).await.made()?;
        let mut telling = JoinSet::new();
        for guard in guards {
            let ctx = ctx.clone();
            telling.spawn(async move { told_after(&ctx, &guard, ttl).await });
        }
        took.extend(all_told(telling).await?);
    }
    let pushed = ctx.harness().tells_the_end_of_sessions();
    let limit = if pushed { Duration::from_millis(100) } else { interval + Duration::from_millis(300) };
    soon(took, scaled(limit), "whose session was ended")
}

async fn all_told(mut telling: JoinSet<Checked<Duration>>) -> Checked<Vec<Duration>> {
    let mut took = Vec::new();
    while let Some(told) = telling.join_next().await {
        took.push(told.map_err(|panic| Stop::failed(format_args!("a holder ended by a panic: {panic}")))??);
    }
    Ok(took)
}

fn ttl_of(ctx: &Context, guard: &Guard) -> Duration {
    guard.ttl().unwrap_or(ctx.harness().ttl())
}

/// The median, since a busy machine may be late now and then. All are printed when `LOCKYARD_PRINT_TIMES` is set.
fn soon(mut took: Vec<Duration>, limit: Duration, what: &str) -> Checked {
    took.sort_unstable();
    let median = took[took.len() / 2];
    if std::env::var_os("LOCKYARD_PRINT_TIMES").is_some() {
        eprintln!("holds {what} were told after {median:.1?} in the median: {took:.1?}");
    }
    ensure!(median <= limit, "holds {what} were told after {took:?}: the median may be {limit:?}");
    Ok(())
}

/// How long it took until the holder was told.
async fn told_after(ctx: &Context, guard: &Guard, ttl: Duration) -> Checked<Duration> {
    let gone = ctx.clock().now();
    let told = async { Ok(guard.lost().await) };
    within(ctx.takeover(ttl), "a hold that was ended at the server should be told lost", told).await?;
    Ok(ctx.clock().now().since(gone))
}
