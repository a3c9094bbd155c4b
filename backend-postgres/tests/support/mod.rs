//! What the tests of this crate share.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::error::Error;
use std::time::Duration;

use lockyard_api::{Attempt, Claim, DistributedLock, Grant, LockName, Wake};
use lockyard_conformance::NoHarness;
use lockyard_postgres::Mode;
use lockyard_postgres::testing::PostgresHarness;
use lockyard_testbed::{Options, require};

pub(crate) type Checked<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

/// A harness over an own server, or `None` after saying why there is none.
pub(crate) async fn harness_with(mode: Mode, options: Options) -> Checked<Option<PostgresHarness>> {
    match PostgresHarness::start_with(mode, options).await {
        Ok(harness) => Ok(Some(harness)),
        Err(NoHarness::Skip(reason)) if !require::required(lockyard_testbed::Service::Postgres) => {
            eprintln!("SKIPPED: {reason}");
            Ok(None)
        }
        Err(no) => Err(format!("{no:?}").into()),
    }
}

/// As [`harness_with`], plain.
pub(crate) async fn harness(mode: Mode) -> Checked<Option<PostgresHarness>> {
    harness_with(mode, Options::new().native_only()).await
}

/// A name that nobody has used before.
pub(crate) fn name() -> LockName {
    LockName::new(format!("test-{:016x}", fastrand::u64(..))).expect("digits are a name")
}

/// A claim of some seconds.
pub(crate) fn claim(name: &LockName) -> Claim {
    Claim::new(name.clone(), Duration::from_secs(5))
}

/// The same claim with this ttl.
pub(crate) fn with_ttl(mut claim: Claim, seconds: u64) -> Claim {
    claim.ttl = Duration::from_secs(seconds);
    claim
}

pub(crate) async fn granted(lock: &dyn DistributedLock, claim: &Claim) -> Checked<Grant> {
    match lock.try_acquire(claim).await? {
        Attempt::Granted(grant) => Ok(grant),
        other => Err(format!("{other:?} instead of a grant").into()),
    }
}

pub(crate) async fn busy(lock: &dyn DistributedLock, claim: &Claim) -> Checked {
    match lock.try_acquire(claim).await? {
        Attempt::Busy => Ok(()),
        other => Err(format!("{other:?} instead of busy").into()),
    }
}

/// Waits as the front end does.
pub(crate) async fn acquire(lock: &dyn DistributedLock, claim: &Claim, limit: Duration) -> Checked<Grant> {
    let waiting = async {
        loop {
            match lock.try_acquire(claim).await? {
                Attempt::Granted(grant) => return Ok(grant),
                Attempt::Queued => {}
                other => return Err(format!("{other:?}: the claim does not queue").into()),
            }
            if let Wake::Granted(grant) = lock.wait(claim).await? {
                return Ok(grant);
            }
        }
    };
    tokio::time::timeout(lockyard_testbed::timing::scaled(limit), waiting).await.map_err(|_| "not granted in time")?
}
