//! What the tests on a server share.

#![allow(dead_code, reason = "each test binary uses its share")]

use std::sync::Arc;
use std::time::Duration;

use lockyard_api::{Attempt, Claim, DistributedLock, Grant, LockName, Owner, Wake};
use lockyard_testbed::{Options, Proxy, Server, Service, require};
use lockyard_zk::testing::ZkHarness;
use lockyard_zk::{ZkConfig, ZkLock};

/// Long enough for anything that should happen at once.
pub(crate) const SOON: Duration = Duration::from_secs(5);
/// A session that no test waits for the end of.
pub(crate) const LONG: Duration = Duration::from_secs(30);

/// A harness over a server that is started like this, `None` where there is none to start.
pub(crate) async fn start(options: Options) -> Option<ZkHarness> {
    let started = Server::start_with(Service::Zookeeper, options.native_only()).await;
    let server = require::or_skip(Service::Zookeeper, started).expect("it starts where it is installed")?;
    Some(ZkHarness::over(server).expect("its own URL is one"))
}

/// The harness's configuration with this session timeout, for tests in which every request is answered some time:
/// a server whose disk stalls for seconds is no fault.
pub(crate) fn config(harness: &ZkHarness, ttl: Duration) -> ZkConfig {
    let mut options = harness.config().options().clone();
    (options.ttl, options.op_timeout, options.connect_timeout) = (ttl, LONG, LONG);
    harness.config().clone().with_options(options)
}

/// A client of [`config`], through a proxy of its own.
pub(crate) async fn client(harness: &ZkHarness, ttl: Duration) -> (Arc<ZkLock>, Arc<Proxy>) {
    connect(harness, config(harness, ttl)).await
}

/// A client of the harness's own configuration with this session timeout, which soon gives up a request: for tests in
/// which answers stay away.
pub(crate) async fn hasty(harness: &ZkHarness, ttl: Duration) -> (Arc<ZkLock>, Arc<Proxy>) {
    let mut options = harness.config().options().clone();
    options.ttl = ttl;
    connect(harness, harness.config().clone().with_options(options)).await
}

async fn connect(harness: &ZkHarness, config: ZkConfig) -> (Arc<ZkLock>, Arc<Proxy>) {
    let (lock, proxy) = harness.client(config).await.expect("the server is there");
    (lock, proxy.expect("the server is ours"))
}

/// A name that nobody has used before.
pub(crate) fn name() -> LockName {
    LockName::new(Owner::random().to_string()).expect("digits are a name")
}

/// A claim on the name that leaves when it is held.
pub(crate) fn claim(name: &LockName) -> Claim {
    Claim::new(name.clone(), LONG)
}

#[track_caller]
pub(crate) fn granted(attempt: lockyard_api::Result<Attempt>) -> Grant {
    match attempt {
        Ok(Attempt::Granted(grant)) => grant,
        other => panic!("should be granted, is {other:?}"),
    }
}

#[track_caller]
pub(crate) fn queued(attempt: lockyard_api::Result<Attempt>) {
    assert!(matches!(attempt, Ok(Attempt::Queued)), "should be queued, is {attempt:?}");
}

#[track_caller]
pub(crate) fn busy(attempt: lockyard_api::Result<Attempt>) {
    assert!(matches!(attempt, Ok(Attempt::Busy)), "should be busy, is {attempt:?}");
}

/// Waits as the front end does.
pub(crate) async fn acquire(lock: &ZkLock, claim: &Claim, limit: Duration) -> Grant {
    let waiting = async {
        loop {
            if let Attempt::Granted(grant) = lock.try_acquire(claim).await.expect("an answer") {
                return grant;
            }
            if let Wake::Granted(grant) = lock.wait(claim).await.expect("an answer") {
                return grant;
            }
        }
    };
    tokio::time::timeout(lockyard_testbed::timing::scaled(limit), waiting).await.expect("the turn comes in time")
}
