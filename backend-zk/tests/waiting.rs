//! What waiters cost the server.

mod common;

use std::time::Duration;

use common::{LONG, acquire, claim, granted, name, queued};
use lockyard_api::{Clock, DistributedLock};
use lockyard_testbed::{Options, Server};
use lockyard_zk::ZkLock;

#[tokio::test(flavor = "multi_thread")]
async fn fifty_waiters_cost_next_to_nothing() {
    many_wait(50, Duration::ZERO, Duration::from_secs(4), 5.0).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a crowd: half a minute, and it tells what a hand-over costs"]
async fn three_hundred_waiters_cost_no_more_a_hand_over() {
    many_wait(300, Duration::from_millis(20), Duration::from_secs(20), 5.0).await;
}

/// B133: waiters watch the one before them and cost nothing until that one goes.
async fn many_wait(waiters: usize, hold: Duration, quiet: Duration, most: f64) {
    let Some(harness) = common::start(Options::new().counting()).await else { return };
    let server = harness.server().expect("its own");
    let name = name();
    let (holder, _proxy) = common::client(&harness, LONG).await;
    let alone = cycles_alone(server, &holder).await;
    let held = claim(&name);
    granted(holder.try_acquire(&held).await);
    let mut waiting = tokio::task::JoinSet::new();
    for place in 0..waiters {
        let (lock, proxy) = common::client(&harness, LONG).await;
        let claim = claim(&name).queueing();
        queued(lock.try_acquire(&claim).await);
        waiting.spawn(async move {
            let token = acquire(&lock, &claim, LONG * 2).await.token.expect("a token");
            Clock::system().sleep(hold).await;
            lock.release(&claim).await.expect("an answer");
            // The client lives on: the end of its session is no part of a hand-over.
            ((place, token), (lock, proxy))
        });
    }
    // Each waiter repeats its claim once and sets its watch.
    lockyard_testbed::timing::eventually(common::SOON, async || {
        let requests = server.requests().await.expect("it counts");
        usize::try_from(requests.of("getData")).is_ok_and(|watches| watches >= waiters)
    })
    .await
    .expect("every waiter watches");
    let (before, began) = (work(server).await, Clock::system().now());
    Clock::system().sleep(quiet).await;
    let rate = per(work(server).await - before, Clock::system().now().since(began).as_secs_f64());
    assert!(rate < most, "{rate:.1} requests/s while {waiters} wait");

    let (before, began) = (work(server).await, Clock::system().now());
    holder.release(&held).await.expect("an answer");
    let (mut turns, clients): (Vec<_>, Vec<_>) = waiting.join_all().await.into_iter().unzip();
    let (turn, took) = (per(work(server).await - before, waiters as f64), Clock::system().now().since(began));
    drop(clients);
    println!("{waiters} wait: {rate:.1} requests/s; {turn:.2} a hand-over, {alone:.2} a cycle alone; {took:.1?}");
    turns.sort_by_key(|(_, token)| *token);
    assert!(turns.iter().map(|(place, _)| *place).eq(0..waiters), "served in the order {turns:?}");
    // Each turn: one list, one delete. Nobody else is woken.
    assert!(turn <= 3.1, "{turn:.2} requests a hand-over, {alone:.2} a cycle alone");
}

/// What it costs to take a name and give it back when nobody waits.
async fn cycles_alone(server: &Server, lock: &ZkLock) -> f64 {
    const CYCLES: u32 = 20;
    let claim = claim(&name()).queueing();
    granted(lock.try_acquire(&claim).await);
    lock.release(&claim).await.expect("an answer");
    let before = work(server).await;
    for _ in 0..CYCLES {
        granted(lock.try_acquire(&claim).await);
        lock.release(&claim).await.expect("an answer");
    }
    per(work(server).await - before, f64::from(CYCLES))
}

/// How many requests the server has executed that are not for the life of a session.
async fn work(server: &Server) -> u64 {
    let requests = server.requests().await.expect("it counts");
    requests.total_without(&["ping", "sync", "getEphemerals"])
}

fn per(count: u64, whole: f64) -> f64 {
    count as f64 / whole
}
