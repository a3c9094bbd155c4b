//! Many waiters: what they cost while they wait, that all get the lock in turn, and that nothing of them stays.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use common::{
    acquire, claim, client, entries, granted, harness, metric, name, queued, released, rest, server, watchers, within,
};
use lockyard_api::{Claim, Clock, DistributedLock, FencingToken};
use lockyard_etcd::EtcdLock;
use lockyard_testbed::{Requests, Server, timing};
use tokio::task::JoinSet;

const LONG: Duration = Duration::from_secs(60);
/// What the server sends over watches.
const TOLD: &str =
    r#"grpc_server_msg_sent_total{grpc_method="Watch",grpc_service="etcdserverpb.Watch",grpc_type="bidi_stream"}"#;

#[tokio::test(flavor = "multi_thread")]
async fn fifty_waiters_are_quiet_and_are_served_in_turn() {
    many_wait(50, Duration::ZERO, Duration::from_secs(4), 5.0).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a crowd: half a minute, and it tells what a hand-over costs"]
async fn three_hundred_waiters_cost_no_more_a_hand_over() {
    many_wait(300, Duration::from_millis(20), Duration::from_secs(20), 45.0).await;
}

/// So many clients wait for one name, for a while in vain, and then each holds it once (B133).
async fn many_wait(waiters: usize, hold: Duration, quiet: Duration, most: f64) {
    let harness = harness().await;
    let server = server(&harness);
    let holder = client(&harness).await;
    let alone = cycles_alone(server, &holder).await;
    let first = Claim::new(name("popular"), LONG);
    granted(&holder, &first).await;

    let inside = Arc::new(AtomicUsize::new(0));
    let mut waiting = JoinSet::new();
    for place in 0..waiters {
        let (lock, claim) = (client(&harness).await, Claim::new(name("popular"), LONG).queueing());
        queued(&lock, &claim).await;
        let inside = Arc::clone(&inside);
        waiting.spawn(async move {
            let grant = acquire(&lock, &claim).await;
            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two inside");
            tokio::task::yield_now().await;
            rest(hold).await;
            inside.fetch_sub(1, Ordering::SeqCst);
            released(&lock, &claim).await;
            // The client lives on: the end of its session is no part of a hand-over.
            ((grant.token, place), lock)
        });
    }
    let all_watch = timing::eventually(Duration::from_secs(20), async || watchers(server).await == waiters as u64);
    all_watch.await.expect("one watch a client");
    rest(Duration::from_millis(500)).await;

    let clock = Clock::system();
    let (before, began) = (server.requests().await.expect("counts"), clock.now());
    clock.sleep(quiet).await;
    let counted = server.requests().await.expect("counts").since(&before);
    let rate = work(&counted) as f64 / clock.now().since(began).as_secs_f64();
    // Each reads the queue again every 15 s, and what its session holds every 20 s.
    assert!(rate < most, "{rate:.1} requests/s while {waiters} wait: {counted:?}");

    let (before, told, began) = (server.requests().await.expect("counts"), metric(server, TOLD).await, clock.now());
    released(&holder, &first).await;
    let limit = Duration::from_secs(30) + hold * 300 * 3;
    let (mut served, clients): (Vec<(Option<FencingToken>, usize)>, Vec<EtcdLock>) =
        within(limit, "everybody gets it", waiting.join_all()).await.into_iter().unzip();
    let (counted, took) = (server.requests().await.expect("counts").since(&before), clock.now().since(began));
    let each = |count: u64| count as f64 / waiters as f64;
    let (turn, told) = (each(work(&counted)), each(metric(server, TOLD).await - told));
    drop(clients);
    println!(
        "{waiters} wait: {rate:.1} requests/s; {turn:.2} a hand-over, {alone:.2} a cycle alone; {told:.1} messages of watches; {took:.1?}, {counted:?}"
    );
    assert!(turn < alone + 1.0, "{turn:.1} requests a hand-over, {alone:.1} a cycle alone: {counted:?}");
    served.sort_unstable();
    assert!(served.iter().map(|(_, place)| *place).eq(0..waiters), "not in the order of the queue: {served:?}");
    assert!(served.windows(2).all(|pair| pair[0].0 < pair[1].0), "a token twice");
}

/// What it costs to take a name and give it back when nobody waits.
async fn cycles_alone(server: &Server, lock: &EtcdLock) -> f64 {
    const CYCLES: u32 = 20;
    let claim = Claim::new(name("quiet"), LONG).queueing();
    granted(lock, &claim).await;
    released(lock, &claim).await;
    let before = server.requests().await.expect("counts");
    for _ in 0..CYCLES {
        granted(lock, &claim).await;
        released(lock, &claim).await;
    }
    work(&server.requests().await.expect("counts").since(&before)) as f64 / f64::from(CYCLES)
}

/// What is not for the life of the session.
fn work(requests: &Requests) -> u64 {
    requests.total_without(&["LeaseKeepAlive", "LeaseTimeToLive"])
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
