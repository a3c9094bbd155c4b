//! The front end over this backend: `Locker` and `Guard`, which people use.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use lockyard_api::{Attempt, ErrorKind, Guard, LockName, Locker, Outcome, Release};
use tokio::task::JoinSet;

use super::checks;
use crate::steps::{POLL, acquire, busy, eventually, granted, within};
use crate::stop::ensure;
use crate::timing::scaled;
use crate::{Checked, Client, Context, Stop};

checks! {
    0 frontend: busy_is_none, tokens_rise, excludes_without_local_queue, drop_releases, shutdown_drains,
    cancelled_acquire_leaves_nothing, cancelled_at_the_grant, timed_out_acquire_leaves_nothing,
    renewal_keeps, lost_before_another_enters, late_release_spares_the_next, run_cancels
}

pub(super) fn locker(client: &Client) -> Checked<Locker> {
    Ok(Locker::new(Arc::clone(&client.lock))?)
}

/// A guard with a short ttl, by a locker of its own.
pub(super) async fn guard(ctx: &Context, client: &Client, name: &LockName) -> Checked<Guard> {
    within(ctx.patience(), "a free name should be acquired", async {
        Ok(locker(client)?.lock(name).ttl(ctx.harness().ttl()).acquire().await?)
    })
    .await
}

async fn busy_is_none(ctx: &Context) -> Checked {
    let (a, b) = ctx.two().await?;
    let name = ctx.name();
    let (first, second) = (locker(&a)?, locker(&b)?);
    let guard = first.try_acquire(&name).await?.ok_or_else(|| Stop::failed("the name is free and busy"))?;
    ensure!(guard.is_held(), "a fresh guard is not held");
    ensure!(second.try_acquire(&name).await?.is_none(), "two guards of one name");
    ensure!(first.try_acquire(&name).await?.is_none(), "two guards of one name by one locker");
    ensure!(guard.release().await? == Release::Released, "a held guard released nothing");
    ensure!(second.try_acquire(&name).await?.is_some(), "after the release the name is busy");
    Ok(())
}

async fn tokens_rise(ctx: &Context) -> Checked {
    ctx.needs_fencing()?;
    let (a, b) = ctx.two().await?;
    let name = ctx.name();
    let mut last = None;
    for client in [&a, &b, &a] {
        let guard = guard(ctx, client, &name).await?;
        let token = guard.fencing_token();
        ensure!(token.is_some() && token > last, "token {token:?} after {last:?}");
        last = token;
        guard.release().await?;
    }
    Ok(())
}

async fn excludes_without_local_queue(ctx: &Context) -> Checked {
    let a = ctx.client().await?;
    let locks = Locker::builder(Arc::clone(&a.lock)).local_queue(false).build()?;
    let (name, inside) = (ctx.name(), Arc::new(AtomicUsize::new(0)));
    let mut tasks = JoinSet::new();
    for _ in 0..4 {
        let (locks, name, inside, clock) = (locks.clone(), name.clone(), Arc::clone(&inside), ctx.clock());
        let ttl = ctx.brisk(&name).ttl;
        tasks.spawn(async move {
            for _ in 0..3 {
                let guard = locks.lock(&name).ttl(ttl).acquire().await?;
                let before = inside.fetch_add(1, Ordering::SeqCst);
                clock.sleep(Duration::from_millis(2)).await;
                inside.fetch_sub(1, Ordering::SeqCst);
                ensure!(before == 0 || !guard.is_held(), "{} guards of one name in one client", before + 1);
                guard.release().await?;
            }
            Checked::Ok(())
        });
    }
    let limit = scaled(Duration::from_secs(50));
    within(limit, "four tasks should each get the name three times", async {
        while let Some(ended) = tasks.join_next().await {
            ended.map_err(|panic| Stop::failed(format_args!("a task ended by a panic: {panic}")))??;
        }
        Ok(())
    })
    .await
}

