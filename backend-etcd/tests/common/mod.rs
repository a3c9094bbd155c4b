//! What the tests share: a server of their own, claims, and the figures that the server gives of itself.

#![allow(dead_code, reason = "each test binary uses its part")]

use std::time::Duration;

use lockyard_api::{
    Attempt, Claim, Clock, DistributedLock, Grant, Liveness, LockName, Moment, Release, SessionWatch, Wake,
};
use lockyard_etcd::EtcdLock;
use lockyard_etcd::testing::EtcdHarness;
use lockyard_testbed::{Options, Server, timing};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The granted length of leases in most tests: long enough for a busy machine.
pub(crate) const TTL: Duration = Duration::from_secs(2);

pub(crate) async fn harness() -> EtcdHarness {
    EtcdHarness::start_with(Options::new().native_only()).await.expect("a server of our own")
}

pub(crate) fn server(harness: &EtcdHarness) -> &Server {
    harness.server().expect("our own")
}

pub(crate) async fn client(harness: &EtcdHarness) -> EtcdLock {
    harness.client().await.expect("connects")
}

pub(crate) fn name(text: &str) -> LockName {
    LockName::new(text).expect("a name")
}

pub(crate) fn claim(text: &str) -> Claim {
    Claim::new(name(text), TTL)
}

pub(crate) async fn granted(lock: &EtcdLock, claim: &Claim) -> Grant {
    match lock.try_acquire(claim).await.expect("an answer") {
        Attempt::Granted(grant) => grant,
        other => panic!("{other:?} where the name is free"),
    }
}

pub(crate) async fn queued(lock: &EtcdLock, claim: &Claim) {
    let attempt = lock.try_acquire(claim).await.expect("an answer");
    assert!(matches!(attempt, Attempt::Queued), "{attempt:?} where the name is held");
}

pub(crate) async fn released(lock: &EtcdLock, claim: &Claim) {
    assert_eq!(lock.release(claim).await.expect("an answer"), Release::Released);
}

/// Waits as the front end does: what may pass is tried again.
pub(crate) async fn acquire(lock: &EtcdLock, claim: &Claim) -> Grant {
    loop {
        match lock.try_acquire(claim).await {
            Ok(Attempt::Granted(grant)) => return grant,
            Ok(Attempt::Queued) => {}
            Err(error) if error.kind().is_transient() => {
                tokio::task::yield_now().await;
                continue;
            }
            other => panic!("{other:?} to a claim that queues"),
        }
        if let Wake::Granted(grant) = lock.wait(claim).await.expect("no error") {
            return grant;
        }
    }
}

pub(crate) use timing::within;

pub(crate) fn watch(grant: &Grant) -> &SessionWatch {
    match &grant.liveness {
        Liveness::Session(watch) => watch,
        other => panic!("{other:?} instead of a session"),
    }
}

/// Until when the holder may count on the hold: the end of the lease as last confirmed.
pub(crate) fn deadline(grant: &Grant) -> Moment {
    let (valid_from, ttl) = watch(grant).lease();
    valid_from.plus(ttl)
}

pub(crate) async fn entries(lock: &EtcdLock, text: &str) -> u64 {
    let holder = lock.inspect(&name(text)).await.expect("an answer");
    holder.map_or(0, |holder| 1 + holder.waiters.unwrap_or_default())
}

pub(crate) async fn rest(time: Duration) {
    Clock::system().sleep(time).await;
}

/// One figure of `/metrics` (<https://etcd.io/docs/v3.4/metrics/>).
pub(crate) async fn metric(server: &Server, figure: &str) -> u64 {
    let mut stream = TcpStream::connect(server.addr()).await.expect("connects");
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").await.expect("writes");
    let mut text = String::new();
    stream.read_to_string(&mut text).await.expect("reads");
    let line = text.lines().find(|line| line.split(' ').next() == Some(figure)).expect("the figure");
    let value: f64 = line.rsplit(' ').next().and_then(|value| value.parse().ok()).expect("a number");
    format!("{value:.0}").parse().expect("a whole number")
}

/// How many watches the server keeps.
pub(crate) async fn watchers(server: &Server) -> u64 {
    metric(server, "etcd_debugging_mvcc_watcher_total").await
}
