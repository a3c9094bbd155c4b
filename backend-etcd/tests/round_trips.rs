//! What a cycle costs, as the server counts it.

mod common;

use std::collections::BTreeMap;
use std::time::Duration;

use common::{acquire, client, granted, harness, queued, released, rest, server, within};
use lockyard_api::{Attempt, Claim, DistributedLock, FencedRegister, FencingToken, Version, Write};
use lockyard_etcd::{EtcdLock, EtcdRegister};
use lockyard_testbed::Server;

/// Long enough that no heartbeat falls into a count.
const TTL: Duration = Duration::from_secs(60);

/// The requests of clients that the server executes meanwhile.
async fn requests<T>(server: &Server, work: impl Future<Output = T>) -> (BTreeMap<String, u64>, T) {
    let before = server.requests().await.expect("counts");
    let result = work.await;
    let counted = server.requests().await.expect("counts").since(&before);
    (counted.iter().map(|(method, count)| (method.to_owned(), count)).collect(), result)
}

fn only(method: &str) -> BTreeMap<String, u64> {
    BTreeMap::from([(method.to_owned(), 1)])
}

fn long(name: &str) -> Claim {
    Claim::new(common::name(name), TTL)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_uncontended_cycle_is_one_request_each_way() {
    let harness = harness().await;
    let server = server(&harness);
    let lock = client(&harness).await;
    granted(&lock, &long("seen")).await;
    for claim in [long("other"), long("other").queueing()] {
        let (acquire, _) = requests(server, granted(&lock, &claim)).await;
        assert_eq!(acquire, only("Txn"), "acquire, {:?}", claim.if_busy);
        let (release, ()) = requests(server, released(&lock, &claim)).await;
        assert_eq!(release, only("DeleteRange"), "release, {:?}", claim.if_busy);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_try_at_a_held_name_is_one_request() {
    let harness = harness().await;
    let server = server(&harness);
    let (a, b) = (client(&harness).await, client(&harness).await);
    granted(&a, &long("held")).await;
    granted(&b, &long("seen")).await;
    let claim = long("held");
    let (busy, attempt) = requests(server, b.try_acquire(&claim)).await;
    assert!(matches!(attempt.expect("an answer"), Attempt::Busy));
    assert_eq!(busy, only("Txn"));
}

/// Queues, and comes back when the client's watch stands: opening it reads the queue once, behind the caller's back.
async fn queues_with_a_watch(server: &Server, lock: &EtcdLock, claim: &Claim) {
    let reads = async || server.requests().await.expect("counts").of("Range");
    let before = reads().await;
    queued(lock, claim).await;
    within(Duration::from_secs(10), "the watch's first read", async {
        while reads().await == before {
            rest(Duration::from_millis(5)).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hand_over_is_the_holders_release_alone() {
    let harness = harness().await;
    let server = server(&harness);
    let (a, b) = (client(&harness).await, client(&harness).await);
    let (holder, waiter, next) = (long("name"), long("name").queueing(), long("name").queueing());
    granted(&a, &holder).await;
    granted(&b, &long("seen")).await;
    queues_with_a_watch(server, &b, &waiter).await;
    released(&a, &holder).await;
    acquire(&b, &waiter).await;
    granted(&a, &long("seen too")).await;
    queues_with_a_watch(server, &a, &next).await;
    released(&b, &waiter).await;
    acquire(&a, &next).await;
    // Both have their watches now.
    let last = long("name").queueing();
    let (entry, ()) = requests(server, queued(&b, &last)).await;
    assert_eq!(entry, only("Txn"));
    let (hand_over, _) = requests(server, async { tokio::join!(released(&a, &next), b.wait(&last)) }).await;
    assert_eq!(hand_over, only("DeleteRange"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_register_is_one_request_each_way() {
    let harness = harness().await;
    let server = server(&harness);
    let register = EtcdRegister::connect(harness.config().clone()).await.expect("connects");
    let (name, token) = (common::name("fenced"), FencingToken::new(768).expect("small"));
    let first = register.write(&name, b"1", token, Version::ABSENT).await.expect("an answer");
    assert!(matches!(first, Write::Written { .. }), "{first:?}");
    let (read, found) = requests(server, register.read(&name)).await;
    assert_eq!(read, only("Range"));
    let (stale, version) = (FencingToken::new(0).expect("small"), found.expect("an answer").version);
    for (token, expected) in [(token, Version::ABSENT), (stale, version), (token, version)] {
        let (write, answer) = requests(server, register.write(&name, b"2", token, expected)).await;
        assert_eq!(write, only("Txn"), "{answer:?}");
    }
}
