//! Faults on the way and at the server, each with the case that it was seen in.

mod support;

use std::time::Duration;

use lockyard_api::{Attempt, Claim, Clock, DistributedLock, ErrorKind, Outcome, Release, Renewal};
use lockyard_redis::RedisLock;
use lockyard_testbed::{Mode, timing};
use support::{acquire, ask, connect, granted, harness, name, pttl, queued, try_acquire, two};
use tokio::task::JoinSet;

const TTL: Duration = Duration::from_secs(5);

/// B01: wherever the request of an acquire is cut, no lock without an end is left.
#[tokio::test(flavor = "multi_thread")]
async fn a_cut_acquire_leaves_no_lock_for_ever() {
    let harness = harness().await;
    let warm = connect(&harness).await;
    granted(try_acquire(&warm, &Claim::new(name("warm"), TTL)).await);
    let mut cut = 0;
    loop {
        let (lock, proxy) = harness.connect_through_proxy().await.expect("connects");
        let claim = Claim::new(name(&format!("cut-{cut}")), TTL);
        proxy.cut_requests_after(cut);
        let attempt = lock.try_acquire(&claim).await;
        let left = pttl(&harness, &format!("lockyard:cut-{cut}")).await;
        assert!(left == -2 || (0..=5000).contains(&left), "cut after {cut} bytes: {left}");
        match attempt {
            Ok(attempt) => {
                granted(attempt);
                break;
            }
            Err(error) => assert_eq!((error.kind(), error.outcome()), (ErrorKind::Unreachable, Outcome::Unknown)),
        }
        cut += 5;
    }
    assert!(cut > 200, "the request has more bytes than {cut}");
}

/// B10: a release is repeated until it is answered, and the answers tell the cases apart.
#[tokio::test(flavor = "multi_thread")]
async fn a_failed_release_can_be_repeated() {
    let harness = harness().await;
    let (lock, proxy) = harness.connect_through_proxy().await.expect("connects");
    let first = Claim::new(name("a"), TTL);
    granted(try_acquire(&lock, &first).await);
    proxy.cut_requests_after(0);
    assert_eq!(lock.release(&first).await.expect_err("cut").outcome(), Outcome::Unknown);
    assert_eq!(lock.release(&first).await.expect("an answer"), Release::Released);

    let second = Claim::new(name("a"), TTL);
    granted(try_acquire(&lock, &second).await);
    proxy.swallow_replies(1);
    assert_eq!(lock.release(&second).await.expect_err("swallowed").outcome(), Outcome::Unknown);
    assert_eq!(lock.release(&second).await.expect("an answer"), Release::NotHeld);
}

/// B15 and B07: an acquire whose answer was lost is undone by its owner, and touches nobody else's hold.
#[tokio::test(flavor = "multi_thread")]
async fn an_acquire_without_an_answer_is_undone() {
    let harness = harness().await;
    let (lock, proxy) = harness.connect_through_proxy().await.expect("connects");
    let other = connect(&harness).await;
    // The server knows the script from here on, so that the answer swallowed is that of the acquire.
    granted(try_acquire(&other, &Claim::new(name("warm"), TTL)).await);
    let lost = Claim::new(name("a"), TTL).with_label("same");
    proxy.swallow_replies(1);
    assert_eq!(lock.try_acquire(&lost).await.expect_err("swallowed").outcome(), Outcome::Unknown);
    assert!(matches!(try_acquire(&other, &Claim::new(name("a"), TTL)).await, Attempt::Busy));
    assert_eq!(lock.release(&lost).await.expect("an answer"), Release::Released);
    let hold = Claim::new(name("a"), TTL).with_label("same");
    granted(try_acquire(&other, &hold).await);
    assert_eq!(lock.release(&lost).await.expect("an answer"), Release::NotHeld);
    assert!(matches!(other.renew(&hold).await.expect("an answer"), Renewal::Renewed { .. }));
}

