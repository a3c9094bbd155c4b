use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use lockyard_api::{Clock, ErrorKind, Locker, Outcome};

use crate::support::{NAME, client, entries, eventually, locker, server};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_holder_among_tasks_and_clients() {
    for local_queue in [true, false] {
        let server = server(&Clock::system());
        let inside = Arc::new(AtomicU32::new(0));
        let mut tasks = Vec::new();
        for _ in 0..4 {
            let locks = Locker::builder(client(&server)).local_queue(local_queue).build().expect("runtime");
            for _ in 0..4 {
                let (locks, inside) = (locks.clone(), Arc::clone(&inside));
                tasks.push(tokio::spawn(async move {
                    let mut last = None;
                    for _ in 0..50 {
                        let guard = locks.acquire(NAME).await.expect("acquired");
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two holders");
                        assert!(guard.is_held());
                        assert!(guard.fencing_token() > last, "tokens rise");
                        last = guard.fencing_token();
                        tokio::task::yield_now().await;
                        inside.fetch_sub(1, Ordering::SeqCst);
                        if fastrand::bool() {
                            guard.release().await.expect("released");
                        }
                    }
                }));
            }
        }
        for task in tasks {
            task.await.expect("no task fails");
        }
        eventually("nothing is left", || entries(&server, NAME) == 0).await;
    }
}

#[tokio::test]
async fn a_try_against_a_local_holder_makes_no_request() {
    let server = server(&Clock::system());
    let client = client(&server);
    let locks = crate::support::over(client.clone(), &Clock::system());
    let guard = locks.acquire(NAME).await.expect("acquired");
    client.link().silence();
    // On a silent link any request would fail.
    assert!(locks.try_acquire(NAME).await.expect("busy is no error").is_none());
    client.link().heal();
    drop(guard);
}

#[tokio::test]
async fn waiters_of_a_process_come_in_their_order() {
    let server = server(&Clock::system());
    let locks = locker(&server);
    let guard = locks.acquire(NAME).await.expect("acquired");
    let order = Arc::new(AtomicUsize::new(0));
    let mut tasks = Vec::new();
    for place in 0..10 {
        let (locks, order) = (locks.clone(), Arc::clone(&order));
        tasks.push(tokio::spawn(async move {
            let guard = locks.acquire(NAME).await.expect("acquired");
            assert_eq!(order.fetch_add(1, Ordering::SeqCst), place);
            guard.release().await.expect("released");
        }));
        // On one thread a spawned task has run up to its first wait by now.
        tokio::task::yield_now().await;
    }
    assert_eq!(entries(&server, NAME), 1, "the others wait in the process");
    guard.release().await.expect("released");
    for task in tasks {
        task.await.expect("in order");
    }
}

/// A waiter that gives up leaves its place at the server to the next one of its process.
#[tokio::test]
async fn a_place_is_inherited() {
    let server = server(&Clock::system());
    let (holder, ours, rival) = (locker(&server), locker(&server), locker(&server));
    let guard = holder.acquire(NAME).await.expect("acquired");
    let first = tokio::spawn({
        let ours = ours.clone();
        async move { ours.acquire(NAME).await }
    });
    eventually("the first waits at the server", || entries(&server, NAME) == 2).await;
    let second = tokio::spawn({
        let ours = ours.clone();
        async move { ours.acquire(NAME).await }
    });
    let other = tokio::spawn(async move { rival.acquire(NAME).await });
    eventually("the rival waits at the server", || entries(&server, NAME) == 3).await;
    first.abort();
    assert!(first.await.expect_err("aborted").is_cancelled());
    guard.release().await.expect("released");
    let inherited = second.await.expect("no panic").expect("before the rival");
    assert!(!other.is_finished());
    inherited.release().await.expect("released");
    other.await.expect("no panic").expect("the rival is next").release().await.expect("released");
    assert_eq!(entries(&server, NAME), 0);
}

/// B20: a waiter that times out leaves nothing, and says that it holds nothing.
#[tokio::test]
async fn a_wait_that_is_over_leaves_nothing() {
    let server = server(&Clock::system());
    let (holder, waiter, third) = (locker(&server), locker(&server), locker(&server));
    let guard = holder.acquire(NAME).await.expect("acquired");
    let error = waiter.lock(NAME).wait(Duration::from_millis(30)).acquire().await.expect_err("held by another");
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Timeout, Outcome::NotApplied), "{error}");
    assert_eq!(entries(&server, NAME), 1);
    guard.release().await.expect("released");
    assert!(third.try_acquire(NAME).await.expect("free").is_some());
}

/// B28: a waiter that is neither polled nor dropped keeps the one behind it from the lock for its ttl at most.
#[tokio::test]
async fn a_waiter_nobody_polls_blocks_for_its_ttl_at_most() {
    let server = server(&Clock::system());
    let (holder, parked, other) = (locker(&server), locker(&server), locker(&server));
    let guard = holder.acquire(NAME).await.expect("acquired");
    let first = parked.lock(NAME).ttl(Duration::from_millis(300)).acquire();
    let crate::support::Polled::Unfinished(first) = crate::support::poll_times(first, 3).await else {
        panic!("the name is held");
    };
    eventually("it waits at the server", || entries(&server, NAME) == 2).await;
    guard.release().await.expect("released");
    let second = other.lock(NAME).wait(Duration::from_secs(5)).acquire().await.expect("after the ttl of the first");
    second.release().await.expect("released");
    first.await.expect("the first comes back and gets it too").release().await.expect("released");
}

/// B65: many names held at once by one process.
#[tokio::test]
async fn names_do_not_wait_for_each_other() {
    let server = server(&Clock::system());
    let locks = locker(&server);
    let mut guards = Vec::new();
    for i in 0..2000 {
        guards.push(locks.try_acquire(format!("n{i}")).await.expect("no error").expect("its own name"));
    }
    fastrand::shuffle(&mut guards);
    for guard in guards {
        guard.release().await.expect("released");
    }
    assert!((0..2000).all(|i| entries(&server, &format!("n{i}")) == 0));
}
