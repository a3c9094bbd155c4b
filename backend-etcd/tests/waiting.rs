//! Many waiters: what they cost while they wait, that all get the lock in turn, and that nothing of them stays.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use common::{
    acquire, claim, client, entries, granted, harness, name, queued, released, rest, server, watchers, within,
};
use lockyard_api::{Claim, Clock, DistributedLock, FencingToken};
use lockyard_testbed::timing;
use tokio::task::JoinSet;

const LONG: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread")]
async fn fifty_waiters_are_quiet_and_are_served_in_turn() {
    const WAITERS: usize = 50;
    let harness = harness().await;
    let server = server(&harness);
    let holder = client(&harness).await;
    let first = Claim::new(name("popular"), LONG);
    granted(&holder, &first).await;

    let inside = Arc::new(AtomicUsize::new(0));
    let mut waiting = JoinSet::new();
    for place in 0..WAITERS {
        let (lock, claim) = (client(&harness).await, Claim::new(name("popular"), LONG).queueing());
        queued(&lock, &claim).await;
        let inside = Arc::clone(&inside);
        waiting.spawn(async move {
            let grant = acquire(&lock, &claim).await;
            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two inside");
            tokio::task::yield_now().await;
            inside.fetch_sub(1, Ordering::SeqCst);
            released(&lock, &claim).await;
            (grant.token, place)
        });
    }
    let all_watch = timing::eventually(Duration::from_secs(10), async || watchers(server).await == WAITERS as u64);
    all_watch.await.expect("one watch a client");
    rest(Duration::from_millis(500)).await;

    let (clock, quiet) = (Clock::system(), Duration::from_secs(4));
    let (before, began) = (server.requests().await.expect("counts"), clock.now());
    clock.sleep(quiet).await;
    let counted = server.requests().await.expect("counts").since(&before);
    let work = counted.total_without(&["LeaseKeepAlive", "LeaseTimeToLive"]);
    let rate = f64::from(u32::try_from(work).expect("few")) / clock.now().since(began).as_secs_f64();
    assert!(rate < 5.0, "{rate:.1} requests/s while 50 wait: {counted:?}");

    released(&holder, &first).await;
    let mut served: Vec<(Option<FencingToken>, usize)> =
        within(Duration::from_secs(20), "everybody gets it", waiting.join_all()).await;
    served.sort_unstable();
    assert!(served.iter().map(|(_, place)| *place).eq(0..WAITERS), "not in the order of the queue: {served:?}");
    assert!(served.windows(2).all(|pair| pair[0].0 < pair[1].0), "a token twice");
}

// Leaked watches cost everybody: each tells its client of every release.
#[tokio::test(flavor = "multi_thread")]
async fn watches_end_with_their_waiters_and_with_their_client() {
    let harness = harness().await;
    let server = server(&harness);
    assert_eq!(watchers(server).await, 0);
    let holder = client(&harness).await;
    granted(&holder, &claim("idle")).await;
    granted(&holder, &claim("dropped")).await;

    let lock = client(&harness).await;
    let waiter = claim("idle").queueing();
    queued(&lock, &waiter).await;
    let open = async |count: u64| {
        let seen = timing::eventually(Duration::from_secs(10), async || watchers(server).await == count).await;
        assert!(seen.is_some(), "{} watches instead of {count}", watchers(server).await);
    };
    open(1).await;
    drop(tokio::time::timeout(Duration::from_millis(20), lock.wait(&waiter)).await);
    released(&lock, &waiter).await;
    open(0).await;

    queued(&lock, &claim("dropped").queueing()).await;
    queued(&lock, &claim("idle").queueing()).await;
    open(2).await;
    drop(lock);
    open(0).await;
    let gone = timing::eventually(Duration::from_secs(5), async || entries(&holder, "dropped").await == 1);
    gone.await.expect("the places end with the client, long before the lease");
}
