//! The queue: foreign nodes, waiters that go, directories that go.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crate::common::{self, LONG, SOON, acquire, busy, claim, granted, name, queued};
use lockyard_api::{Clock, DistributedLock, Liveness, LockName, Release, Wake};
use lockyard_testbed::{Options, timing};
use zookeeper_client::{Acls, Client, CreateMode, Error};

const PERSISTENT: zookeeper_client::CreateOptions<'static> = CreateMode::Persistent.with_acls(Acls::anyone_all());
const EPHEMERAL: zookeeper_client::CreateOptions<'static> =
    CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());

async fn raw(harness: &lockyard_zk::testing::ZkHarness) -> Client {
    let address = harness.server().expect("its own").addr().to_string();
    Client::connector().with_session_timeout(LONG).connect(&address).await.expect("the server is there")
}

/// B69, and names that begin alike (B06).
#[tokio::test]
async fn foreign_children_are_ignored_and_other_libraries_are_not() {
    let Some(harness) = common::start(Options::new()).await else { return };
    let (lock, _proxy) = common::client(&harness, LONG).await;
    let job = LockName::new("a").expect("a name");
    let first = claim(&job).with_label("web-2");
    granted(lock.try_acquire(&first).await);
    for other in ["a/b", "a%2Fb", "ab", "🔒", ".", "..", "zookeeper", "a b"] {
        let other = claim(&LockName::new(other).expect("a name"));
        granted(lock.try_acquire(&other).await);
        assert_eq!(lock.release(&other).await.expect("an answer"), Release::Released);
    }
    let side = raw(&harness).await;
    let directory = harness.directory(&job);
    for foreign in ["foo-bar", "config", "x-0000000000", "_c_-lock-"] {
        side.create(&format!("{directory}/{foreign}"), b"", &PERSISTENT).await.expect("a foreign child");
    }
    busy(lock.try_acquire(&claim(&job)).await);
    let holder = lock.inspect(&job).await.expect("an answer").expect("it is held");
    assert_eq!((holder.owner, holder.label.as_deref()), (Some(first.owner), Some("web-2")));
    // B127: a hold stays one, whatever number comes to stand before it.
    let low = format!("{directory}/x-lock--000000005");
    side.create(&low, b"", &PERSISTENT).await.expect("made by hand");
    granted(lock.try_acquire(&first).await);
    side.delete(&low, None).await.expect("deleted by hand");
    assert_eq!(lock.release(&first).await.expect("an answer"), Release::Released);
    let next = claim(&job);
    granted(lock.try_acquire(&next).await);
    lock.release(&next).await.expect("an answer");

    for theirs in ["0a1b__lock__", "_c_0b6e1b9c-0c9c-4f6c-8f3c-2f6f3d1f0e5a-lock-"] {
        let path = format!("{directory}/{theirs}");
        let (_, sequence) = side.create(&path, b"10.0.0.1", &EPHEMERAL).await.expect("their node");
        busy(lock.try_acquire(&claim(&job)).await);
        let holder = lock.inspect(&job).await.expect("an answer").expect("it is held");
        assert!(holder.owner.is_none() && holder.origin.expect("an origin").starts_with("10.0.0.1, session 0x"));
        side.delete(&format!("{path}{sequence}"), None).await.expect("their release");
    }
    granted(lock.try_acquire(&claim(&job)).await);
}

/// B20: a waiter that gives up leaves nothing. B129: one that comes late to its watch lists again.
#[tokio::test]
async fn a_waiter_that_gives_up_leaves_nothing() {
    let Some(harness) = common::start(Options::new()).await else { return };
    let ((a, _a), (b, _b)) = (common::client(&harness, LONG).await, common::client(&harness, LONG).await);
    let name = name();
    let (held, waiting, late) = (claim(&name), claim(&name).queueing(), claim(&name).queueing());
    granted(a.try_acquire(&held).await);
    queued(b.try_acquire(&waiting).await);
    let early = tokio::time::timeout(Duration::from_millis(100), b.wait(&waiting)).await;
    assert!(early.is_err(), "the name is held, wait answered {early:?}");
    assert_eq!(b.release(&waiting).await.expect("an answer"), Release::Released);
    assert_eq!(harness.contenders(&name).await.expect("a list").len(), 1);
    queued(b.try_acquire(&late).await);
    a.release(&held).await.expect("an answer");
    let wake = tokio::time::timeout(SOON, b.wait(&late)).await.expect("no watch on a node that is gone");
    assert!(matches!(wake, Ok(Wake::Granted(_))), "{wake:?}");
    assert_eq!(b.release(&late).await.expect("an answer"), Release::Released);
    assert!(harness.contenders(&name).await.expect("a list").is_empty());
}

