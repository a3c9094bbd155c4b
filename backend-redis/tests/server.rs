//! What other programs and operators do to the server's keys and to the server.

mod support;

use std::time::Duration;

use lockyard_api::{
    Attempt, Claim, Clock, DistributedLock, ErrorKind, FencedRegister, FencingToken, Outcome, Release, Renewal,
    Version, Write,
};
use lockyard_redis::RedisRegister;
use lockyard_redis::testing::RedisHarness;
use lockyard_testbed::{Options, timing};
use support::{acquire, ask, connect, granted, harness, name, queued, try_acquire, two};

const TTL: Duration = Duration::from_secs(5);

/// Redisson keeps a hash under the name of its lock.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_of_another_kind_is_a_clear_error() {
    let harness = harness().await;
    let lock = connect(&harness).await;
    let _: i64 = ask(&harness, &["HSET", "lockyard:a", "thread", "1"]).await;
    for claim in [Claim::new(name("a"), TTL), Claim::new(name("a"), TTL).queueing()] {
        let error = lock.try_acquire(&claim).await.expect_err("no lock");
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::Protocol, Outcome::NotApplied));
        assert!(error.message().contains("lockyard:a"), "{error}");
        assert_eq!(lock.renew(&claim).await.expect("an answer"), Renewal::Lost);
        assert_eq!(lock.release(&claim).await.expect("an answer"), Release::NotHeld);
    }
    let holder = lock.inspect(&name("a")).await.expect("an answer").expect("held");
    assert_eq!((holder.owner, holder.origin.as_deref()), (None, Some("another program")));
    assert_eq!(ask::<i64>(&harness, &["HLEN", "lockyard:a"]).await, 1);
}

/// A foreign lock without an end is waited for, without hurry.
#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_lock_without_expiry_makes_no_busy_loop() {
    let harness = RedisHarness::start_with(Options::new().counting()).await.expect("a server of our own");
    let (server, lock) = (harness.server().expect("our own"), connect(&harness).await);
    let _: String = ask(&harness, &["SET", "lockyard:a", "somebody"]).await;
    let claim = Claim::new(name("a"), Duration::from_secs(2)).queueing();
    let before = server.requests().await.expect("counts");
    let waiting = tokio::spawn({
        let (lock, claim) = (lock.clone(), claim.clone());
        async move { acquire(&lock, &claim).await }
    });
    let clock = Clock::system();
    clock.sleep(Duration::from_secs(2)).await;
    let asked = server.requests().await.expect("counts").since(&before).of("evalsha");
    assert!((2..=6).contains(&asked), "{asked} requests in 2 s");
    let _: i64 = ask(&harness, &["DEL", "lockyard:a"]).await;
    waiting.await.expect("granted");
}

/// Plain SET NX PX clients and lockyard keep each other out.
#[tokio::test(flavor = "multi_thread")]
async fn plain_clients_are_respected_and_respect_us() {
    let harness = harness().await;
    let lock = connect(&harness).await;
    let claim = Claim::new(name("a"), TTL);
    granted(try_acquire(&lock, &claim).await);
    let set = ["SET", "lockyard:a", "theirs", "NX", "PX", "300"];
    assert_eq!(ask::<Option<String>>(&harness, &set).await, None);
    lock.release(&claim).await.expect("an answer");
    assert!(ask::<Option<String>>(&harness, &set).await.is_some());
    assert!(matches!(try_acquire(&lock, &claim).await, Attempt::Busy));
    acquire(&lock, &claim.clone().queueing()).await;
}

/// Tokens rise over a flush, over a counter that is ahead, and stop before they would wrap.
#[tokio::test(flavor = "multi_thread")]
async fn tokens_rise_whatever_happens_to_the_counter() {
    let harness = harness().await;
    let lock = connect(&harness).await;
    let mut last = None;
    let ahead = "00000009007199254730000 x";
    for change in [&["PING"][..], &["FLUSHALL"], &["SET", "{lockyard:a}:token", &ahead[3..]], &["PING"]] {
        let _: redis::Value = ask(&harness, change).await;
        let claim = Claim::new(name("a"), TTL);
        let token = granted(try_acquire(&lock, &claim).await).token;
        assert!(token > last, "{token:?} after {last:?}");
        last = token;
        lock.release(&claim).await.expect("an answer");
    }
    for tampered in ["00009007199254740991", "99999999999999999999", "many"] {
        let _: String = ask(&harness, &["SET", "{lockyard:a}:token", tampered]).await;
        let claim = Claim::new(name("a"), TTL);
        let error = lock.try_acquire(&claim).await.expect_err("no token");
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::Protocol, Outcome::Unknown), "{error}");
        lock.release(&claim).await.expect("an answer");
        assert_eq!(ask::<i64>(&harness, &["EXISTS", "lockyard:a"]).await, 0);
    }
}

