//! Many waiters: what they cost while they wait, and that all get the lock in turn.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use lockyard_api::{Attempt, Claim, Clock, DistributedLock, Grant, LockName, Moment, Wake};
use lockyard_redis::RedisLock;
use lockyard_redis::testing::RedisHarness;
use lockyard_testbed::{Options, timing};
use tokio::task::JoinSet;

/// Waits as the front end does.
async fn acquire(lock: &RedisLock, claim: &Claim) -> Grant {
    loop {
        match lock.try_acquire(claim).await.expect("an answer") {
            Attempt::Granted(grant) => return grant,
            Attempt::Queued => {}
            other => panic!("{other:?} to a claim that queues"),
        }
        if let Wake::Granted(grant) = lock.wait(claim).await.expect("no error") {
            return grant;
        }
    }
}

/// With the patience that a crowd needs on a machine that is busy: nothing is broken here.
async fn connect(harness: &RedisHarness) -> RedisLock {
    RedisLock::connect(harness.config().op_timeout(Duration::from_secs(30))).await.expect("connects")
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_waiters_are_quiet_and_are_served_in_turn() {
    const WAITERS: usize = 50;
    let harness = RedisHarness::start_with(Options::new().counting()).await.expect("a server of our own");
    let server = harness.server().expect("our own");
    let (name, ttl) = (LockName::new("popular").expect("a name"), Duration::from_secs(30));
    let holder = connect(&harness).await;
    let first = Claim::new(name.clone(), ttl);
    assert!(matches!(holder.try_acquire(&first).await.expect("an answer"), Attempt::Granted(_)));

    let inside = Arc::new(AtomicUsize::new(0));
    let mut waiting = JoinSet::new();
    for _ in 0..WAITERS {
        let (lock, claim, inside) =
            (connect(&harness).await, Claim::new(name.clone(), ttl).queueing(), Arc::clone(&inside));
        waiting.spawn(async move {
            let grant = acquire(&lock, &claim).await;
            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two inside");
            tokio::task::yield_now().await;
            inside.fetch_sub(1, Ordering::SeqCst);
            lock.release(&claim).await.expect("an answer");
            grant.token
        });
    }
    let queued = timing::eventually(Duration::from_secs(60), async || {
        holder.inspect(&name).await.expect("an answer").and_then(|held| held.waiters) == Some(50)
    });
    queued.await.expect("all queue");

    let (clock, quiet) = (Clock::system(), Duration::from_secs(4));
    let (before, began): (_, Moment) = (server.requests().await.expect("counts"), clock.now());
    clock.sleep(quiet).await;
    let counted = server.requests().await.expect("counts").since(&before);
    let rate = f64::from(u32::try_from(counted.total()).expect("few")) / clock.now().since(began).as_secs_f64();
    assert!(rate < 5.0, "{rate:.1} requests/s while 50 wait: {counted:?}");

    holder.release(&first).await.expect("an answer");
    let mut tokens = tokio::time::timeout(timing::scaled(Duration::from_secs(60)), waiting.join_all())
        .await
        .expect("everybody gets it");
    assert!(tokens.iter().all(Option::is_some));
    tokens.sort_unstable();
    tokens.dedup();
    assert_eq!(tokens.len(), WAITERS, "every grant has a token of its own");
}

/// B78: a thousand tasks wait for a thousand names, over one connection.
#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_names_are_waited_for_over_one_connection() {
    let harness = RedisHarness::start().await.expect("a server");
    let (holder, lock) = (connect(&harness).await, connect(&harness).await);
    let ttl = Duration::from_secs(60);
    let names: Vec<LockName> = (0..1000).map(|i| LockName::new(format!("n{i}")).expect("a name")).collect();
    let held: Vec<Claim> = names.iter().map(|name| Claim::new(name.clone(), ttl)).collect();
    for attempt in join_all(held.iter().map(|claim| holder.try_acquire(claim))).await {
        assert!(matches!(attempt.expect("an answer"), Attempt::Granted(_)));
    }
    let mut side = harness.side().await.expect("a connection");
    let before = clients(&mut side).await;
    let mut waiting = JoinSet::new();
    for name in names.clone() {
        let lock = lock.clone();
        waiting.spawn(async move {
            let claim = Claim::new(name, ttl).queueing();
            acquire(&lock, &claim).await;
            lock.release(&claim).await.expect("an answer");
        });
    }
    let last = names.last().expect("a thousand");
    let queued = timing::eventually(Duration::from_secs(60), async || {
        let waiters = join_all([&names[0], last].map(|name| holder.inspect(name))).await;
        waiters.into_iter().all(|held| held.expect("an answer").and_then(|held| held.waiters) == Some(1))
    });
    queued.await.expect("all queue");
    assert_eq!(clients(&mut side).await, before, "no further connection");
    for release in join_all(held.iter().map(|claim| holder.release(claim))).await {
        release.expect("an answer");
    }
    let all = tokio::time::timeout(timing::scaled(Duration::from_secs(60)), waiting.join_all());
    all.await.expect("everybody gets its name");
}

async fn clients(side: &mut redis::aio::MultiplexedConnection) -> usize {
    let list: String = redis::cmd("CLIENT").arg("LIST").query_async(side).await.expect("a list");
    list.lines().count()
}