/// Others get the name, and nothing is left but their own claim.
async fn is_free(ctx: &Context, name: &LockName) -> Checked {
    let (c, claim) = (ctx.client().await?, ctx.claim(name));
    eventually(ctx.patience(), "the name should be free, nothing is left of the claims before", || async {
        Ok(matches!(c.lock.try_acquire(&claim).await?, Attempt::Granted(_)))
    })
    .await?;
    eventually(ctx.patience(), "the one who holds the name should be its only entry on the server", || async {
        Ok(ctx.harness().entries(name).await.unwrap_or(1) == 1)
    })
    .await
}

async fn drop_releases(ctx: &Context) -> Checked {
    let a = ctx.client().await?;
    let (locks, name) = (locker(&a)?, ctx.name());
    drop(within(ctx.patience(), "a free name should be acquired", async { Ok(locks.acquire(&name).await?) }).await?);
    is_free(ctx, &name).await
}

async fn shutdown_drains(ctx: &Context) -> Checked {
    let (a, b) = ctx.two().await?;
    let (locks, name) = (locker(&a)?, ctx.name());
    drop(locks.acquire(&name).await?);
    locks.shutdown().await?;
    // Not at some time: the shutdown has waited for it.
    granted(b.lock.try_acquire(&ctx.claim(&name)).await?)?;
    match locks.acquire(&name).await {
        Err(error) if error.kind() == ErrorKind::Shutdown => Ok(()),
        other => Err(Stop::failed(format_args!("after the shutdown acquire answers {other:?}"))),
    }
}

async fn cancelled_acquire_leaves_nothing(ctx: &Context) -> Checked {
    let (a, b) = ctx.two().await?;
    let (locks, name, clock) = (locker(&b)?, ctx.name(), ctx.clock());
    let claim = ctx.claim(&name);
    granted(a.lock.try_acquire(&claim).await?)?;
    for time in [0, 1, 5, 50] {
        tokio::select! {
            guard = locks.acquire(&name) => {
                drop(guard?);
                ensure!(false, "the name is held and acquired");
            }
            () = clock.sleep(Duration::from_millis(time)) => {}
        }
    }
    a.lock.release(&claim).await?;
    is_free(ctx, &name).await
}

/// The caller gives up just when the grant comes.
async fn cancelled_at_the_grant(ctx: &Context) -> Checked {
    let (a, b) = ctx.two().await?;
    let (locks, name, clock) = (locker(&b)?, ctx.name(), ctx.clock());
    for _ in 0..20 {
        let claim = ctx.claim(&name);
        acquire(&*a.lock, &claim, ctx.takeover(ctx.long_ttl())).await?;
        let wait = locks.lock(&name).acquire();
        let release = async {
            clock.sleep(Duration::from_micros(fastrand::u64(5_000..20_000))).await;
            Checked::Ok(a.lock.release(&claim).await?)
        };
        let give_up = async {
            tokio::select! {
                guard = wait => drop(guard?),
                () = clock.sleep(Duration::from_micros(fastrand::u64(5_000..20_000))) => {}
            }
            Checked::Ok(())
        };
        let (released, gave_up) = tokio::join!(release, give_up);
        released?;
        gave_up?;
    }
    is_free(ctx, &name).await
}

async fn timed_out_acquire_leaves_nothing(ctx: &Context) -> Checked {
    let (a, b) = ctx.two().await?;
    let (locks, name) = (locker(&b)?, ctx.name());
    let claim = ctx.claim(&name);
    granted(a.lock.try_acquire(&claim).await?)?;
    let wait = Duration::from_millis(200);
    let limit = wait + ctx.patience() + ctx.harness().op_timeout();
    let answer = within(limit, "a wait should end", async { Ok(locks.lock(&name).wait(wait).acquire().await) }).await?;
    let Err(error) = answer else { return Err(Stop::failed("the name is held and acquired")) };
    ensure!(error.kind() == ErrorKind::Timeout, "the wait is over and the error is {error:?}");
    a.lock.release(&claim).await?;
    if error.outcome() == Outcome::NotApplied {
        // It said so: nothing may stand in the way even for a moment.
        let claim = ctx.claim(&name);
        granted(a.lock.try_acquire(&claim).await?)?;
        a.lock.release(&claim).await?;
    }
    is_free(ctx, &name).await
}