/// B75: the primary becomes a replica under a client.
#[tokio::test(flavor = "multi_thread")]
async fn a_primary_that_becomes_a_replica_is_left() {
    let harness = harness().await;
    let lock = connect(&harness).await;
    let hold = Claim::new(name("a"), TTL);
    granted(try_acquire(&lock, &hold).await);
    let _: String = ask(&harness, &["REPLICAOF", "127.0.0.1", "1"]).await;
    let claim = Claim::new(name("b"), TTL);
    let error = lock.renew(&hold).await.expect_err("read only");
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Unreachable, Outcome::NotApplied), "{error}");
    let error = lock.try_acquire(&claim).await.expect_err("a replica");
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::WrongServer, Outcome::NotApplied), "{error}");
    let _: String = ask(&harness, &["REPLICAOF", "NO", "ONE"]).await;
    assert!(matches!(lock.renew(&hold).await.expect("an answer"), Renewal::Renewed { .. }));
    granted(try_acquire(&lock, &claim).await);
}

/// B81: a server that takes no writes answers with an error and never with busy.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_out_of_memory_says_so_and_still_frees() {
    let harness = harness().await;
    let (lock, other) = two(&harness).await;
    let (hold, claim) = (Claim::new(name("a"), TTL), Claim::new(name("a"), TTL).queueing());
    granted(try_acquire(&lock, &hold).await);
    queued(&try_acquire(&other, &claim).await);
    let _: String = ask(&harness, &["CONFIG", "SET", "maxmemory", "1"]).await;
    let error = lock.try_acquire(&Claim::new(name("b"), TTL)).await.expect_err("no memory");
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Capacity, Outcome::NotApplied), "{error}");
    assert!(matches!(lock.renew(&hold).await.expect("an answer"), Renewal::Renewed { .. }));
    assert_eq!(lock.release(&hold).await.expect("an answer"), Release::Released);
    // The lock was handed over all the same.
    let woken = tokio::time::timeout(timing::scaled(Duration::from_secs(2)), other.wait(&claim)).await;
    assert!(woken.expect("in time").is_ok());
    assert_eq!(ask::<String>(&harness, &["GET", "lockyard:a"]).await, claim.owner.to_string());
    let _: String = ask(&harness, &["CONFIG", "SET", "maxmemory", "0"]).await;
    acquire(&other, &claim).await;
}

/// The server goes away and comes back: calls fail while it is gone and work again without a new client.
#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_server_is_found_again() {
    let harness = harness().await;
    let (server, lock) = (harness.server().expect("our own"), connect(&harness).await);
    let claim = Claim::new(name("a"), TTL);
    granted(try_acquire(&lock, &claim).await);
    server.kill().await.expect("killed");
    let began = Clock::system().now();
    let error = lock.try_acquire(&claim).await.expect_err("nobody there");
    assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
    assert!(Clock::system().now().since(began) < timing::scaled(Duration::from_millis(1500)));
    server.restart().await.expect("restarted");
    // Nothing was kept: the holder is told.
    assert_eq!(lock.renew(&claim).await.expect("an answer"), Renewal::Lost);
    granted(try_acquire(&lock, &claim).await);
}

/// With the append-only file always written, locks outlive the server, and the client says so.
#[tokio::test(flavor = "multi_thread")]
async fn an_append_only_file_keeps_locks() {
    let options = Options::new().args(["--appendonly", "yes", "--appendfsync", "always"]);
    let harness = RedisHarness::start_with(options).await.expect("a server of our own");
    let (server, lock) = (harness.server().expect("our own"), connect(&harness).await);
    assert!(lock.capabilities().restart_safe);
    let claim = Claim::new(name("a"), Duration::from_secs(30));
    granted(try_acquire(&lock, &claim).await);
    server.kill().await.expect("killed");
    server.restart().await.expect("restarted");
    assert!(matches!(lock.renew(&claim).await, Ok(Renewal::Renewed { .. })));
}

