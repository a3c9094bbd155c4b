//! The queue of one name under the faults seen in the field.

mod common;

use std::time::Duration;

use common::{acquire, claim, client, entries, granted, harness, name, queued, released, server, within};
use etcd_client::{Client, PutOptions};
use lockyard_api::{Attempt, Claim, DistributedLock, Namespace, Wake};
use lockyard_etcd::testing::EtcdHarness;
use lockyard_etcd::{EtcdConfig, EtcdLock, KeySpace};
use lockyard_testbed::timing;

async fn raw(harness: &EtcdHarness) -> Client {
    Client::connect([server(harness).url()], None).await.expect("connects")
}

fn range(lock: &EtcdLock, text: &str) -> String {
    lock.key_space().lock(&name(text)).range().to_owned()
}

fn busy(attempt: &Attempt) -> bool {
    matches!(attempt, Attempt::Busy)
}

// B06
#[tokio::test(flavor = "multi_thread")]
async fn names_that_begin_alike_are_different_locks() {
    let harness = harness().await;
    let (a, b) = (client(&harness).await, client(&harness).await);
    for (held, wanted) in [("job1", "job"), ("job/1", "job"), ("a/b", "a"), ("a:b", "a"), ("a%2Fb", "a/b"), ("x/", "x")]
    {
        let (hold, claim) = (claim(held), claim(wanted));
        granted(&a, &hold).await;
        granted(&b, &claim).await;
        assert!(busy(&a.try_acquire(&common::claim(wanted)).await.expect("an answer")));
        released(&a, &hold).await;
        released(&b, &claim).await;
    }
}

// B06: without a namespace, the name of one lock can be the namespace of another.
#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_named_like_a_lock_is_in_nobodys_way() {
    let harness = harness().await;
    let namespaced = |namespace: &str| {
        EtcdLock::connect(harness.config().clone().namespace(Namespace::new(namespace).expect("a namespace")))
    };
    let (outer, inner) = (namespaced("").await.expect("connects"), namespaced("job").await.expect("connects"));
    granted(&inner, &claim("x")).await;
    for claim in [claim("job"), claim("job").queueing()] {
        granted(&outer, &claim).await;
        released(&outer, &claim).await;
    }
}

// B20
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_that_gives_up_leaves_no_place() {
    let harness = harness().await;
    let (a, b, c) = (client(&harness).await, client(&harness).await, client(&harness).await);
    let (hold, waiter) = (claim("name"), claim("name").queueing());
    granted(&a, &hold).await;
    queued(&b, &waiter).await;
    let waited = tokio::time::timeout(Duration::from_millis(500), b.wait(&waiter)).await;
    assert!(waited.is_err(), "{waited:?} while the name is held");
    released(&b, &waiter).await;
    assert_eq!(entries(&c, "name").await, 1);
    released(&a, &hold).await;
    granted(&c, &claim("name")).await;
}

// B21
#[tokio::test(flavor = "multi_thread")]
async fn a_compaction_and_a_cut_while_waiting_lose_nothing() {
    let harness = harness().await;
    let a = client(&harness).await;
    let (b, proxy) = harness.client_via_proxy().await.expect("connects");
    let mut raw = raw(&harness).await;
    let (hold, waiter) = (claim("name"), claim("name").queueing());
    granted(&a, &hold).await;
    queued(&b, &waiter).await;
    let mut revision = 0;
    for round in 0..100 {
        let put = raw.put("elsewhere", format!("{round}"), None).await.expect("puts");
        revision = put.header().expect("a header").revision();
    }
    raw.compact(revision, None).await.expect("compacts");
    proxy.reset();
    released(&a, &hold).await;
    within(Duration::from_secs(5), "the waiter reads the queue anew", acquire(&b, &waiter)).await;
    assert_eq!(entries(&a, "name").await, 1);
}

