//! What waiters cost the server.

mod common;

use std::time::Duration;

use common::{LONG, acquire, claim, granted, name, queued};
use lockyard_api::{Clock, DistributedLock};
use lockyard_testbed::Options;

const WAITERS: usize = 50;
const IDLE: Duration = Duration::from_secs(4);

/// B133: waiters watch the one before them and cost nothing until that one goes.
#[tokio::test(flavor = "multi_thread")]
async fn fifty_waiters_cost_next_to_nothing() {
    let Some(harness) = common::start(Options::new().counting()).await else { return };
    let server = harness.server().expect("its own");
    let name = name();
    let (holder, _proxy) = common::client(&harness, LONG).await;
    let held = claim(&name);
    granted(holder.try_acquire(&held).await);
    let mut waiters = tokio::task::JoinSet::new();
    for place in 0..WAITERS {
        let (lock, proxy) = common::client(&harness, LONG).await;
        let waiting = claim(&name).queueing();
        queued(lock.try_acquire(&waiting).await);
        waiters.spawn(async move {
            let token = acquire(&lock, &waiting, LONG).await.token.expect("a token");
            lock.release(&waiting).await.expect("an answer");
            drop(proxy);
            (place, token)
        });
    }
    let idle = |method: &str| !matches!(method, "ping" | "sync" | "getEphemerals");
    let count = async || {
        let requests = server.requests().await.expect("it counts");
        requests.iter().filter(|(method, _)| idle(method)).map(|(_, count)| count).sum::<u64>()
    };
    // Each waiter repeats its claim once and sets its watch.
    lockyard_testbed::timing::eventually(common::SOON, async || {
        let requests = server.requests().await.expect("it counts");
        usize::try_from(requests.of("getData")).is_ok_and(|watches| watches >= WAITERS)
    })
    .await
    .expect("every waiter watches");
    let before = count().await;
    Clock::system().sleep(IDLE).await;
    let asked = count().await - before;
    assert!(asked < 5 * IDLE.as_secs(), "{WAITERS} waiters asked {asked} times in {IDLE:?}");

    let before = count().await;
    holder.release(&held).await.expect("an answer");
    let mut turns: Vec<_> = waiters.join_all().await;
    turns.sort_by_key(|(_, token)| *token);
    assert!(turns.iter().map(|(place, _)| *place).eq(0..WAITERS), "served in the order {turns:?}");
    // Each turn: one list, one delete. Nobody else is woken.
    let asked = count().await - before;
    assert!(asked <= 3 * (WAITERS as u64 + 1), "{WAITERS} turns cost {asked} requests");
}
