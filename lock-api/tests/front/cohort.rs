//! Hand-offs inside the process.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use lockyard_api::{Clock, ErrorKind, Event, Guard, Locker, Release};
use lockyard_memory::{MemoryLock, MemoryServer};

use crate::support::{Heard, NAME, Polled, TTL, client, entries, eventually, locker, pass, poll_times, server};

fn cohort(server: &MemoryServer, handoffs: u8) -> Locker {
    over(client(server), server, handoffs)
}

fn over(client: MemoryLock, server: &MemoryServer, handoffs: u8) -> Locker {
    let clock = server.options().clock.clone();
    Locker::builder(client).clock(clock).ttl(TTL).cohort(handoffs).build().expect("inside a runtime")
}

fn token(guard: &Guard) -> u64 {
    guard.fencing_token().expect("memory fences").get()
}

/// An acquire that waits in the local queue by now.
async fn waiter(locks: &Locker) -> tokio::task::JoinHandle<Guard> {
    let locks = locks.clone();
    let task = tokio::spawn(async move { locks.acquire(NAME).await.expect("acquired") });
    tokio::task::yield_now().await;
    task
}

#[tokio::test]
async fn a_lock_is_handed_on_without_a_request() {
    let server = server(&Clock::system());
    let client = client(&server);
    let locks = over(client.clone(), &server, 2);
    let first = locks.acquire(NAME).await.expect("acquired");
    let (second, third) = (waiter(&locks).await, waiter(&locks).await);
    // On a silent link any request would fail.
    client.link().silence();
    let (one, owner) = (token(&first), first.claim().owner);
    assert_eq!(first.release().await.expect("handed on"), Release::Released);
    let second = second.await.expect("second");
    assert_eq!((token(&second), second.claim().owner, second.is_held()), (one + 1, owner, true));
    drop(second);
    let third = third.await.expect("third");
    assert_eq!(token(&third), one + 2);
    assert!(locks.try_acquire(NAME).await.expect("busy is no error").is_none());
    client.link().heal();
    assert_eq!(third.release().await.expect("released"), Release::Released);
    assert_eq!(entries(&server, NAME), 0);
}

#[tokio::test]
async fn after_its_hand_offs_a_lock_goes_back_to_the_server() {
    let server = server(&Clock::system());
    let (locks, rival) = (cohort(&server, 1), locker(&server));
    let first = locks.acquire(NAME).await.expect("acquired");
    let (second, third) = (waiter(&locks).await, waiter(&locks).await);
    let elsewhere = waiter(&rival).await;
    let one = token(&first);
    drop(first);
    let second = second.await.expect("second");
    assert_eq!(token(&second), one + 1);
    drop(second);
    let elsewhere = elsewhere.await.expect("the rival is next");
    assert!(token(&elsewhere) > one + 1);
    let last = token(&elsewhere);
    drop(elsewhere);
    assert!(token(&third.await.expect("third")) > last);
    eventually("nothing is left", || entries(&server, NAME) == 0).await;
}

#[tokio::test]
async fn after_its_time_a_lock_goes_back_to_the_server() {
    let clock = Clock::manual();
    let server = server(&clock);
    let (locks, rival) = (cohort(&server, 200), locker(&server));
    let first = locks.acquire(NAME).await.expect("acquired");
    let (second, elsewhere) = (waiter(&locks).await, waiter(&rival).await);
    clock.advance(Duration::from_millis(101));
    drop(first);
    let elsewhere = elsewhere.await.expect("the rival is next");
    assert!(!second.is_finished());
    drop(elsewhere);
    second.await.expect("second").release().await.expect("released");
}

/// What is left of the lease is the next holder's all: it must be worth having.
#[tokio::test]
async fn a_lease_that_is_old_or_lost_is_not_handed_on() {
    for gone in [TTL / 2, TTL] {
        let clock = Clock::manual();
        let server = server(&clock);
        let builder = Locker::builder(client(&server)).clock(clock.clone()).ttl(TTL);
        let locks = builder.cohort(200).cohort_time(TTL * 2).build().expect("inside a runtime");
        let first = locks.acquire(NAME).await.expect("acquired");
        let second = waiter(&locks).await;
        let one = token(&first);
        // At once: nobody renews in between.
        clock.advance(gone);
        drop(first);
        let second = second.await.expect("second");
        assert!(token(&second) > one + 200, "a grant of the server");
        assert!(second.remaining() > TTL / 2);
    }
}