// B69
#[tokio::test(flavor = "multi_thread")]
async fn foreign_keys_below_a_name_are_ignored() {
    let harness = harness().await;
    let (a, b) = (client(&harness).await, client(&harness).await);
    let mut raw = raw(&harness).await;
    let range = range(&a, "name");
    for foreign in ["foo-bar", "config", "x-0000000000", "b/694d", ""] {
        raw.put(format!("{range}{foreign}"), "", None).await.expect("puts");
    }
    let (first, second, third) = (claim("name"), claim("name").queueing(), claim("name").queueing());
    granted(&a, &first).await;
    assert!(busy(&b.try_acquire(&claim("name")).await.expect("an answer")));
    assert_eq!(entries(&b, "name").await, 1, "a try leaves nothing");
    queued(&b, &second).await;
    queued(&a, &third).await;
    released(&a, &first).await;
    within(Duration::from_secs(5), "in order", acquire(&b, &second)).await;
    queued(&a, &third).await;
    released(&b, &second).await;
    within(Duration::from_secs(5), "in order", acquire(&a, &third)).await;
    released(&a, &third).await;
    assert_eq!(a.inspect(&name("name")).await.expect("an answer"), None);
}

/// `etcdctl lock` and Go's `concurrency.Mutex` name their keys by their lease and order them by create revision.
#[tokio::test(flavor = "multi_thread")]
async fn programs_that_queue_by_their_lease_queue_with_us() {
    let harness = harness().await;
    let (lock, mut raw) = (client(&harness).await, raw(&harness).await);
    let lease = raw.lease_grant(60, None).await.expect("grants").id();
    let key = format!("{}{lease:x}", range(&lock, "name"));
    let options = || Some(PutOptions::new().with_lease(lease));
    raw.put(key.clone(), "", options()).await.expect("puts");
    assert!(busy(&lock.try_acquire(&claim("name")).await.expect("an answer")));
    let holder = lock.inspect(&name("name")).await.expect("an answer").expect("a holder");
    assert_eq!((holder.owner, holder.waiters), (None, Some(0)));
    let waiter = claim("name").queueing();
    queued(&lock, &waiter).await;
    // The same program queues again under the same key: that is a new place, behind ours.
    raw.delete(key.clone(), None).await.expect("deletes");
    raw.put(key, "", options()).await.expect("puts");
    within(Duration::from_secs(5), "the predecessor went", acquire(&lock, &waiter)).await;
}

// B130
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_in_the_middle_that_dies_promotes_nobody() {
    let harness = harness().await;
    let (a, b, c) = (client(&harness).await, client(&harness).await, client(&harness).await);
    let (hold, middle, last) = (claim("name"), claim("name").queueing(), claim("name").queueing());
    granted(&a, &hold).await;
    queued(&b, &middle).await;
    queued(&c, &last).await;
    for lease in b.leases() {
        harness.revoke_lease(lease).await.expect("revokes");
    }
    let early = tokio::time::timeout(Duration::from_millis(500), c.wait(&last)).await;
    assert!(early.is_err(), "{early:?} while the first still holds");
    released(&a, &hold).await;
    within(Duration::from_secs(5), "now it is free", acquire(&c, &last)).await;
}

/// A place that an operator deletes is taken again at the end of the queue.
#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_place_is_entered_anew() {
    let harness = harness().await;
    let (a, b) = (client(&harness).await, client(&harness).await);
    let mut raw = raw(&harness).await;
    let (hold, waiter) = (claim("name"), claim("name").queueing());
    granted(&a, &hold).await;
    queued(&b, &waiter).await;
    let key = b.key_space().lock(&waiter.name).key(waiter.owner);
    raw.delete(key, None).await.expect("deletes");
    let woken = within(Duration::from_secs(5), "the watch tells", b.wait(&waiter)).await.expect("no error");
    assert!(matches!(woken, Wake::Retry), "{woken:?}");
    queued(&b, &waiter).await;
    released(&a, &hold).await;
    within(Duration::from_secs(5), "now it is free", acquire(&b, &waiter)).await;
}

