//! Servers and settings that are refused, with the remedy in the message.

mod support;

use std::time::Duration;

use lockyard_api::{Claim, Clock, DistributedLock, Error, ErrorKind, Kind, Outcome};
use lockyard_redis::testing::RedisHarness;
use lockyard_redis::{RedisConfig, RedisLock};
use lockyard_testbed::{Mode, Options, timing};
use support::{ask, connect, granted, harness, name, try_acquire};

const TTL: Duration = Duration::from_secs(5);

async fn own(args: &[&str]) -> RedisHarness {
    RedisHarness::start_with(Options::new().args(args.iter().copied())).await.expect("a server of our own")
}

async fn refusal(config: RedisConfig) -> Error {
    let error = RedisLock::connect(config).await.expect_err("refused");
    assert_eq!(error.outcome(), Outcome::NotApplied);
    assert!(!format!("{error:?}").contains("s3cret"), "{error:?}");
    error
}

#[track_caller]
fn says(error: &Error, kind: ErrorKind, words: &[&str]) {
    assert_eq!(error.kind(), kind, "{error}");
    for word in words {
        assert!(error.message().contains(word), "{word:?} is missing: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_credentials() {
    let harness = own(&["--requirepass", "s3cret"]).await;
    let port = harness.server().expect("our own").addr().port();
    let plain = RedisConfig::new("127.0.0.1", port);
    let address = format!("127.0.0.1:{port}");
    says(&refusal(plain.clone()).await, ErrorKind::Auth, &[&address, "password"]);
    says(&refusal(plain.clone().credentials(None, "s3cret?")).await, ErrorKind::Auth, &[&address]);
    says(&refusal(plain.clone().credentials(Some("nobody"), "s3cret")).await, ErrorKind::Auth, &[&address]);
    RedisLock::connect(plain.credentials(None, "s3cret")).await.expect("connects");
}

#[tokio::test(flavor = "multi_thread")]
async fn users_who_may_not() {
    let harness = harness().await;
    let port = harness.server().expect("our own").addr().port();
    let user = |user: &str| RedisConfig::new("127.0.0.1", port).credentials(Some(user), "s3cret");
    let rules = ["on", ">s3cret", "~lockyard:*", "~{lockyard:*", "+@all", "-@dangerous"];
    let _: String = ask(&harness, &[&["ACL", "SETUSER", "mute", "resetchannels"][..], &rules].concat()).await;
    let _: String = ask(&harness, &[&["ACL", "SETUSER", "reader", "&*"][..], &rules, &["-evalsha"]].concat()).await;
    let _: String = ask(&harness, &[&["ACL", "SETUSER", "app", "&lockyard:wake:*"][..], &rules].concat()).await;

    let holder = connect(&harness).await;
    let hold = Claim::new(name("a"), TTL);
    granted(try_acquire(&holder, &hold).await);
    let waiter = Claim::new(name("a"), TTL).queueing();
    let mute = RedisLock::connect(user("mute")).await.expect("connects");
    let error = mute.try_acquire(&waiter).await.expect_err("may not listen");
    says(&error, ErrorKind::Auth, &["&lockyard:wake:*"]);
    let reader = RedisLock::connect(user("reader")).await.expect("connects");
    says(&reader.try_acquire(&waiter).await.expect_err("may not"), ErrorKind::Auth, &["ACL"]);

    let app = RedisLock::connect(user("app")).await.expect("connects");
    support::queued(&try_acquire(&app, &waiter).await);
    holder.release(&hold).await.expect("an answer");
    support::acquire(&app, &waiter).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_that_are_not_there() {
    let harness = harness().await;
    let (_lock, proxy) = harness.connect_through_proxy().await.expect("connects");
    let port = proxy.addr().port();
    let config = RedisConfig::new("127.0.0.1", port).connect_timeout(Duration::from_millis(300));
    proxy.set(Mode::Refuse).await;
    says(&refusal(config.clone()).await, ErrorKind::Unreachable, &[&port.to_string(), "check host and port"]);
    proxy.set(Mode::Hold).await;
    let began = Clock::system().now();
    says(&refusal(config.clone()).await, ErrorKind::Unreachable, &[&port.to_string(), "no answer"]);
    assert!(Clock::system().now().since(began) < timing::scaled(Duration::from_millis(900)));
    let error = refusal(RedisConfig::new("no-such-host.invalid", 6379)).await;
    says(&error, ErrorKind::Unreachable, &["no-such-host.invalid"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_that_cannot_hold_locks() {
    let replica = own(&["--replicaof", "127.0.0.1", "1"]).await;
    says(&refusal(replica.config()).await, ErrorKind::WrongServer, &["replica", "primary"]);
    let cluster = own(&["--cluster-enabled", "yes"]).await;
    says(&refusal(cluster.config()).await, ErrorKind::WrongServer, &["cluster"]);
    says(&refusal(harness().await.config().db(99)).await, ErrorKind::Config, &["database"]);
}

/// Something that is no Redis listens there.
#[tokio::test(flavor = "multi_thread")]
async fn servers_that_are_no_redis() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let web = tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let answer = b"HTTP/1.1 400 Bad Request\r\n\r\n";
            let _ = tokio::io::AsyncWriteExt::write_all(&mut client, answer).await;
        }
    });
    let config = RedisConfig::new("127.0.0.1", port).connect_timeout(Duration::from_secs(1));
    says(&refusal(config).await, ErrorKind::WrongServer, &["Redis"]);
    web.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_that_are_not_taken_cost_no_request() {
    let harness = RedisHarness::start_with(Options::new().counting()).await.expect("a server of our own");
    let (server, lock) = (harness.server().expect("our own"), connect(&harness).await);
    let before = server.requests().await.expect("counts");
    let day = Duration::from_secs(24 * 3600);
    for ttl in [Duration::ZERO, Duration::from_millis(9), day + Duration::from_millis(1), Duration::MAX] {
        let error = lock.try_acquire(&Claim::new(name("a"), ttl)).await.expect_err("no such ttl");
        says(&error, ErrorKind::InvalidTtl, &["ttl"]);
    }
    let shared = Claim::new(name("a"), TTL).with_kind(Kind::Shared);
    says(&lock.try_acquire(&shared).await.expect_err("no such kind"), ErrorKind::Unsupported, &["shared"]);
    assert_eq!(server.requests().await.expect("counts").since(&before).total(), 0);
}
