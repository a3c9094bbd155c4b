//! Sessions and leases under the faults seen in the field.

mod common;

use std::time::Duration;

use common::{
    TTL, acquire, claim, client, deadline, entries, granted, harness, name, queued, released, rest, server, watch,
    within,
};
use etcd_client::{Client, PutOptions};
use lockyard_api::{
    Attempt, Claim, Clock, DistributedLock, ErrorKind, Liveness, Locker, LostReason, Outcome, Owner, Release, Wake,
};
use lockyard_etcd::testing::EtcdHarness;
use lockyard_testbed::{Mode, Options, timing};

async fn lost(grant: &lockyard_api::Grant, limit: Duration) -> LostReason {
    let seen = timing::eventually(limit, async || watch(grant).lost()).await;
    seen.unwrap_or_else(|| panic!("no loss told within {limit:?}"))
}

async fn revoke_all(harness: &EtcdHarness, lock: &lockyard_etcd::EtcdLock) {
    for lease in lock.leases() {
        harness.revoke_lease(lease).await.expect("revokes");
    }
}

// B110
#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_lease_is_told_and_a_new_session_follows() {
    let harness = harness().await;
    let lock = client(&harness).await;
    let old = claim("name");
    let grant = granted(&lock, &old).await;
    revoke_all(&harness, &lock).await;
    assert_eq!(lost(&grant, TTL).await, LostReason::SessionEnded);
    for claim in [old.clone(), old.clone().queueing()] {
        let error = lock.try_acquire(&claim).await.expect_err("a claim of an ended session");
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::SessionChanged, Outcome::NotApplied), "{error}");
    }
    assert_eq!(lock.release(&old).await.expect("an answer"), Release::NotHeld);
    let next = granted(&lock, &claim("name")).await;
    assert!(next.token > grant.token);
}

// B110: found out by the transaction, before any keep-alive.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_on_a_revoked_lease_is_refused_and_its_repeat_is_too() {
    let harness = harness().await;
    let lock = client(&harness).await;
    let grant = granted(&lock, &claim("first")).await;
    revoke_all(&harness, &lock).await;
    let late = claim("second");
    let error = lock.try_acquire(&late).await.expect_err("the lease is gone");
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::SessionChanged, Outcome::NotApplied), "{error}");
    assert_eq!(watch(&grant).lost(), Some(LostReason::SessionEnded));
    let again = lock.try_acquire(&late).await.expect_err("the same claim");
    assert_eq!(again.kind(), ErrorKind::SessionChanged);
    assert_eq!(entries(&lock, "second").await, 0);
    granted(&lock, &claim("second")).await;
}

// B110: the stream ends or breaks; the lease does not.
#[tokio::test(flavor = "multi_thread")]
async fn a_cut_connection_loses_nothing() {
    let harness = harness().await;
    let (lock, proxy) = harness.client_via_proxy().await.expect("connects");
    let other = client(&harness).await;
    let hold = claim("name");
    let grant = granted(&lock, &hold).await;
    let (clock, until) = (Clock::system(), Clock::system().now().plus(TTL * 3));
    while clock.now() < until {
        proxy.reset();
        rest(TTL / 2).await;
        assert_eq!(watch(&grant).lost(), None);
        assert!(clock.now() < deadline(&grant), "the session was not confirmed in time");
    }
    assert!(matches!(other.try_acquire(&claim("name")).await.expect("an answer"), Attempt::Busy));
    released(&lock, &hold).await;
}

// B110: silence. Nobody is told anything, so the deadline decides; the truth comes when the network does.
#[tokio::test(flavor = "multi_thread")]
async fn silence_ends_in_the_deadline_and_then_in_the_loss() {
    let harness = harness().await;
    let (lock, proxy) = harness.client_via_proxy().await.expect("connects");
    let other = client(&harness).await;
    let hold = claim("name");
    let grant = granted(&lock, &hold).await;
    proxy.set(Mode::Hold).await;
    let (clock, silent) = (Clock::system(), deadline(&grant));
    let next = within(TTL + Duration::from_secs(4), "the lease ends", acquire(&other, &claim("name").queueing())).await;
    assert!(clock.now() >= silent, "the server freed the name before the holder's deadline");
    assert!(next.token > grant.token);
    proxy.set(Mode::Pass).await;
    assert_eq!(lost(&grant, Duration::from_secs(5)).await, LostReason::SessionEnded);
    let error = lock.try_acquire(&hold).await.expect_err("an ended session");
    assert_eq!(error.kind(), ErrorKind::SessionChanged);
}