/// B03 and B43: who comes after its lease frees nothing and lengthens nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_late_holder_touches_nothing() {
    let harness = harness().await;
    let (late, next) = two(&harness).await;
    let first = Claim::new(name("a"), Duration::from_millis(50));
    let early = granted(try_acquire(&late, &first).await).token;
    let second = Claim::new(name("a"), TTL).queueing();
    let later = acquire(&next, &second).await.token;
    assert!(later > early, "{later:?} after {early:?}");
    assert_eq!(late.renew(&first).await.expect("an answer"), Renewal::Lost);
    assert_eq!(late.release(&first).await.expect("an answer"), Release::NotHeld);
    assert!(pttl(&harness, "lockyard:a").await <= 5000);
    assert!(matches!(try_acquire(&late, &Claim::new(name("a"), TTL)).await, Attempt::Busy));
}

/// B73: the server forgets its scripts between any two calls.
#[tokio::test(flavor = "multi_thread")]
async fn forgotten_scripts_are_sent_again_in_the_same_call() {
    let harness = harness().await;
    let lock = connect(&harness).await;
    let claim = Claim::new(name("a"), TTL);
    for round in 0..3 {
        granted(try_acquire(&lock, &claim).await);
        let _: String = ask(&harness, &["SCRIPT", "FLUSH"]).await;
        assert!(matches!(lock.renew(&claim).await, Ok(Renewal::Renewed { .. })), "round {round}");
        let _: String = ask(&harness, &["SCRIPT", "FLUSH"]).await;
        assert!(lock.inspect(&claim.name).await.expect("an answer").is_some());
        let _: String = ask(&harness, &["SCRIPT", "FLUSH"]).await;
        assert_eq!(lock.release(&claim).await.expect("an answer"), Release::Released);
        let _: String = ask(&harness, &["SCRIPT", "FLUSH"]).await;
    }
}

/// B76 a: the connection that wakes a waiter is killed just before the release.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_whose_connection_is_killed_still_gets_it() {
    let harness = harness().await;
    let (holder, lock) = two(&harness).await;
    let ttl = Duration::from_secs(30);
    let (hold, claim) = (Claim::new(name("a"), ttl), Claim::new(name("a"), ttl).queueing());
    granted(try_acquire(&holder, &hold).await);
    queued(&try_acquire(&lock, &claim).await);
    let killed: i64 = ask(&harness, &["CLIENT", "KILL", "TYPE", "pubsub"]).await;
    assert_eq!(killed, 1);
    let began = Clock::system().now();
    holder.release(&hold).await.expect("an answer");
    acquire(&lock, &claim).await;
    assert!(Clock::system().now().since(began) < timing::scaled(Duration::from_secs(2)));
}

/// B135: those who died or froze in the queue cost the living one ttl at most, not one each.
#[tokio::test(flavor = "multi_thread")]
async fn the_dead_and_the_frozen_ahead_cost_one_ttl() {
    let harness = harness().await;
    let ttl = Duration::from_secs(2);
    let holder = connect(&harness).await;
    let hold = Claim::new(name("a"), ttl);
    granted(try_acquire(&holder, &hold).await);
    for _ in 0..20 {
        queued(&try_acquire(&connect(&harness).await, &Claim::new(name("a"), ttl).queueing()).await);
    }
    let mut frozen = Vec::new();
    for _ in 0..5 {
        let (lock, proxy) = harness.connect_through_proxy().await.expect("connects");
        queued(&try_acquire(&lock, &Claim::new(name("a"), ttl).queueing()).await);
        proxy.set(Mode::Hold).await;
        frozen.push((lock, proxy));
    }
    let (lock, claim) = (connect(&harness).await, Claim::new(name("a"), ttl).queueing());
    queued(&try_acquire(&lock, &claim).await);
    let began = Clock::system().now();
    holder.release(&hold).await.expect("an answer");
    acquire(&lock, &claim).await;
    let took = Clock::system().now().since(began);
    assert!(took < ttl + timing::scaled(Duration::from_secs(1)), "{took:?} behind 5 frozen and 20 dead waiters");
    lock.release(&claim).await.expect("an answer");
    assert_eq!(ask::<i64>(&harness, &["LLEN", "{lockyard:a}:queue"]).await, 0);
    assert_eq!(ask::<i64>(&harness, &["HLEN", "{lockyard:a}:meta"]).await, 0);
}