/// B70: a failover to a replica that lacks the last lock. Two clients hold it until the first one asks; it is told then, and
/// nothing of its own is made anew. What had been replicated is kept.
#[tokio::test(flavor = "multi_thread")]
async fn a_failover_that_lost_a_lock_is_told_at_the_next_renewal() {
    let primary = harness().await;
    let server = primary.server().expect("our own");
    let port = server.addr().port().to_string();
    let replicating = Options::new().args(["--replicaof", "127.0.0.1", &port]);
    let replica = RedisHarness::start_with(replicating).await.expect("a server of our own");
    let lock = connect(&primary).await;
    assert!(!lock.capabilities().failover_safe);
    let (kept, lost) = (Claim::new(name("kept"), TTL * 6), Claim::new(name("lost"), TTL * 6));
    let early = granted(try_acquire(&lock, &kept).await);
    let replicated = timing::eventually(Duration::from_secs(10), async || {
        ask::<i64>(&replica, &["EXISTS", "lockyard:kept"]).await == 1
    });
    replicated.await.expect("the replica follows");
    let _: String = ask(&replica, &["REPLICAOF", "NO", "ONE"]).await;
    let first = granted(try_acquire(&lock, &lost).await);
    server.kill().await.expect("killed");
    let _: String = ask(&replica, &["CONFIG", "SET", "port", &port]).await;

    let next = Claim::new(name("lost"), TTL * 6).queueing();
    let second = acquire(&connect(&primary).await, &next).await;
    assert!(second.token > first.token && second.token > early.token);
    let asked = timing::eventually(Duration::from_secs(10), async || lock.renew(&lost).await.ok());
    assert_eq!(asked.await.expect("the new primary answers"), Renewal::Lost);
    assert!(matches!(lock.renew(&kept).await, Ok(Renewal::Renewed { .. })));
    assert_eq!(ask::<String>(&primary, &["GET", "lockyard:lost"]).await, next.owner.to_string());
}

/// The last client closes its connection and ends its tasks; the lock stays until its ttl.
#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_client_leaves_no_connection() {
    let harness = harness().await;
    let (holder, lock) = two(&harness).await;
    let (hold, claim) = (Claim::new(name("a"), TTL), Claim::new(name("a"), TTL).queueing());
    granted(try_acquire(&holder, &hold).await);
    queued(&try_acquire(&lock, &claim).await);
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    drop((holder, lock));
    let gone = timing::eventually(Duration::from_secs(2), async || {
        let list: String = ask(&harness, &["CLIENT", "LIST"]).await;
        list.lines().count() == 1 && tasks() <= 1
    });
    assert!(gone.await.is_some(), "{} tasks are left", tasks());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_append_only_file_keeps_registers() {
    let options = Options::new().args(["--appendonly", "yes", "--appendfsync", "always"]);
    let harness = RedisHarness::start_with(options).await.expect("a server of our own");
    let server = harness.server().expect("our own");
    let register = RedisRegister::connect(harness.config()).await.expect("connects");
    let (name, token) = (name("a"), FencingToken::from_server(3).expect("small"));
    let _ = register.write(&name, b"kept", token, Version::ABSENT).await.expect("an answer");
    let right = register.read(&name).await.expect("an answer");
    server.kill().await.expect("killed");
    server.restart().await.expect("restarted");
    let found =
        timing::eventually(Duration::from_secs(5), async || register.read(&name).await.ok() == Some(right.clone()));
    assert!(found.await.is_some(), "{right:?} is gone");
    let late = FencingToken::from_server(2).expect("small");
    let answer = register.write(&name, b"late", late, right.version).await.expect("an answer");
    assert_eq!(answer, Write::StaleToken { stored: token });
}

/// What was read before the data was lost is not mistaken for what was written after.
#[tokio::test(flavor = "multi_thread")]
async fn no_version_of_a_register_comes_twice() {
    let harness = harness().await;
    let register = RedisRegister::connect(harness.config()).await.expect("connects");
    let (name, token) = (name("a"), FencingToken::from_server(3).expect("small"));
    let mut seen = Vec::new();
    for _ in 0..3 {
        let answer = register.write(&name, b"x", token, Version::ABSENT).await.expect("an answer");
        let Write::Written { version } = answer else { panic!("{answer:?} where there is nothing") };
        assert!(!seen.contains(&version), "{version} after {seen:?}");
        seen.push(version);
        let _: String = ask(&harness, &["FLUSHALL"]).await;
        let late = register.write(&name, b"late", token, version).await.expect("an answer");
        assert_eq!(late, Write::Conflict { version: Version::ABSENT });
    }
}

/// A key that somebody has spoilt is an error and never a panic.
#[tokio::test(flavor = "multi_thread")]
async fn a_spoilt_register_is_told() {
    let harness = harness().await;
    let register = RedisRegister::connect(harness.config()).await.expect("connects");
    let (name, token) = (name("a"), FencingToken::from_server(3).expect("small"));
    let key = "{lockyard:a}:register";
    for spoil in [
        &["SET", key, "x"][..],
        &["HSET", key, "value", "x"],
        &["HSET", key, "value", "x", "version", "y", "token", "z"],
    ] {
        let _: i64 = ask(&harness, &["DEL", key]).await;
        let _: redis::Value = ask(&harness, spoil).await;
        assert!(register.read(&name).await.is_err(), "{spoil:?} reads");
        let answer = register.write(&name, b"new", token, Version::new(1)).await;
        assert!(!matches!(answer, Ok(Write::Written { .. })), "{spoil:?}: {answer:?}");
    }
}
