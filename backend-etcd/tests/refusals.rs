//! What is wrong is said at once, with a remedy and without secrets.

mod common;

use std::time::Duration;

use common::{acquire, claim, granted, harness, name, queued, released, rest, server, watch, within};
use etcd_client::{Client, Permission, PermissionType};
use lockyard_api::{Claim, Clock, DistributedLock, Error, ErrorKind, Outcome, Wake};
use lockyard_etcd::{EtcdConfig, EtcdLock};
use lockyard_testbed::{Options, Server, Service, timing};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

const LONG: Duration = Duration::from_secs(60);

async fn refused(url: &str) -> Error {
    let config = EtcdConfig::from_url(url).expect("a URL");
    let connect = within(Duration::from_secs(8), "refused in time", EtcdLock::connect(config)).await;
    let error = connect.expect_err(url);
    assert_eq!(error.outcome(), Outcome::NotApplied);
    let shown = format!("{error} {error:?}");
    assert!(!shown.contains("s3cret"), "{shown}");
    error
}

fn says(error: &Error, kind: ErrorKind, words: &[&str]) {
    assert_eq!(error.kind(), kind, "{error:?}");
    for word in words {
        assert!(error.message().contains(word), "no {word:?} in: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_there() {
    // Of a listener that was dropped, a process that is just being started may still have a copy.
    let (addr, clock) = ("127.0.0.1:1", Clock::system());
    let began = clock.now();
    says(&refused(&format!("etcd://{addr}")).await, ErrorKind::Unreachable, &[addr, "running"]);
    says(&refused(&format!("etcd://{addr},{addr}")).await, ErrorKind::Unreachable, &[addr]);
    assert!(clock.now().since(began) < timing::scaled(Duration::from_secs(2)), "a refusal needs no timeout");
    let error = refused("etcd://no-such-host.invalid").await;
    says(&error, ErrorKind::Unreachable, &["no-such-host.invalid"]);
}

/// Accepts, and says nothing or this.
async fn answers(text: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
    let addr = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.read(&mut [0; 64]).await;
            let _ = stream.write_all(text.as_bytes()).await;
            open.push(stream);
        }
    });
    addr.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_host() {
    let addr = answers("").await;
    let error = refused(&format!("etcd://{addr}?connect_timeout=500ms")).await;
    says(&error, ErrorKind::Unreachable, &[&addr, "500ms", "connect_timeout"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_protocol() {
    for text in ["-ERR unknown command\r\n-ERR unknown command\r\n", "HTTP/1.1 400 Bad Request\r\n\r\n"] {
        let addr = answers(text).await;
        says(&refused(&format!("etcd://{addr}")).await, ErrorKind::WrongServer, &[&addr, "etcd"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_files_that_are_not_there_and_tls_that_is_not_spoken() {
    let error = refused("etcds://127.0.0.1:1?tls_ca=/no/such/file.pem").await;
    says(&error, ErrorKind::Config, &["tls_ca", "/no/such/file.pem"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_where_there_is_none() {
    let harness = harness().await;
    let addr = server(&harness).addr();
    let error = refused(&format!("etcd://me:s3cret@{addr}")).await;
    says(&error, ErrorKind::Auth, &[&addr.to_string(), "not enabled", "leave user and password"]);
}

/// A server with authentication: `root`, and `app` who may use what lies below `apps/`.
async fn guarded(options: Options) -> Server {
    let server = Server::start_with(Service::Etcd, options.native_only()).await.expect("a server of our own");
    let mut raw = Client::connect([server.url()], None).await.expect("connects");
    raw.user_add("root", "r00t", None).await.expect("adds");
    raw.user_grant_role("root", "root").await.expect("grants");
    raw.user_add("app", "s3cret", None).await.expect("adds");
    raw.role_add("app").await.expect("adds");
    let below = Permission::new(PermissionType::Readwrite, "apps/").with_prefix();
    raw.role_grant_permission("app", below).await.expect("grants");
    raw.user_grant_role("app", "app").await.expect("grants");
    raw.auth_enable().await.expect("enables");
    server
}

#[tokio::test(flavor = "multi_thread")]
async fn logins() {
    let server = guarded(Options::new()).await;
    let addr = server.addr();
    says(&refused(&format!("etcd://{addr}")).await, ErrorKind::Auth, &[&addr.to_string(), "login", "USER"]);
    let wrong = refused(&format!("etcd://app:s3cret-not@{addr}/apps")).await;
    says(&wrong, ErrorKind::Auth, &[&addr.to_string(), "password"]);
    let elsewhere = refused(&format!("etcd://app:s3cret@{addr}/other")).await;
    says(&elsewhere, ErrorKind::Auth, &["readwrite", "role"]);
    let config = EtcdConfig::from_url(&format!("etcd://app:s3cret@{addr}/apps")).expect("a URL");
    assert!(!format!("{config:?}").contains("s3cret"));
    let lock = EtcdLock::connect(config).await.expect("the right login");
    assert!(!format!("{lock:?}").contains("s3cret"));
    let (hold, waiter) = (claim("name"), claim("name").queueing());
    granted(&lock, &hold).await;
    queued(&lock, &waiter).await;
    released(&lock, &hold).await;
    within(Duration::from_secs(5), "the watch may be opened too", acquire(&lock, &waiter)).await;
}

// B115: tokens run out after seconds, and die with the server.
#[tokio::test(flavor = "multi_thread")]
async fn tokens_that_run_out_are_renewed() {
    let server = guarded(Options::new().args(["--auth-token", "simple", "--auth-token-ttl", "2"])).await;
    let url = format!("etcd://app:s3cret@{}/apps", server.addr());
    let (a, b) = (connect(&url).await, connect(&url).await);
    let (hold, waiter) = (Claim::new(name("name"), LONG), Claim::new(name("name"), LONG).queueing());
    let grant = granted(&a, &hold).await;
    queued(&b, &waiter).await;
    // Nothing is sent for longer than a token lives.
    rest(Duration::from_secs(5)).await;
    granted(&a, &claim("other")).await;
    server.restart().await.expect("restarted");
    assert!(watch(&grant).lost().is_none());
    let released = timing::eventually(Duration::from_secs(10), async || a.release(&hold).await.is_ok()).await;
    released.expect("a new login");
    let won = timing::eventually(Duration::from_secs(20), async || {
        matches!(tokio::time::timeout(Duration::from_secs(5), b.wait(&waiter)).await, Ok(Ok(Wake::Granted(_))))
    });
    won.await.expect("the watch logs in again");
}

async fn connect(url: &str) -> EtcdLock {
    EtcdLock::connect(EtcdConfig::from_url(url).expect("a URL")).await.expect("connects")
}
