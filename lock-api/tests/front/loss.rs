use std::time::Duration;

use lockyard_api::{Clock, Event, Locker, LostReason, Release};

use crate::support::{Heard, NAME, TTL, client, entries, eventually, locker, over, pass, server, session_server};

#[tokio::test]
async fn a_hold_is_renewed_for_as_long_as_it_lasts() {
    let clock = Clock::manual();
    let server = server(&clock);
    let heard = Heard::default();
    let locks = Locker::builder(client(&server)).clock(clock.clone()).observer(heard.clone()).build().expect("runtime");
    let guard = locks.acquire(NAME).await.expect("acquired");
    pass(&clock, TTL * 5).await;
    assert!(guard.is_held());
    assert!(guard.remaining() > TTL / 2);
    let renewals = heard.count(|e| matches!(e, Event::Renewed { .. }));
    assert!((13..=16).contains(&renewals), "one each third of the ttl, seen {renewals}");
    assert_eq!(guard.release().await.expect("released"), Release::Released);
    // B31: nothing renews it any more.
    assert_eq!(entries(&server, NAME), 0);
    pass(&clock, TTL).await;
    let later = heard.count(|e| matches!(e, Event::Renewed { .. }));
    assert_eq!(later, renewals);
}

#[tokio::test]
async fn a_fixed_lease_ends_at_its_deadline() {
    let clock = Clock::manual();
    let server = server(&clock);
    let guard = locker(&server).lock(NAME).fixed().acquire().await.expect("acquired");
    pass(&clock, TTL - Duration::from_secs(1)).await;
    assert!(guard.is_held());
    clock.advance(Duration::from_millis(698));
    assert!(!guard.is_held(), "D is 302 ms before the end of a lease of 30 s");
    assert_eq!(guard.lost().await, LostReason::Expired);
}

/// B33: cut off, the holder is told before anybody else can be granted.
#[tokio::test]
async fn cut_off_the_loss_is_told_at_the_deadline() {
    let clock = Clock::manual();
    let server = server(&clock);
    let cut = client(&server);
    let heard = Heard::default();
    let locks = Locker::builder(cut.clone()).clock(clock.clone()).observer(heard.clone()).build().expect("runtime");
    let guard = locks.acquire(NAME).await.expect("acquired");
    cut.link().silence();
    let other = locker(&server);
    let ran = tokio::spawn(async move { (guard.run(std::future::pending::<()>()).await.expect_err("lost"), guard) });
    let next = tokio::spawn(async move { other.acquire(NAME).await.expect("at the end of the lease") });
    pass(&clock, TTL - Duration::from_millis(400)).await;
    assert!(!ran.is_finished() && !next.is_finished());
    clock.advance(Duration::from_millis(100));
    let (lost, guard) = ran.await.expect("no panic");
    assert_eq!(lost.reason, LostReason::Expired);
    assert!(!next.is_finished(), "told before the server lets others in");
    assert_eq!(heard.count(|e| matches!(e, Event::Lost { reason: LostReason::Expired, .. })), 1);
    pass(&clock, Duration::from_secs(1)).await;
    let next = next.await.expect("no panic");
    assert!(next.fencing_token() > guard.fencing_token());
    // B03: the late release touches nothing of the next holder's.
    cut.link().heal();
    assert_eq!(guard.release().await.expect("answered"), Release::NotHeld);
    assert!(next.is_held());
    assert_eq!(entries(&server, NAME), 1);
}

