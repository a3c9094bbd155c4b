use std::time::Duration;

use lockyard_api::{Clock, ErrorKind, Locker, Outcome};

use crate::support::{NAME, client, entries, eventually, locker, over, server};

#[tokio::test]
async fn a_shutdown_drains_the_releases() {
    let server = server(&Clock::system());
    let locks = locker(&server);
    for i in 0..200 {
        drop(locks.acquire(format!("n{i}")).await.expect("acquired"));
    }
    locks.shutdown().await.expect("drained");
    assert!((0..200).all(|i| entries(&server, &format!("n{i}")) == 0));
    let error = locks.acquire(NAME).await.expect_err("shut down");
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Shutdown, Outcome::NotApplied));
}

/// B29: dropped on a plain thread after the runtime has ended, a guard neither panics nor blocks.
#[test]
fn a_guard_may_outlive_its_runtime() {
    let server = server(&Clock::system());
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    let (locks, guard, other) = runtime.block_on(async {
        let locks = over(client(&server), &Clock::system());
        let guard = locks.acquire(NAME).await.expect("acquired");
        let waiting = Box::pin(locks.lock("other").acquire());
        (locks.clone(), guard, waiting)
    });
    runtime.shutdown_timeout(Duration::from_secs(1));
    assert!(guard.is_held());
    drop(guard);
    drop(other);
    drop(locks);
}

/// B29: the unwinding of a panic releases.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_panic_releases() {
    let server = server(&Clock::system());
    let locks = locker(&server);
    let task = tokio::spawn({
        let locks = locks.clone();
        async move {
            let _guard = locks.acquire(NAME).await.expect("acquired");
            assert!(locks.pending_releases() > 0, "this task is meant to fail");
        }
    });
    assert!(task.await.expect_err("failed").is_panic());
    eventually("released", || entries(&server, NAME) == 0).await;
}

#[test]
fn a_locker_needs_a_runtime() {
    let error = Locker::new(client(&server(&Clock::system()))).expect_err("no runtime");
    assert_eq!(error.kind(), ErrorKind::Config);
}

#[tokio::test]
async fn bad_input_is_told_before_any_traffic() {
    let server = server(&Clock::system());
    let client = client(&server);
    client.link().silence();
    let locks = over(client, &Clock::system());
    let second = Duration::from_secs(1);
    let cases = [
        (locks.lock("").acquire().await, ErrorKind::InvalidName),
        (locks.lock("a\0").acquire().await, ErrorKind::InvalidName),
        (locks.lock("x".repeat(513)).acquire().await, ErrorKind::InvalidName),
        (locks.lock(NAME).ttl(Duration::ZERO).acquire().await, ErrorKind::InvalidTtl),
        (locks.lock(NAME).ttl(Duration::from_nanos(1)).acquire().await, ErrorKind::InvalidTtl),
        (locks.lock(NAME).ttl(Duration::MAX).acquire().await, ErrorKind::InvalidTtl),
        (locks.lock(NAME).ttl(second).shared().acquire().await, ErrorKind::Unsupported),
        (locks.lock(NAME).ttl(second).permit(3).acquire().await, ErrorKind::Unsupported),
    ];
    for (result, kind) in cases {
        let error = result.expect_err("bad input");
        assert_eq!((error.kind(), error.outcome()), (kind, Outcome::NotApplied), "{error}");
    }
}
