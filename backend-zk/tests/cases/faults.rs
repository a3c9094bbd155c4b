//! Replies that are lost and links that are cut.

use crate::common::{self, LONG, SOON, acquire, busy, claim, granted, name, queued};
use lockyard_api::{Attempt, DistributedLock, ErrorKind, Locker, Outcome, Release};
use lockyard_testbed::{Mode, Options, timing};
use std::time::Duration;

/// B17: the reply to the create is lost; the claim finds its node again.
#[tokio::test]
async fn a_lost_reply_makes_no_second_node() {
    let Some(harness) = common::start(Options::new()).await else { return };
    let (lock, proxy) = common::client(&harness, LONG).await;
    for _ in 0..5 {
        let (name, connected) = (name(), lock.session_id());
        let claim = claim(&name);
        proxy.swallow_replies(1);
        granted(lock.try_acquire(&claim).await);
        assert_eq!(lock.session_id(), connected);
        assert_eq!(harness.contenders(&name).await.expect("a list").len(), 1);
        assert_eq!(lock.release(&claim).await.expect("an answer"), Release::Released);
        assert!(harness.contenders(&name).await.expect("a list").is_empty());
    }
}

/// B19, B123: the link is cut at every place of a refused attempt. The node goes without anybody asking again.
#[tokio::test]
async fn a_refusal_that_is_cut_off_leaves_nothing() {
    let Some(harness) = common::start(Options::new()).await else { return };
    let ((a, _a), (b, proxy)) = (common::client(&harness, LONG).await, common::client(&harness, LONG).await);
    let name = name();
    let held = claim(&name);
    granted(a.try_acquire(&held).await);
    for bytes in (0..600).step_by(40) {
        proxy.cut_requests_after(bytes);
        let refused = claim(&name);
        match b.try_acquire(&refused).await {
            Ok(Attempt::Busy) => {}
            Ok(other) => panic!("held by another, answered {other:?} when cut after {bytes} bytes"),
            Err(error) => {
                assert_eq!((error.kind(), error.outcome()), (ErrorKind::Unreachable, Outcome::Unknown), "{error}");
                b.release(&refused).await.expect("connected again");
            }
        }
        let alone = async || harness.contenders(&name).await.expect("a list").len() == 1;
        timing::eventually(SOON, alone).await.unwrap_or_else(|| panic!("a node is left, cut after {bytes} bytes"));
    }
    assert_eq!(a.release(&held).await.expect("an answer"), Release::Released);
    granted(b.try_acquire(&claim(&name)).await);
}

/// B09, B10: a release that is lost is repeated, by the caller or by the heartbeat.
#[tokio::test]
async fn a_release_that_is_lost_is_made_up_for() {
    let Some(harness) = common::start(Options::new()).await else { return };
    let ((a, proxy), (b, _b)) = (common::client(&harness, LONG).await, common::client(&harness, LONG).await);
    for lost in ["request", "reply"] {
        let name = name();
        let (held, waiting) = (claim(&name), claim(&name).queueing());
        granted(a.try_acquire(&held).await);
        queued(b.try_acquire(&waiting).await);
        if lost == "request" {
            proxy.cut_requests_after(0);
        } else {
            proxy.swallow_replies(1);
        }
        let first = a.release(&held).await;
        // Nobody asks again: the next holder comes all the same, long before T.
        acquire(&b, &waiting, SOON).await;
        if let Err(error) = first {
            assert_eq!(error.outcome(), Outcome::Unknown, "{error}");
            assert_eq!(a.release(&held).await.expect("connected again"), Release::NotHeld);
        }
        b.release(&waiting).await.expect("an answer");
        assert!(harness.contenders(&name).await.expect("a list").is_empty());
    }
}

/// A request that is held up in the network and arrives after its undo.
#[tokio::test]
async fn a_create_that_arrives_after_its_undo_is_swept() {
    let Some(harness) = common::start(Options::new()).await else { return };
    let (lock, proxy) = common::hasty(&harness, Duration::from_secs(12)).await;
    let name = name();
    let (before, late) = (claim(&name), claim(&name));
    granted(lock.try_acquire(&before).await);
    lock.release(&before).await.expect("an answer");
    proxy.set(Mode::Hold).await;
    let error = lock.try_acquire(&late).await.expect_err("nothing passes");
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Unreachable, Outcome::Unknown), "{error}");
    let error = lock.release(&late).await.expect_err("nothing passes");
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Unreachable, Outcome::Unknown), "{error}");
    proxy.set(Mode::Pass).await;
    timing::eventually(SOON * 2, async || lock.release(&late).await.is_ok()).await.expect("connected again");
    let empty = async || harness.contenders(&name).await.expect("a list").is_empty();
    timing::eventually(SOON * 2, empty).await.expect("a heartbeat sweeps the late node");
    granted(lock.try_acquire(&claim(&name)).await);
}

/// B119: a holder that is cut off is told before anybody else gets the lock.
#[tokio::test(flavor = "multi_thread")]
async fn a_holder_that_is_cut_off_is_lost_by_its_own_clock() {
    let Some(harness) = common::start(Options::new()).await else { return };
    let ttl = Duration::from_secs(2);
    let ((a, proxy), (b, _b)) = (common::client(&harness, ttl).await, common::client(&harness, ttl).await);
    let locker = Locker::new(a).expect("its options are fine");
    let name = name();
    let guard = locker.acquire(&name).await.expect("free");
    let waiting = claim(&name).queueing();
    queued(b.try_acquire(&waiting).await);
    proxy.set(Mode::Hold).await;
    let grant = acquire(&b, &waiting, ttl * 4).await;
    assert!(!guard.is_held() && guard.lost_reason().is_some(), "another holds the lock and {guard:?} was not told");
    assert!(grant.token > guard.fencing_token());
    proxy.set(Mode::Pass).await;
    busy(b.try_acquire(&claim(&name)).await);
}

/// B121: the event of the turn falls into a time without a connection.
#[tokio::test]
async fn a_turn_that_comes_while_disconnected_is_found() {
    let Some(harness) = common::start(Options::new()).await else { return };
    let ((a, _a), (b, proxy)) = (common::client(&harness, LONG).await, common::client(&harness, LONG).await);
    let name = name();
    let (held, waiting) = (claim(&name), claim(&name).queueing());
    granted(a.try_acquire(&held).await);
    queued(b.try_acquire(&waiting).await);
    let wait = tokio::spawn({
        let (b, waiting) = (std::sync::Arc::clone(&b), waiting.clone());
        async move { acquire(&b, &waiting, LONG).await }
    });
    let connections = proxy.connections();
    proxy.set(Mode::Refuse).await;
    proxy.reset();
    timing::eventually(SOON, async || proxy.connections() < connections).await.expect("it is cut");
    a.release(&held).await.expect("an answer");
    proxy.set(Mode::Pass).await;
    tokio::time::timeout(timing::scaled(SOON), wait).await.expect("soon after it is connected").expect("it waits");
}
