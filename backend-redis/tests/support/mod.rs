//! What several of these tests need.

#![allow(dead_code, reason = "each test binary uses its part")]

use std::time::Duration;

use lockyard_api::{Attempt, Claim, DistributedLock, Grant, LockName, Wake};
use lockyard_redis::RedisLock;
use lockyard_redis::testing::RedisHarness;
use lockyard_testbed::timing;
use redis::FromRedisValue;

/// A server of this test alone.
pub(crate) async fn harness() -> RedisHarness {
    RedisHarness::start().await.expect("a Redis server")
}

/// A client without a proxy.
pub(crate) async fn connect(harness: &RedisHarness) -> RedisLock {
    RedisLock::connect(harness.config()).await.expect("connects")
}

/// Two clients without a proxy.
pub(crate) async fn two(harness: &RedisHarness) -> (RedisLock, RedisLock) {
    (connect(harness).await, connect(harness).await)
}

pub(crate) fn name(text: &str) -> LockName {
    LockName::new(text).expect("a name")
}

/// Asks the server beside the clients.
pub(crate) async fn ask<T: FromRedisValue>(harness: &RedisHarness, words: &[&str]) -> T {
    let mut command = redis::cmd(words[0]);
    command.arg(&words[1..]);
    command.query_async(&mut harness.side().await.expect("a connection")).await.expect("an answer")
}

/// The time that the lock key has left: −2 when there is none, −1 when it never ends.
pub(crate) async fn pttl(harness: &RedisHarness, key: &str) -> i64 {
    ask(harness, &["PTTL", key]).await
}

pub(crate) async fn try_acquire(lock: &RedisLock, claim: &Claim) -> Attempt {
    lock.try_acquire(claim).await.expect("an answer")
}

#[track_caller]
pub(crate) fn granted(attempt: Attempt) -> Grant {
    match attempt {
        Attempt::Granted(grant) => grant,
        other => panic!("granted expected, not {other:?}"),
    }
}

#[track_caller]
pub(crate) fn queued(attempt: &Attempt) {
    assert!(matches!(attempt, Attempt::Queued), "queued expected, not {attempt:?}");
}

/// Waits as the front end does; errors of a broken connection are tried again.
pub(crate) async fn acquire(lock: &RedisLock, claim: &Claim) -> Grant {
    let acquired = async {
        loop {
            match lock.try_acquire(claim).await {
                Ok(Attempt::Granted(grant)) => return grant,
                Ok(Attempt::Queued) => {
                    if let Wake::Granted(grant) = lock.wait(claim).await.expect("no error") {
                        return grant;
                    }
                }
                Ok(other) => panic!("{other:?} to a claim that queues"),
                Err(error) if error.kind().is_transient() => tokio::task::yield_now().await,
                Err(error) => panic!("{error}"),
            }
        }
    };
    tokio::time::timeout(timing::scaled(Duration::from_secs(20)), acquired).await.expect("granted in time")
}