// B35, B110: one record is deleted by hand.
#[tokio::test(flavor = "multi_thread")]
async fn a_hold_deleted_by_hand_is_lost_and_the_next_one_lives() {
    let harness = harness().await;
    let lock = client(&harness).await;
    let mut raw = Client::connect([server(&harness).url()], None).await.expect("connects");
    let (hold, beside) = (claim("name"), claim("beside"));
    let (grant, other) = (granted(&lock, &hold).await, granted(&lock, &beside).await);
    raw.delete(lock.key_space().lock(&hold.name).key(hold.owner), None).await.expect("deletes");
    assert_eq!(lost(&grant, TTL).await, LostReason::Revoked);
    assert_eq!(lock.renew(&hold).await.expect("an answer"), lockyard_api::Renewal::Lost);
    assert_eq!(lock.release(&hold).await.expect("an answer"), Release::NotHeld);
    let next = granted(&lock, &claim("name")).await;
    rest(TTL * 2).await;
    assert_eq!((watch(&next).lost(), watch(&other).lost()), (None, None));
    assert!(Clock::system().now() < deadline(&next));
}

/// The watch that the hold was won by tells at once.
#[tokio::test(flavor = "multi_thread")]
async fn a_hold_won_by_waiting_is_told_of_its_end_by_the_watch() {
    let harness = harness().await;
    let (a, b) = (client(&harness).await, client(&harness).await);
    let (hold, waiter) = (Claim::new(name("name"), TTL), Claim::new(name("name"), Duration::from_secs(60)).queueing());
    granted(&a, &hold).await;
    queued(&b, &waiter).await;
    let (grant, ()) = tokio::join!(acquire(&b, &waiter), released(&a, &hold));
    revoke_all(&harness, &b).await;
    // Its heartbeat comes every 20 s.
    lost(&grant, Duration::from_secs(2)).await;
}

// B108: what the waiter asks for no longer arrives, what the server tells it does.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_whose_lease_ran_out_is_not_granted() {
    let harness = harness().await;
    let a = client(&harness).await;
    let (b, proxy) = harness.client_via_proxy().await.expect("connects");
    let (first, hold) = (claim("name"), Claim::new(name("name"), Duration::from_secs(30)));
    // A wait that was won: the watch is open and stays so for the next one.
    let (before, waiter) = (claim("name").queueing(), claim("name").queueing());
    granted(&a, &first).await;
    queued(&b, &before).await;
    tokio::join!(acquire(&b, &before), released(&a, &first));
    released(&b, &before).await;
    granted(&a, &hold).await;
    queued(&b, &waiter).await;
    proxy.set(Mode::DropRequests).await;
    let woken = within(TTL + Duration::from_secs(4), "its own delete is told", b.wait(&waiter)).await;
    assert!(matches!(woken, Ok(Wake::Retry)), "{woken:?}");
    assert_eq!(entries(&a, "name").await, 1);
    released(&a, &hold).await;
    proxy.set(Mode::Pass).await;
    let refused = timing::eventually(Duration::from_secs(10), async || b.try_acquire(&waiter).await.err()).await;
    let refused = refused.expect("never a grant");
    assert!(matches!(refused.kind(), ErrorKind::SessionChanged | ErrorKind::Unreachable), "{refused}");
    let ended = timing::eventually(Duration::from_secs(10), async || {
        b.try_acquire(&waiter).await.is_err_and(|error| error.kind() == ErrorKind::SessionChanged)
    });
    ended.await.expect("the session has ended");
    within(Duration::from_secs(5), "a new claim", acquire(&b, &claim("name").queueing())).await;
}