/// B130: the one in the middle goes, and the next waits for the holder.
#[tokio::test]
async fn the_death_of_a_waiter_is_no_turn() {
    let Some(harness) = common::start(Options::new()).await else { return };
    let ((a, _a), (b, _b), (c, _c)) = (
        common::client(&harness, LONG).await,
        common::client(&harness, LONG).await,
        common::client(&harness, LONG).await,
    );
    let name = name();
    let (first, second, third) = (claim(&name), claim(&name).queueing(), claim(&name).queueing());
    let hold = granted(a.try_acquire(&first).await);
    queued(b.try_acquire(&second).await);
    queued(c.try_acquire(&third).await);
    let waiting = {
        let (c, third) = (Arc::clone(&c), third.clone());
        tokio::spawn(async move { acquire(&c, &third, LONG).await })
    };
    // Its session ends with it.
    drop(b);
    let gone = async || harness.contenders(&name).await.expect("a list").len() == 2;
    timing::eventually(SOON, gone).await.expect("a client that is dropped closes its session");
    queued(c.try_acquire(&third).await);
    assert!(!waiting.is_finished(), "the holder stands and the last waiter was granted");
    a.release(&first).await.expect("an answer");
    assert!(waiting.await.expect("it waits").token > hold.token);
}

/// B131: all nodes are deleted by hand.
#[tokio::test]
async fn an_empty_directory_is_a_loss_and_no_panic() {
    let Some(harness) = common::start(Options::new()).await else { return };
    let ttl = Duration::from_secs(2);
    let ((a, _a), (b, _b)) = (common::client(&harness, ttl).await, common::client(&harness, ttl).await);
    let name = name();
    let (held, waiting) = (claim(&name), claim(&name).queueing());
    let hold = granted(a.try_acquire(&held).await);
    queued(b.try_acquire(&waiting).await);
    let side = raw(&harness).await;
    // The waiter first: it then finds itself missing when its turn would come.
    for child in harness.contenders(&name).await.expect("a list").iter().rev() {
        side.delete(&format!("{}/{child}", harness.directory(&name)), None).await.expect("deleted by hand");
    }
    let Liveness::Session(watch) = hold.liveness else { panic!("a session") };
    timing::eventually(ttl, async || watch.lost().is_some()).await.expect("the loss is told within T");
    let again = acquire(&b, &waiting, SOON).await;
    assert!(again.token > hold.token);
    assert_eq!(a.release(&held).await.expect("an answer"), Release::NotHeld);
    busy(a.try_acquire(&claim(&name)).await);
}

/// B124: the directory is deleted whenever it is empty.
#[tokio::test(flavor = "multi_thread")]
async fn a_directory_that_is_deleted_all_the_time_is_made_again() {
    const DELETIONS: usize = 10;
    let Some(harness) = common::start(Options::new()).await else { return };
    let (shared, held, deleted) = (name(), Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let clock = Clock::system();
    let limit = clock.now().plus(timing::scaled(LONG));
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..3 {
        let (lock, proxy) = common::client(&harness, LONG).await;
        let (shared, held, deleted, clock) = (shared.clone(), Arc::clone(&held), Arc::clone(&deleted), clock.clone());
        clients.spawn(async move {
            while deleted.load(Ordering::SeqCst) < DELETIONS && clock.now() < limit {
                let claim = claim(&shared).queueing();
                acquire(&lock, &claim, LONG).await;
                assert!(!held.swap(true, Ordering::SeqCst), "two hold the name");
                tokio::task::yield_now().await;
                held.store(false, Ordering::SeqCst);
                assert_eq!(lock.release(&claim).await.expect("an answer"), Release::Released);
                // Leaves the directory empty for a moment.
                let own = common::claim(&name());
                granted(lock.try_acquire(&own).await);
                lock.release(&own).await.expect("an answer");
            }
            drop(proxy);
        });
    }
    let side = raw(&harness).await;
    let directory = harness.directory(&shared);
    while !clients.is_empty() {
        match side.delete(&directory, None).await {
            Ok(()) => {
                deleted.fetch_add(1, Ordering::SeqCst);
            }
            Err(Error::NotEmpty | Error::NoNode) => {}
            Err(error) => panic!("{error}"),
        }
        if let Some(ended) = clients.try_join_next() {
            ended.expect("no panic, no error, no hang");
        }
    }
    assert!(deleted.load(Ordering::SeqCst) >= DELETIONS, "the directory was hardly ever deleted");
}