/// B135: a queue of the dead goes by itself, also when nobody asks for the name again; it stays for the longest ttl of those in it.
#[tokio::test(flavor = "multi_thread")]
async fn a_queue_of_the_dead_goes_by_itself() {
    let harness = harness().await;
    let holder = connect(&harness).await;
    for (key, ttls) in [("a", [60, 1].as_slice()), ("b", &[1])] {
        granted(try_acquire(&holder, &Claim::new(name(key), TTL)).await);
        for ttl in ttls {
            let claim = Claim::new(name(key), Duration::from_secs(*ttl)).queueing();
            queued(&try_acquire(&connect(&harness).await, &claim).await);
        }
    }
    for key in ["{lockyard:a}:queue", "{lockyard:a}:meta"] {
        let left = pttl(&harness, key).await;
        assert!((2001..=61_000).contains(&left), "{key}: {left}: the shorter lease of the second counts");
    }
    let gone = || async { ask::<i64>(&harness, &["EXISTS", "{lockyard:b}:queue", "{lockyard:b}:meta"]).await == 0 };
    timing::eventually(TTL * 2, gone).await.expect("nobody is in the queue");
}

/// B50: leases as short as the requests, released at the edge of their end.
#[tokio::test(flavor = "multi_thread")]
async fn tiny_leases_bring_no_raw_errors() {
    let harness = harness().await;
    let clock = Clock::system();
    let until = clock.now().plus(Duration::from_secs(2));
    let mut contenders = JoinSet::new();
    for seed in 0..16 {
        let lock: RedisLock = connect(&harness).await;
        let (clock, mut random) = (clock.clone(), fastrand::Rng::with_seed(seed));
        contenders.spawn(async move {
            while clock.now() < until {
                let ttl = Duration::from_millis(random.u64(10..30));
                let claim = Claim::new(name("edge"), ttl).queueing();
                acquire(&lock, &claim).await;
                clock.sleep(ttl.saturating_sub(Duration::from_millis(random.u64(0..3)))).await;
                let _ = lock.renew(&claim).await.expect("no raw error");
                lock.release(&claim).await.expect("no raw error");
            }
        });
    }
    contenders.join_all().await;
    for key in ask::<Vec<String>>(&harness, &["KEYS", "*"]).await {
        assert_ne!(pttl(&harness, &key).await, -1, "{key} never ends");
    }
}

/// A request that was delayed past its undo has put an owner into the queue that nobody waits for: the grant goes back.
#[tokio::test(flavor = "multi_thread")]
async fn a_grant_for_nobody_is_given_back() {
    let harness = harness().await;
    let (holder, lock) = two(&harness).await;
    let ttl = Duration::from_secs(60);
    let (hold, claim) = (Claim::new(name("a"), ttl), Claim::new(name("a"), ttl).queueing());
    granted(try_acquire(&holder, &hold).await);
    queued(&try_acquire(&lock, &claim).await);
    let ghost = "000000000000000000000000000000ff";
    let record: String = ask(&harness, &["HGET", "{lockyard:a}:meta", &claim.owner.to_string()]).await;
    let _: i64 = ask(&harness, &["HSET", "{lockyard:a}:meta", ghost, &record]).await;
    let _: i64 = ask(&harness, &["LPUSH", "{lockyard:a}:queue", ghost]).await;
    holder.release(&hold).await.expect("an answer");
    assert_eq!(ask::<String>(&harness, &["GET", "lockyard:a"]).await, ghost);
    let began = Clock::system().now();
    acquire(&lock, &claim).await;
    assert!(Clock::system().now().since(began) < timing::scaled(Duration::from_secs(3)));
}