async fn renewal_keeps(ctx: &Context) -> Checked {
    let (a, b) = ctx.two().await?;
    let clock = ctx.clock();
    // A machine that stands still for a whole ttl loses the lock rightly: then once more.
    for _ in 0..3 {
        let name = ctx.name();
        let guard = guard(ctx, &a, &name).await?;
        let ttl = guard.ttl().unwrap_or(ctx.harness().ttl());
        let until = clock.now().plus(ttl * 7 / 2);
        while clock.now() < until && guard.is_held() {
            let attempt = b.lock.try_acquire(&ctx.claim(&name)).await?;
            if guard.is_held() {
                busy(attempt)?;
            }
            clock.sleep(POLL * 5).await;
        }
        if guard.is_held() {
            guard.release().await?;
            return Ok(());
        }
    }
    Err(Stop::failed("a renewed lock was lost within 3.5 ttl, three times"))
}

/// Cut off, the holder stops believing before the server lets another in.
async fn lost_before_another_enters(ctx: &Context) -> Checked {
    ctx.needs_expiry()?;
    let (a, b) = ctx.two().await?;
    let link = a.needs_link()?;
    let name = ctx.name();
    let guard = guard(ctx, &a, &name).await?;
    let ttl = guard.ttl().unwrap_or(ctx.harness().ttl());
    link.silence().await;
    let next = ctx.short(&name);
    let enter = async {
        // That nobody ever enters is for other checks to say.
        let entered = acquire(&*b.lock, &next, ctx.takeover(ttl)).await.is_ok();
        ensure!(!entered || !guard.is_held(), "another holds the name and the guard still believes that it does");
        Ok(())
    };
    let lost = within(ttl + ctx.patience(), "lost() should fire at the deadline", async {
        guard.lost().await;
        ensure!(!guard.is_held(), "lost() has fired and the guard is held");
        Ok(())
    });
    let (entered, lost) = tokio::join!(enter, lost);
    link.heal().await;
    entered?;
    lost
}

async fn late_release_spares_the_next(ctx: &Context) -> Checked {
    ctx.needs_expiry()?;
    let (a, b, c) = ctx.three().await?;
    let link = a.needs_link()?;
    let name = ctx.name();
    let late = guard(ctx, &a, &name).await?;
    let next = within(ctx.takeover(ctx.long_ttl()), "the name of a hung holder should become free", async {
        Ok(locker(&b)?.lock(&name).ttl(ctx.long_ttl()).acquire().await?)
    });
    let hang = async {
        link.silence().await;
        late.lost().await;
    };
    let (next, ()) = tokio::join!(next, hang);
    link.heal().await;
    let next = next?;
    // Whatever it answers: it must not be that something was released.
    if let Ok(release) = late.release().await {
        ensure!(release == Release::NotHeld, "a lost hold was released");
    }
    busy(c.lock.try_acquire(&ctx.claim(&name)).await?)?;
    ensure!(next.is_held(), "the next holder lost the name to a late release");
    ensure!(next.release().await? == Release::Released, "the next holder's claim was released by a late one");
    Ok(())
}

async fn run_cancels(ctx: &Context) -> Checked {
    ctx.needs_expiry()?;
    struct Dropped(Arc<AtomicBool>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let a = ctx.client().await?;
    let link = a.needs_link()?;
    let guard = guard(ctx, &a, &ctx.name()).await?;
    let dropped = Arc::new(AtomicBool::new(false));
    let work = Dropped(Arc::clone(&dropped));
    link.silence().await;
    let limit = guard.ttl().unwrap_or(ctx.harness().ttl()) + ctx.patience();
    let ran = within(limit, "run should end when the lock is lost", async {
        let forever = async move {
            let _work = work;
            std::future::pending::<()>().await;
        };
        Ok(guard.run(forever).await)
    })
    .await;
    link.heal().await;
    ensure!(ran?.is_err(), "the lock was lost and run says that the work has ended");
    ensure!(dropped.load(Ordering::SeqCst), "the lock was lost and the work was not dropped");
    Ok(())
}
