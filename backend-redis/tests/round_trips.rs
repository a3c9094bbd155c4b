//! What a cycle costs, as the server counts it.

use std::time::Duration;

use lockyard_api::{Attempt, Claim, DistributedLock, FencedRegister, FencingToken, LockName, Release, Version, Write};
use lockyard_redis::testing::RedisHarness;
use lockyard_redis::{RedisLock, RedisRegister};
use lockyard_testbed::{Options, Server};

const TTL: Duration = Duration::from_secs(30);

async fn counting() -> RedisHarness {
    RedisHarness::start_with(Options::new().counting()).await.expect("a server of our own")
}

/// The requests of clients that the server executes meanwhile.
async fn requests<T>(server: &Server, work: impl Future<Output = T>) -> (Vec<(String, u64)>, T) {
    let before = server.requests().await.expect("counts");
    let result = work.await;
    let counted = server.requests().await.expect("counts").since(&before);
    (counted.iter().map(|(method, count)| (method.to_owned(), count)).collect(), result)
}

async fn cycle(lock: &RedisLock, claim: &Claim) {
    assert!(matches!(lock.try_acquire(claim).await.expect("an answer"), Attempt::Granted(_)));
    assert_eq!(lock.release(claim).await.expect("an answer"), Release::Released);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_uncontended_cycle_is_one_request_each_way() {
    let harness = counting().await;
    let server = harness.server().expect("our own");
    let lock = RedisLock::connect(harness.config()).await.expect("connects");
    let name = LockName::new("seen").expect("a name");
    cycle(&lock, &Claim::new(name.clone(), TTL)).await;
    for claim in [Claim::new(name.clone(), TTL), Claim::new(name.clone(), TTL).queueing()] {
        let (acquire, attempt) = requests(server, lock.try_acquire(&claim)).await;
        assert!(matches!(attempt.expect("an answer"), Attempt::Granted(_)));
        assert_eq!(acquire, [("evalsha".to_owned(), 1)], "acquire, {:?}", claim.if_busy);
        let (release, _) = requests(server, lock.release(&claim)).await;
        assert_eq!(release, [("evalsha".to_owned(), 1)], "release, {:?}", claim.if_busy);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_contention_subscribes_and_later_ones_do_not() {
    let harness = counting().await;
    let server = harness.server().expect("our own");
    let (a, b) = (RedisLock::connect(harness.config()).await, RedisLock::connect(harness.config()).await);
    let (a, b) = (a.expect("connects"), b.expect("connects"));
    let name = LockName::new("held").expect("a name");
    let holder = Claim::new(name.clone(), TTL);
    cycle(&a, &holder).await;
    assert!(matches!(a.try_acquire(&holder).await.expect("an answer"), Attempt::Granted(_)));
    let waiter = Claim::new(name.clone(), TTL).queueing();
    let (first, _) = requests(server, b.try_acquire(&waiter)).await;
    assert_eq!(first, [("evalsha".to_owned(), 2), ("subscribe".to_owned(), 1)]);
    let second = Claim::new(name, TTL).queueing();
    let (next, _) = requests(server, b.try_acquire(&second)).await;
    assert_eq!(next, [("evalsha".to_owned(), 1)]);
    // The hand-over needs no request of the waiter.
    let (handed, _) = requests(server, async { tokio::join!(b.wait(&waiter), a.release(&holder)) }).await;
    assert_eq!(handed, [("evalsha".to_owned(), 1)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_register_is_one_request_each_way() {
    let harness = counting().await;
    let server = harness.server().expect("our own");
    let register = RedisRegister::connect(harness.config()).await.expect("connects");
    let (name, token) = (LockName::new("seen").expect("a name"), FencingToken::new(768).expect("small"));
    let first = register.write(&name, b"1", token, Version::ABSENT).await.expect("an answer");
    assert!(matches!(first, Write::Written { .. }), "{first:?}");
    let _ = register.read(&name).await.expect("an answer");
    let (read, found) = requests(server, register.read(&name)).await;
    assert_eq!(read, [("evalsha".to_owned(), 1)]);
    let version = found.expect("an answer").version;
    for (token, expected) in
        [(token, Version::ABSENT), (FencingToken::new(0).expect("small"), version), (token, version)]
    {
        let (write, answer) = requests(server, register.write(&name, b"2", token, expected)).await;
        assert_eq!(write, [("evalsha".to_owned(), 1)], "{answer:?}");
    }
}
