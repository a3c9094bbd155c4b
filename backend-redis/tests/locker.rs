//! The front end over Redis: what its users see of the faults.

mod support;

use std::time::Duration;

use lockyard_api::{Clock, ErrorKind, Locker, LostReason, Outcome, Release};
use lockyard_redis::testing::RedisHarness;
use lockyard_testbed::timing;
use support::{ask, connect, harness, pttl};
use tokio::task::JoinSet;
use tokio::time::timeout;

async fn locker(harness: &RedisHarness) -> Locker {
    Locker::new(connect(harness).await).expect("a locker")
}

async fn keys(harness: &RedisHarness) -> (i64, i64, i64) {
    let lock = ask(harness, &["EXISTS", "lockyard:a"]).await;
    let queue = ask(harness, &["LLEN", "{lockyard:a}:queue"]).await;
    (lock, queue, ask(harness, &["HLEN", "{lockyard:a}:meta"]).await)
}

/// B20: who gave up waiting is in nobody's way.
#[tokio::test(flavor = "multi_thread")]
async fn a_wait_that_timed_out_leaves_no_place() {
    let harness = harness().await;
    let (a, b, c) = (locker(&harness).await, locker(&harness).await, locker(&harness).await);
    let guard = a.lock("a").acquire().await.expect("granted");
    let error = b.lock("a").wait(Duration::from_millis(200)).acquire().await.expect_err("held");
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Timeout, Outcome::NotApplied));
    assert_eq!(keys(&harness).await, (1, 0, 0));
    assert_eq!(guard.release().await.expect("an answer"), Release::Released);
    assert!(c.try_acquire("a").await.expect("an answer").is_some());
}

/// B35: after a loss the next hold of the same name in the same process is renewed again.
#[tokio::test(flavor = "multi_thread")]
async fn a_hold_after_a_loss_is_renewed() {
    let harness = harness().await;
    let a = locker(&harness).await;
    let ttl = Duration::from_millis(300);
    let first = a.lock("a").ttl(ttl).acquire().await.expect("granted");
    let _: i64 = ask(&harness, &["DEL", "lockyard:a"]).await;
    let reason = timeout(timing::scaled(Duration::from_secs(1)), first.lost()).await.expect("told in time");
    assert_eq!(reason, LostReason::Revoked);
    assert_eq!(first.release().await.expect("an answer"), Release::NotHeld);
    let second = a.lock("a").ttl(ttl).acquire().await.expect("granted");
    Clock::system().sleep(ttl * 4).await;
    assert!(second.is_held());
    assert!((1..=300).contains(&pttl(&harness, "lockyard:a").await));
}

/// B41: one lost renewal is tried again; only the server's word that another holds it is a loss.
#[tokio::test(flavor = "multi_thread")]
async fn one_failed_renewal_is_no_loss() {
    let harness = harness().await;
    let (lock, proxy) = harness.connect_through_proxy().await.expect("connects");
    let a = Locker::new(lock).expect("a locker");
    let ttl = Duration::from_millis(600);
    let guard = a.lock("a").ttl(ttl).acquire().await.expect("granted");
    proxy.cut_requests_after(0);
    Clock::system().sleep(ttl * 2).await;
    assert!(guard.is_held(), "{:?}", guard.lost_reason());
    let _: String = ask(&harness, &["SET", "lockyard:a", "another", "PX", "60000"]).await;
    let reason = timeout(timing::scaled(Duration::from_secs(1)), guard.lost()).await.expect("told in time");
    assert_eq!(reason, LostReason::Revoked);
    assert_eq!(guard.release().await.expect("an answer"), Release::NotHeld);
    assert!(pttl(&harness, "lockyard:a").await > 50_000, "nothing was written");
}

/// Acquires and waits are given up at every moment, and guards dropped: nothing stays behind.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_of_what_was_given_up() {
    let harness = harness().await;
    let lockers = [locker(&harness).await, locker(&harness).await];
    let mut tasks = JoinSet::new();
    for seed in 0..8_u64 {
        let locker = lockers[usize::from(seed % 2 == 0)].clone();
        tasks.spawn(async move {
            let mut random = fastrand::Rng::with_seed(seed);
            for _ in 0..60 {
                let patience = Duration::from_micros(random.u64(0..3000));
                let acquired = timeout(patience, locker.lock("a").ttl(Duration::from_secs(20)).acquire()).await;
                if let Ok(guard) = acquired {
                    let guard = guard.expect("granted");
                    assert!(guard.is_held());
                    if random.bool() {
                        guard.release().await.expect("an answer");
                    }
                }
            }
        });
    }
    tasks.join_all().await;
    for locker in &lockers {
        locker.shutdown().await.expect("drained");
    }
    let empty = timing::eventually(Duration::from_secs(3), async || keys(&harness).await == (0, 0, 0));
    assert!(empty.await.is_some(), "lock, queue, meta: {:?}", keys(&harness).await);
}