// B116: everything that is written has a lease that is kept alive.
#[tokio::test(flavor = "multi_thread")]
async fn a_hold_outlives_many_leases() {
    let harness = harness().await;
    let (a, b) = (client(&harness).await, client(&harness).await);
    let (hold, clock) = (claim("name"), Clock::system());
    let grant = granted(&a, &hold).await;
    let until = clock.now().plus(TTL * 4);
    while clock.now() < until {
        assert!(matches!(b.try_acquire(&claim("name")).await.expect("an answer"), Attempt::Busy));
        assert!(clock.now() < deadline(&grant) && watch(&grant).lost().is_none());
        rest(Duration::from_millis(50)).await;
    }
    let repeat = granted(&a, &hold).await;
    assert_eq!(repeat.token, grant.token);
    assert!(watch(&repeat).same_session(watch(&grant)));
    released(&a, &hold).await;
}

// B40: a request that lands after its undo, while the session lives on.
#[tokio::test(flavor = "multi_thread")]
async fn a_stray_key_of_a_living_session_is_swept() {
    let harness = harness().await;
    let lock = client(&harness).await;
    let mut raw = Client::connect([server(&harness).url()], None).await.expect("connects");
    granted(&lock, &claim("beside")).await;
    let stray = lock.key_space().lock(&name("name")).key(Owner::random());
    let lease = lock.leases()[0];
    raw.put(stray, "", Some(PutOptions::new().with_lease(lease))).await.expect("puts");
    assert_eq!(entries(&lock, "name").await, 1);
    let swept = timing::eventually(TTL, async || entries(&lock, "name").await == 0).await;
    swept.expect("the heartbeat deletes it");
    assert_eq!(entries(&lock, "beside").await, 1);
}

// B40: the same through the network: the transaction is held up until its undo is done.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_delayed_past_its_undo_leaves_nothing() {
    let harness = harness().await;
    let (lock, proxy) = harness.client_via_proxy().await.expect("connects");
    let other = client(&harness).await;
    let warm = claim("beside");
    granted(&lock, &warm).await;
    released(&lock, &warm).await;
    let late = claim("name");
    proxy.set(Mode::DropReplies).await;
    let error = lock.try_acquire(&late).await.expect_err("no answer");
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Unreachable, Outcome::Unknown), "{error}");
    proxy.set(Mode::Pass).await;
    let undone = timing::eventually(Duration::from_secs(10), async || lock.release(&late).await.is_ok()).await;
    undone.expect("released");
    let free = timing::eventually(TTL * 3, async || entries(&other, "name").await == 0).await;
    free.expect("nothing is left");
    granted(&other, &claim("name")).await;
}

// B54: the server's minimum is what counts.
#[tokio::test(flavor = "multi_thread")]
async fn the_granted_ttl_is_told_and_used() {
    let slow = ["--heartbeat-interval", "100", "--election-timeout", "1000"];
    let harness = EtcdHarness::start_with(Options::new().args(slow)).await.expect("a server of our own");
    let second = Duration::from_secs(1);
    let (lock, other) = (client(&harness).await, client(&harness).await);
    let hold = Claim::new(name("name"), second);
    let grant = granted(&lock, &hold).await;
    let (valid_from, ttl) = watch(&grant).lease();
    assert_eq!(ttl, second * 2);
    rest(second * 3).await;
    assert!(watch(&grant).lease().0 > valid_from && watch(&grant).lost().is_none());
    assert_eq!(watch(&grant).lease().1, ttl);
    released(&lock, &hold).await;
    let fixed = Claim::new(name("name"), second).fixed();
    let grant = granted(&lock, &fixed).await;
    let Liveness::Lease { ttl } = grant.liveness else { panic!("{grant:?}") };
    assert_eq!(ttl, second * 2);
    within(second * 6, "it ends", acquire(&other, &claim("name").queueing())).await;
    assert!(Clock::system().now() >= grant.valid_from.plus(ttl));
}