/// More contenders than one answer holds.
#[tokio::test(flavor = "multi_thread")]
async fn a_queue_longer_than_a_page_is_read_to_its_end() {
    const OTHERS: i64 = 600;
    let harness = harness().await;
    let (lock, mut raw) = (client(&harness).await, raw(&harness).await);
    let range = range(&lock, "name");
    let mut keys = Vec::new();
    for place in 0..OTHERS {
        keys.push(format!("{range}{place:x}"));
        raw.put(keys[keys.len() - 1].clone(), "", None).await.expect("puts");
    }
    let waiter = claim("name").queueing();
    queued(&lock, &waiter).await;
    assert_eq!(entries(&lock, "name").await, 601);
    for key in keys.iter().skip(1).chain(&keys[..1]) {
        let early = tokio::time::timeout(Duration::ZERO, lock.wait(&waiter)).await;
        assert!(early.is_err(), "{early:?} before {key} went");
        raw.delete(key.clone(), None).await.expect("deletes");
    }
    within(Duration::from_secs(5), "everybody ahead went", acquire(&lock, &waiter)).await;
}

/// The key space is what other programs may rely on.
#[tokio::test(flavor = "multi_thread")]
async fn the_key_lies_where_it_is_said_to_lie_and_tells_who_holds_it() {
    let harness = harness().await;
    let url = format!("{}/some/prefix?namespace=shop", server(&harness).lock_url());
    let lock = EtcdLock::connect(EtcdConfig::from_url(&url).expect("a URL")).await.expect("connects");
    let claim = Claim::new(name("a/b"), common::TTL).with_label("web-2");
    let grant = granted(&lock, &claim).await;
    let shop = Namespace::new("shop").expect("a namespace");
    let key = KeySpace::new("some/prefix", &shop).lock(&claim.name).key(claim.owner);
    assert_eq!(key, format!("some/prefix/shop/a%2Fb/{}", claim.owner));
    let found = raw(&harness).await.get(key, None).await.expect("gets");
    let kv = found.kvs().first().expect("the key");
    assert_eq!(u64::try_from(kv.create_revision()).ok(), grant.token.map(|token| token.server_number()));
    assert!(lock.leases().contains(&kv.lease()), "every key hangs on a lease");
    let holder = lock.inspect(&claim.name).await.expect("an answer").expect("a holder");
    assert_eq!((holder.owner, holder.label.as_deref()), (Some(claim.owner), Some("web-2")));
    let origin = holder.origin.expect("an origin");
    assert!(origin.ends_with(&format!(":{}", std::process::id())), "{origin}");
    assert!(holder.expires_in.is_some_and(|left| left <= common::TTL));
    let seen = timing::eventually(Duration::from_secs(1), async || entries(&lock, "a/b").await == 1).await;
    assert!(seen.is_some());
}

/// B114: a key that the server never removes, as when it fails to revoke a lease. Who waits behind it is not let in, is
/// told at the end of its own patience, and leaves nothing; who looks sees the key.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_never_goes_is_seen_and_not_stepped_over() {
    let harness = harness().await;
    let lock = client(&harness).await;
    let mut raw = raw(&harness).await;
    let stuck = format!("{}694d8f1a00000001", range(&lock, "name"));
    raw.put(stuck.as_str(), "", None).await.expect("stored");
    let locks = lockyard_api::Locker::new(lock.clone()).expect("inside a runtime");
    assert!(locks.try_acquire("name").await.expect("an answer").is_none());
    let waited = locks.lock("name").wait(Duration::from_millis(600)).acquire().await.expect_err("it is never free");
    assert_eq!(waited.kind(), lockyard_api::ErrorKind::Timeout, "{waited:?}");
    assert!(locks.inspect("name").await.expect("an answer").is_some(), "whoever looks is told of a holder");
    let gone = timing::eventually(Duration::from_secs(10), async || entries(&lock, "name").await == 1);
    gone.await.expect("its own key is gone");
    assert!(raw.get(stuck.as_str(), None).await.expect("an answer").kvs().len() == 1, "nobody removed it");
    raw.delete(stuck.as_str(), None).await.expect("an operator may");
    drop(within(Duration::from_secs(10), "the name is free", locks.acquire("name")).await.expect("acquired"));
}
