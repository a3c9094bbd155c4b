//! The session: what the server grants, and how it ends.

use std::time::Duration;

use crate::common::{self, LONG, SOON, claim, granted, name};
use lockyard_api::{Claim, DistributedLock, ErrorKind, Liveness, Outcome, Release};
use lockyard_conformance::Harness;
use lockyard_testbed::{Options, timing};

/// B132: the server clamps the timeout to 2 to 20 ticks, and that is what holds are granted.
#[tokio::test]
async fn what_is_granted_is_what_the_server_negotiates() {
    let clamped = Options::new().args(["tickTime=2000", "minSessionTimeout=4000", "maxSessionTimeout=40000"]);
    let Some(harness) = common::start(clamped).await else { return };
    for (asked, granted_ttl) in
        [(1, 4), (600, 40), (10, 10)].map(|(a, g)| (Duration::from_secs(a), Duration::from_secs(g)))
    {
        let (lock, _proxy) = common::client(&harness, asked).await;
        assert_eq!((lock.session_timeout(), lock.capabilities().ttl.min), (granted_ttl, granted_ttl));
        let short = Claim::new(name(), granted_ttl - Duration::from_millis(1));
        let error = lock.try_acquire(&short).await.expect_err("shorter than T");
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::InvalidTtl, Outcome::NotApplied));
        assert!(error.message().contains(&format!("T = {granted_ttl:?}")), "{error}");
        let grant = granted(lock.try_acquire(&Claim::new(name(), granted_ttl)).await);
        let Liveness::Session(watch) = grant.liveness else { panic!("a session") };
        assert_eq!(watch.lease().1, granted_ttl);
    }
}

/// The heartbeat keeps what is confirmed younger than half of T: a grant is not asked about again.
#[tokio::test(flavor = "multi_thread")]
async fn an_idle_session_is_confirmed_in_time() {
    let Some(harness) = common::start(Options::new()).await else { return };
    let ttl = Duration::from_secs(3);
    let (lock, _proxy) = common::client(&harness, ttl).await;
    let grant = granted(lock.try_acquire(&claim(&name())).await);
    let Liveness::Session(watch) = grant.liveness else { panic!("a session") };
    let clock = lockyard_api::Clock::system();
    let (end, first) = (clock.now().plus(ttl * 2), watch.lease().0);
    let mut oldest = Duration::ZERO;
    while clock.now() < end {
        oldest = oldest.max(clock.now().since(watch.lease().0));
        clock.sleep(ttl / 100).await;
    }
    assert!(watch.lease().0 > first.plus(ttl), "the session was not confirmed");
    // A machine that is busy with other tests may be late; by more than that it would lose locks.
    assert!(oldest < ttl * 2 / 3, "the session was last confirmed {oldest:?} ago");
}

#[tokio::test]
async fn a_client_that_is_dropped_ends_its_holds() {
    let Some(harness) = common::start(Options::new()).await else { return };
    let (lock, proxy) = common::client(&harness, LONG).await;
    let name = name();
    granted(lock.try_acquire(&claim(&name)).await);
    drop(lock);
    let empty = async || harness.contenders(&name).await.expect("a list").is_empty();
    timing::eventually(SOON, empty).await.expect("the session is closed long before T");
    timing::eventually(SOON, async || proxy.connections() == 0).await.expect("and its connection");
}

/// Claims of a session that has ended are told so; new ones get a new session.
#[tokio::test]
async fn a_session_that_ended_is_replaced() {
    let Some(harness) = common::start(Options::new()).await else { return };
    let client = harness.connect().await.expect("the server is there");
    let name = name();
    let old = claim(&name);
    let hold = granted(client.lock.try_acquire(&old).await);
    assert_eq!(harness.end_session(&client).await, lockyard_conformance::Fault::Done);
    let Liveness::Session(watch) = hold.liveness else { panic!("a session") };
    timing::eventually(SOON, async || watch.lost().is_some()).await.expect("the end is told");
    for _ in 0..2 {
        let error = client.lock.try_acquire(&old).await.expect_err("its session has ended");
        assert_eq!(error.kind(), ErrorKind::SessionChanged, "{error}");
    }
    let new = claim(&name);
    assert!(granted(client.lock.try_acquire(&new).await).token > hold.token);
    for _ in 0..2 {
        assert_eq!(client.lock.release(&old).await.expect("nothing is left of it"), Release::NotHeld);
    }
    assert_eq!(client.lock.release(&new).await.expect("an answer"), Release::Released);
}