// B48
#[tokio::test(flavor = "multi_thread")]
async fn a_ttl_is_rounded_up_to_its_class() {
    let harness = harness().await;
    let lock = client(&harness).await;
    for (asked, class) in [(1000, 1), (1500, 2), (2001, 5)] {
        let claim = Claim::new(name(&format!("of-{asked}")), Duration::from_millis(asked));
        let grant = granted(&lock, &claim).await;
        assert_eq!(watch(&grant).lease().1, Duration::from_secs(class), "{asked} ms");
        released(&lock, &claim).await;
    }
    let fixed = Claim::new(name("fixed"), Duration::from_millis(2001)).fixed();
    let grant = granted(&lock, &fixed).await;
    assert!(matches!(grant.liveness, Liveness::Lease { ttl } if ttl == Duration::from_secs(3)), "{grant:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fixed_lease_ends_by_itself_whatever_its_client_does() {
    let harness = harness().await;
    let (a, b) = (client(&harness).await, client(&harness).await);
    let beside = claim("beside");
    granted(&a, &beside).await;
    let fixed = claim("name").fixed();
    let grant = granted(&a, &fixed).await;
    let ends = grant.valid_from.plus(TTL);
    assert_eq!(a.renew(&fixed).await.expect_err("never renewed").kind(), ErrorKind::Unsupported);
    let waiter = claim("name").queueing().fixed();
    let next = within(TTL * 3, "it ends", acquire(&b, &waiter)).await;
    assert!(Clock::system().now() >= ends, "it ended early");
    assert!(next.token > grant.token);
    assert!(next.valid_from >= ends, "a fixed lease begins with the hold, not with the wait");
    assert_eq!(a.release(&fixed).await.expect("an answer"), Release::NotHeld);
    // A repeat begins it anew.
    let repeat = granted(&b, &waiter).await;
    assert_eq!(repeat.token, next.token);
    assert!(repeat.valid_from > next.valid_from);
    released(&b, &waiter).await;
    granted(&a, &claim("name")).await;
}

/// The locks of a client end with it, not with its leases.
#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_client_frees_its_names_at_once() {
    let harness = harness().await;
    let (a, b) = (client(&harness).await, client(&harness).await);
    granted(&a, &Claim::new(name("name"), Duration::from_secs(60))).await;
    let waiter = claim("name").queueing();
    queued(&b, &waiter).await;
    drop(a);
    within(Duration::from_secs(5), "the client is gone", acquire(&b, &waiter)).await;
}

fn locker(lock: lockyard_etcd::EtcdLock) -> Locker {
    Locker::new(lock).expect("a locker")
}

// B118, first half: the server is away for half a lease.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_away_for_half_a_lease_costs_no_lock() {
    let harness = harness().await;
    let ttl = Duration::from_secs(10);
    let locks = locker(client(&harness).await);
    let guard = locks.lock("name").ttl(ttl).acquire().await.expect("acquires");
    server(&harness).kill().await.expect("killed");
    rest(ttl / 2).await;
    server(&harness).restart().await.expect("restarted");
    let renewed = timing::eventually(ttl, async || guard.remaining() > ttl * 3 / 4).await;
    renewed.expect("the session goes on");
    assert!(guard.is_held(), "{:?}", guard.lost_reason());
    assert!(locker(client(&harness).await).try_acquire("name").await.expect("an answer").is_none());
    assert_eq!(guard.release().await.expect("an answer"), Release::Released);
}

// B118, second half: away for two leases.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_away_for_two_leases_costs_the_lock_and_no_more() {
    let harness = harness().await;
    let locks = locker(client(&harness).await);
    let guard = locks.lock("name").ttl(TTL).acquire().await.expect("acquires");
    server(&harness).kill().await.expect("killed");
    let reason = within(TTL * 2, "the deadline passes", guard.lost()).await;
    assert_eq!(reason, LostReason::Expired);
    assert!(!guard.is_held());
    rest(TTL).await;
    server(&harness).restart().await.expect("restarted");
    drop(guard);
    let again = timing::eventually(Duration::from_secs(15), async || {
        locks.lock("name").ttl(TTL).wait(TTL).acquire().await.ok()
    });
    assert!(again.await.expect("a new acquire works").is_held());
}

// B22
#[tokio::test(flavor = "multi_thread")]
async fn a_wait_ends_in_its_time_although_the_server_hangs() {
    let harness = harness().await;
    let (a, b) = (locker(client(&harness).await), locker(client(&harness).await));
    let _guard = a.acquire("name").await.expect("acquires");
    let clock = Clock::system();
    let began = clock.now();
    let (waited, ()) = tokio::join!(b.lock("name").wait(Duration::from_secs(2)).acquire(), async {
        rest(Duration::from_secs(1)).await;
        server(&harness).freeze().await.expect("frozen");
    });
    let took = clock.now().since(began);
    server(&harness).thaw().await.expect("thawed");
    assert_eq!(waited.expect_err("held").kind(), ErrorKind::Timeout);
    assert!(took < timing::scaled(Duration::from_secs(4)), "{took:?}");
}