#[tokio::test]
async fn renewals_go_on_from_holder_to_holder() {
    let clock = Clock::manual();
    let server = server(&clock);
    let builder = Locker::builder(client(&server)).clock(clock.clone()).ttl(TTL);
    let locks = builder.cohort(200).cohort_time(TTL * 20).build().expect("inside a runtime");
    let mut holder = locks.acquire(NAME).await.expect("acquired");
    let one = token(&holder);
    for handoff in 1..=6 {
        let next = waiter(&locks).await;
        pass(&clock, TTL / 2).await;
        drop(holder);
        holder = next.await.expect("the next");
        assert_eq!(token(&holder), one + handoff);
        assert!(holder.is_held());
    }
    holder.release().await.expect("released");
}

#[tokio::test]
async fn a_loss_is_told_to_whoever_holds_by_then() {
    let server = server(&Clock::system());
    let heard = Heard::default();
    let builder = Locker::builder(client(&server)).ttl(Duration::from_millis(300)).observer(heard.clone());
    let locks = builder.cohort(9).build().expect("inside a runtime");
    let first = locks.acquire(NAME).await.expect("acquired");
    let second = waiter(&locks).await;
    drop(first);
    let second = second.await.expect("second");
    server.revoke(&lockyard_api::Namespace::default(), second.claim());
    second.lost().await;
    assert!(!second.is_held());
    assert_eq!(heard.count(|event| matches!(event, Event::Lost { .. })), 1);
    assert_eq!(heard.count(|event| matches!(event, Event::Acquired { .. })), 2);
}

/// The next one gives up at the moment at which it is handed the lock.
#[tokio::test]
async fn a_lock_handed_to_nobody_goes_on_or_back() {
    for heirs in [0, 1] {
        let server = server(&Clock::system());
        let locks = cohort(&server, 9);
        let first = locks.acquire(NAME).await.expect("acquired");
        let Polled::Unfinished(second) = poll_times(locks.acquire(NAME), 1).await else { panic!("it waits") };
        let mut third = Vec::new();
        for _ in 0..heirs {
            third.push(waiter(&locks).await);
        }
        let one = token(&first);
        drop(first);
        drop(second);
        for third in third {
            assert_eq!(token(&third.await.expect("third")), one + 1);
        }
        eventually("nothing is left", || entries(&server, NAME) == 0).await;
        locks.acquire(NAME).await.expect("free").release().await.expect("released");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_holder_and_rising_tokens_whoever_gives_up() {
    let server = server(&Clock::system());
    let (inside, last) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU64::new(0)));
    let mut tasks = Vec::new();
    for client in 0..3 {
        let locks = cohort(&server, [0, 3, 32][client]);
        for _ in 0..5 {
            let (locks, inside, last) = (locks.clone(), Arc::clone(&inside), Arc::clone(&last));
            tasks.push(tokio::spawn(async move {
                for _ in 0..200 {
                    let polls = if fastrand::u8(..3) == 0 { fastrand::usize(1..4) } else { usize::MAX };
                    let Polled::Ended(guard) = poll_times(locks.acquire(NAME), polls).await else { continue };
                    let guard = guard.expect("acquired");
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two holders");
                    assert!(guard.is_held());
                    let before = last.swap(token(&guard), Ordering::SeqCst);
                    assert!(token(&guard) > before, "{} after {before}", token(&guard));
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

#[tokio::test]
async fn leases_that_are_not_renewed_go_back() {
    let server = server(&Clock::system());
    let locks = cohort(&server, 9);
    let first = locks.lock(NAME).fixed().acquire().await.expect("acquired");
    let one = token(&first);
    let second = {
        let locks = locks.clone();
        tokio::spawn(async move { locks.lock(NAME).fixed().acquire().await.expect("acquired") })
    };
    tokio::task::yield_now().await;
    drop(first);
    assert!(token(&second.await.expect("second")) > one + 200);
}

#[tokio::test]
async fn a_cohort_needs_the_local_queue() {
    let server = server(&Clock::system());
    let refused = Locker::builder(client(&server)).local_queue(false).cohort(2).build();
    assert_eq!(refused.expect_err("it cannot work").kind(), ErrorKind::Config);
}

/// After a shutdown nothing is handed on: who waits is refused, and the lock goes back with its guard.
#[tokio::test]
async fn a_shutdown_ends_the_hand_offs() {
    let server = server(&Clock::system());
    let locks = cohort(&server, 9);
    let first = locks.acquire(NAME).await.expect("acquired");
    let one = token(&first);
    let second = waiter(&locks).await;
    locks.shutdown().await.expect("drained");
    first.release().await.expect("released");
    // It asked before the shutdown.
    assert!(token(&second.await.expect("second")) > one + 200);
}
