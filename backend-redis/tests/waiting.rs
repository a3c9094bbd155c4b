//! Many waiters: what they cost while they wait, and that all get the lock in turn.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use lockyard_api::{Attempt, Claim, Clock, DistributedLock, Grant, LockName, Moment, Wake};
use lockyard_redis::RedisLock;
use lockyard_redis::testing::RedisHarness;
use lockyard_testbed::{Options, Server, timing};
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
    many_wait(50, Duration::ZERO, Duration::from_secs(4), 5.0).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a crowd: half a minute, and it tells what a hand-over costs"]
async fn three_hundred_waiters_cost_no_more_a_hand_over() {
    many_wait(300, Duration::from_millis(20), Duration::from_secs(20), 30.0).await;
}

/// So many clients wait for one name, for a while in vain, and then each holds it once (B133).
async fn many_wait(waiters: usize, hold: Duration, quiet: Duration, most: f64) {
    let harness = RedisHarness::start_with(Options::new().counting()).await.expect("a server of our own");
    let server = harness.server().expect("our own");
    let (name, ttl) = (LockName::new("popular").expect("a name"), Duration::from_secs(60));
    let holder = connect(&harness).await;
    let alone = cycles_alone(server, &holder, ttl).await;
    let first = Claim::new(name.clone(), ttl);
    assert!(matches!(holder.try_acquire(&first).await.expect("an answer"), Attempt::Granted(_)));

    let inside = Arc::new(AtomicUsize::new(0));
    let mut waiting = JoinSet::new();
    for _ in 0..waiters {
        let (lock, claim, inside) =
            (connect(&harness).await, Claim::new(name.clone(), ttl).queueing(), Arc::clone(&inside));
        waiting.spawn(async move {
            let grant = acquire(&lock, &claim).await;
            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two inside");
            tokio::task::yield_now().await;
            Clock::system().sleep(hold).await;
            inside.fetch_sub(1, Ordering::SeqCst);
            lock.release(&claim).await.expect("an answer");
            grant.token
        });
    }
    let queued = timing::eventually(Duration::from_secs(60), async || {
        holder.inspect(&name).await.expect("an answer").and_then(|held| held.waiters) == u64::try_from(waiters).ok()
    });
    queued.await.expect("all queue");

    let clock = Clock::system();
    let (before, began): (_, Moment) = (server.requests().await.expect("counts"), clock.now());
    clock.sleep(quiet).await;
    let counted = server.requests().await.expect("counts").since(&before);
    let rate = per(counted.total(), clock.now().since(began).as_secs_f64());
    // Each shows that it lives every 15 s.
    assert!(rate < most, "{rate:.1} requests/s while {waiters} wait: {counted:?}");

    let (before, began) = (server.requests().await.expect("counts"), clock.now());
    holder.release(&first).await.expect("an answer");
    let limit = timing::scaled(Duration::from_secs(60) + hold * 300 * 3);
    let mut tokens = tokio::time::timeout(limit, waiting.join_all()).await.expect("everybody gets it");
    let (counted, took) = (server.requests().await.expect("counts").since(&before), clock.now().since(began));
    let turn = per(counted.total(), waiters as f64);
    println!(
        "{waiters} wait: {rate:.1} requests/s; {turn:.2} a hand-over, {alone:.2} a cycle alone; {took:.1?}, {counted:?}"
    );
    assert!(turn < alone + 2.0, "{turn:.1} requests a hand-over, {alone:.1} a cycle alone: {counted:?}");
    assert!(tokens.iter().all(Option::is_some));
    tokens.sort_unstable();
    tokens.dedup();
    assert_eq!(tokens.len(), waiters, "every grant has a token of its own");
}

/// What it costs to take a name and give it back when nobody waits.
async fn cycles_alone(server: &Server, lock: &RedisLock, ttl: Duration) -> f64 {
    const CYCLES: u32 = 20;
    let claim = Claim::new(LockName::new("quiet").expect("a name"), ttl).queueing();
    let before = server.requests().await.expect("counts");
    for _ in 0..CYCLES {
        acquire(lock, &claim).await;
        lock.release(&claim).await.expect("an answer");
    }
    per(server.requests().await.expect("counts").since(&before).total(), f64::from(CYCLES))
}

fn per(count: u64, whole: f64) -> f64 {
    count as f64 / whole
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
