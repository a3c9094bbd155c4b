use std::sync::Arc;
use std::time::Duration;

use lockyard_api::{Clock, ErrorKind, LostReason, Namespace, Outcome, Release};

use crate::support::{client, entries, eventually, locker, over, server};

const BOTH: [&str; 2] = ["a", "b"];

#[tokio::test]
async fn all_are_held_together_and_released_together() {
    let server = server(&Clock::system());
    let (mine, other) = (locker(&server), locker(&server));
    let guards = mine.acquire_all(["b", "a", "b"]).await.expect("both are free");
    assert_eq!(guards.iter().map(|guard| guard.name().as_str()).collect::<Vec<_>>(), BOTH);
    assert!(guards.is_held() && guards.remaining() > Duration::ZERO && guards.get("b").is_some());
    for name in BOTH {
        assert!(other.try_acquire(name).await.expect("an answer").is_none());
    }
    assert_eq!(guards.release().await.expect("an answer"), Release::Released);
    assert_eq!(BOTH.map(|name| entries(&server, name)), [0, 0]);
}

#[tokio::test]
async fn none_is_kept_when_one_is_held() {
    let server = server(&Clock::system());
    let (mine, other) = (locker(&server), locker(&server));
    let held = other.acquire("b").await.expect("acquired");
    assert!(mine.lock_all(BOTH).try_acquire().await.expect("an answer").is_none());
    assert_eq!(entries(&server, "a"), 0);
    let late = mine.lock_all(BOTH).wait(Duration::from_millis(30)).acquire().await.expect_err("b is held");
    assert_eq!((late.kind(), late.outcome()), (ErrorKind::Timeout, Outcome::NotApplied));
    assert_eq!(BOTH.map(|name| entries(&server, name)), [0, 1]);
    held.release().await.expect("released");
}

#[tokio::test]
async fn a_dropped_acquire_gives_back_what_it_had() {
    let server = server(&Clock::system());
    let (mine, other) = (locker(&server), locker(&server));
    let held = other.acquire("b").await.expect("acquired");
    let task = tokio::spawn({
        let mine = mine.clone();
        async move { mine.acquire_all(BOTH).await.map(drop) }
    });
    eventually("it waits for b with a in hand", || entries(&server, "a") == 1 && entries(&server, "b") == 2).await;
    task.abort();
    eventually("nothing of it is left", || entries(&server, "a") == 0 && entries(&server, "b") == 1).await;
    held.release().await.expect("released");
}

/// Whoever sorts never waits in a circle: two who name the same locks in opposite orders both come through.
#[tokio::test(flavor = "multi_thread")]
async fn opposite_orders_do_not_deadlock() {
    let server = server(&Clock::system());
    let run = |names: [&'static str; 2]| {
        let locks = locker(&server);
        tokio::spawn(async move {
            for _ in 0..200 {
                locks.acquire_all(names).await.expect("acquired").release().await.expect("released");
            }
        })
    };
    let (one, two) = (run(["a", "b"]), run(["b", "a"]));
    let both = async {
        one.await.expect("no panic");
        two.await.expect("no panic");
    };
    tokio::time::timeout(Duration::from_secs(30), both).await.expect("no circle");
}

#[tokio::test]
async fn the_loss_of_one_is_the_loss_of_all() {
    let clock = Clock::manual();
    let server = server(&clock);
    let backend = client(&server);
    let locks = over(backend.clone(), &clock);
    let guards = Arc::new(locks.acquire_all(BOTH).await.expect("both are free"));
    let working = tokio::spawn({
        let guards = Arc::clone(&guards);
        async move { guards.run(std::future::pending::<()>()).await }
    });
    let claim = guards.get("b").expect("named").claim().clone();
    assert_eq!(server.revoke(&Namespace::default(), &claim), Release::Released);
    while !working.is_finished() {
        clock.advance(Duration::from_secs(1));
        tokio::task::yield_now().await;
    }
    let lost = working.await.expect("no panic").expect_err("the work was ended");
    assert_eq!((lost.name.as_str(), lost.reason), ("b", LostReason::Revoked));
    assert!(!guards.is_held() && guards.get("a").expect("named").is_held());
}

#[tokio::test]
async fn bad_names_are_told_before_any_traffic() {
    let locks = locker(&server(&Clock::system()));
    let none = locks.acquire_all(Vec::<&str>::new()).await.expect_err("no name");
    assert_eq!((none.kind(), none.outcome()), (ErrorKind::InvalidName, Outcome::NotApplied));
    let bad = locks.acquire_all(["a", "b\n"]).await.expect_err("a control character");
    assert!(bad.to_string().contains("U+000A"), "{bad}");
}
