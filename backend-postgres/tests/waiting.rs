//! What waiting costs the server, and that everybody gets his turn.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lockyard_api::{Clock, DistributedLock, Release};
use lockyard_postgres::Mode;
use lockyard_testbed::Options;
use tokio::task::JoinSet;

mod support;
use support::{Checked, acquire, claim, granted, harness_with, name, with_ttl};

const WAITERS: usize = 50;

/// 50 clients wait for a held name: the server hears little of them, and when it is given back each gets it once, alone.
async fn many_wait(mode: Mode) -> Checked {
    let options = Options::new().counting().args(["-c", "max_connections=300"]);
    let Some(harness) = harness_with(mode, options).await? else { return Ok(()) };
    let server = harness.server().ok_or("an own server")?;
    let name = name();
    let holder = harness.client(harness.config()).await?.0;
    // Longer than the test: no heartbeat and no re-check at the end of a lease falls into it.
    let first = with_ttl(claim(&name), 60);
    granted(&holder, &first).await?;

    let holding = Arc::new(AtomicUsize::new(0));
    let queued = Arc::new(AtomicUsize::new(0));
    let mut waiters = JoinSet::new();
    for _ in 0..WAITERS {
        let lock = harness.client(harness.config()).await?.0;
        let claim = with_ttl(claim(&name).queueing(), 60);
        let (holding, queued) = (Arc::clone(&holding), Arc::clone(&queued));
        waiters.spawn(async move {
            let _queued = lock.try_acquire(&claim).await?;
            queued.fetch_add(1, Ordering::SeqCst);
            acquire(&lock, &claim, Duration::from_secs(60)).await?;
            assert_eq!(holding.fetch_add(1, Ordering::SeqCst), 0, "two hold the name");
            tokio::task::yield_now().await;
            holding.fetch_sub(1, Ordering::SeqCst);
            assert_eq!(lock.release(&claim).await?, Release::Released);
            Checked::Ok(())
        });
    }
    let all = || async { queued.load(Ordering::SeqCst) == WAITERS };
    lockyard_testbed::timing::eventually(Duration::from_secs(20), all).await.ok_or("not all queued")?;

    let clock = Clock::system();
    let (start, before) = (clock.now(), server.requests().await?);
    clock.sleep(Duration::from_secs(4)).await;
    let (end, after) = (clock.now(), server.requests().await?);
    let asked = after.since(&before);
    let statements = asked.of("statement") + asked.of("execute");
    let rate = statements as f64 / end.since(start).as_secs_f64();
    assert!(rate < 5.0, "{rate} statements a second: {asked:?}");

    holder.release(&first).await?;
    while let Some(ended) = waiters.join_next().await {
        ended??;
    }
    Ok(())
}

#[tokio::test]
async fn advisory_waiters_are_quiet() -> Checked {
    many_wait(Mode::Advisory).await
}

#[tokio::test]
async fn row_waiters_are_quiet() -> Checked {
    many_wait(Mode::Row).await
}

#[tokio::test]
async fn lease_waiters_are_quiet() -> Checked {
    many_wait(Mode::Lease).await
}
