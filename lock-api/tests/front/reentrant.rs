use std::time::Duration;

use lockyard_api::{Clock, ErrorKind, Release};

use crate::support::{NAME, client, entries, locker, over, server};

const TTL: Duration = Duration::from_secs(30);

/// B14: the inner release does not free the outer hold, and nobody else comes in before the last.
#[tokio::test]
async fn holds_of_one_owner_are_counted() {
    let server = server(&Clock::system());
    let locks = locker(&server);
    let (mine, other) = (locks.reentrant(), locks.reentrant());
    let outer = mine.acquire(NAME).await.expect("acquired");
    let inner = mine.clone().try_acquire(NAME).await.expect("an answer").expect("taken again");
    assert_eq!((outer.count(), inner.fencing_token()), (2, outer.fencing_token()));
    assert!(other.try_acquire(NAME).await.expect("an answer").is_none(), "another owner of the same process");
    assert!(locks.try_acquire(NAME).await.expect("an answer").is_none(), "who asks for no owner is none");
    assert_eq!(inner.release().await.expect("an answer"), None);
    assert!(outer.is_held() && other.try_acquire(NAME).await.expect("an answer").is_none());
    assert_eq!(outer.release().await.expect("an answer"), Some(Release::Released));
    assert_eq!(entries(&server, NAME), 0);
    assert!(other.try_acquire(NAME).await.expect("an answer").is_some());
}

/// B36: renewed until the last of them goes, whatever was taken and given back before.
#[tokio::test]
async fn a_hold_is_renewed_until_its_last_release() {
    let clock = Clock::manual();
    let server = server(&clock);
    let mine = over(client(&server), &clock).reentrant();
    let pass = async |time: Duration| {
        for _ in 0..time.as_secs() {
            clock.advance(Duration::from_secs(1));
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
        }
    };
    let (first, second) = (mine.acquire(NAME).await.expect("acquired"), mine.acquire(NAME).await.expect("again"));
    second.release().await.expect("an answer");
    pass(TTL * 4).await;
    assert!(first.is_held());
    first.release().await.expect("an answer");
    assert_eq!(entries(&server, NAME), 0);
    let third = mine.acquire(NAME).await.expect("acquired");
    pass(TTL * 4).await;
    assert!(third.is_held());
    third.release().await.expect("an answer");
    pass(TTL).await;
    assert_eq!(entries(&server, NAME), 0, "nobody renews what was released");
}

#[tokio::test]
async fn tasks_of_one_owner_that_come_together_share_one_hold() {
    let server = server(&Clock::system());
    let mine = locker(&server).reentrant();
    let (a, b, c) = tokio::join!(mine.acquire(NAME), mine.acquire(NAME), mine.acquire(NAME));
    let guards = [a, b, c].map(|guard| guard.expect("one hold for all"));
    assert_eq!((guards[0].count(), entries(&server, NAME)), (3, 1));
}

#[tokio::test]
async fn a_lost_hold_is_not_taken_again() {
    let clock = Clock::manual();
    let server = server(&clock);
    let mine = over(client(&server), &clock).reentrant();
    let guard = mine.acquire(NAME).await.expect("acquired");
    clock.advance(TTL * 2);
    let error = mine.acquire(NAME).await.expect_err("the hold is lost");
    assert_eq!(error.kind(), ErrorKind::SessionChanged);
    assert!(error.message().contains("release the guards"), "{error}");
    drop(guard);
    assert!(mine.acquire(NAME).await.expect("anew").is_held());
}