/// B41: one renewal that fails is no loss; the server's word is.
#[tokio::test]
async fn unknown_is_not_lost() {
    let server = server(&Clock::system());
    let shaky = client(&server);
    let locks = over(shaky.clone(), &Clock::system());
    let guard = locks.lock(NAME).ttl(Duration::from_millis(600)).acquire().await.expect("acquired");
    shaky.link().swallow_reply();
    let clock = Clock::system();
    let past = clock.now().plus(Duration::from_millis(1500));
    while clock.now() < past {
        assert!(guard.is_held(), "{:?}", guard.lost_reason());
        clock.sleep(Duration::from_millis(20)).await;
    }
    server.revoke(&lockyard_api::Namespace::default(), guard.claim());
    assert_eq!(guard.lost().await, LostReason::Revoked);
    // B35: the next hold of the same name is renewed as any other.
    drop(guard);
    let guard = locks.lock(NAME).ttl(Duration::from_millis(600)).acquire().await.expect("acquired");
    clock.sleep(Duration::from_millis(1500)).await;
    assert!(guard.is_held());
}

#[tokio::test]
async fn a_clock_jump_is_doubt_until_a_renewal_answers() {
    let clock = Clock::manual();
    let server = server(&clock);
    let link = client(&server);
    let guard = over(link.clone(), &clock).acquire(NAME).await.expect("acquired");
    link.link().silence();
    clock.step_wall_clock(Duration::from_secs(60));
    assert!(!guard.is_held());
    assert_eq!(guard.remaining(), Duration::ZERO);
    assert_eq!(guard.lost_reason(), None);
    link.link().heal();
    // The watchdog notices at its next tick.
    pass(&clock, Clock::RECHECK).await;
    eventually("a renewal has answered", || guard.is_held()).await;
    link.link().silence();
    clock.step_wall_clock(Duration::from_secs(60));
    pass(&clock, TTL).await;
    assert_eq!(guard.lost().await, LostReason::ClockJump);
}

#[tokio::test]
async fn the_end_of_a_session_is_told_at_once() {
    let server = session_server(Duration::from_secs(10));
    let client = client(&server);
    let locks = over(client.clone(), &Clock::system());
    let (first, second) = (locks.acquire("a").await.expect("acquired"), locks.acquire("b").await.expect("acquired"));
    client.end_session();
    assert_eq!(first.lost().await, LostReason::SessionEnded);
    assert_eq!(second.lost().await, LostReason::SessionEnded);
    assert!(!first.is_held() && !second.is_held());
    // The next acquire goes by a new session.
    assert!(locks.acquire("c").await.expect("acquired").is_held());
}

/// Each by itself would wake the process and the server as often as there are locks.
#[tokio::test]
async fn renewals_that_are_due_soon_go_together() {
    let clock = Clock::manual();
    let server = server(&clock);
    let heard = Heard::default();
    let builder = Locker::builder(client(&server)).clock(clock.clone()).ttl(TTL).observer(heard.clone());
    let locks = builder.build().expect("inside a runtime");
    let mut guards = Vec::new();
    for (name, later) in [("a", 100), ("b", 100), ("c", 200), ("d", 0)] {
        guards.push(locks.acquire(name).await.expect("acquired"));
        clock.advance(Duration::from_millis(later));
    }
    let renewed = || heard.count(|event| matches!(event, Event::Renewed { .. }));
    clock.advance(TTL / 3 - Duration::from_millis(400));
    eventually("three are due or nearly so", || renewed() == 3).await;
    clock.advance(Duration::from_millis(400));
    eventually("so is the last", || renewed() == 4).await;
    assert!(guards.iter().all(lockyard_api::Guard::is_held));
}

/// What may come sooner is a share of the time between two renewals, not of the lease: else each would be due at once.
#[tokio::test]
async fn renewals_come_no_more_often_than_asked_for() {
    let clock = Clock::manual();
    let server = server(&clock);
    let heard = Heard::default();
    let builder = Locker::builder(client(&server)).clock(clock.clone()).ttl(TTL).observer(heard.clone());
    let locks = builder.renew_after(Duration::from_millis(200)).build().expect("inside a runtime");
    let guard = locks.acquire(NAME).await.expect("acquired");
    // In steps of half a second: one is due at each of them.
    pass(&clock, TTL).await;
    let renewals = heard.count(|event| matches!(event, Event::Renewed { .. }));
    assert!((50..=60).contains(&renewals), "seen {renewals}");
    assert!(guard.is_held());
}
