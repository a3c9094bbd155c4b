//! What an uncontended acquire and release cost, by the server's own account.

use std::time::Duration;

use lockyard_api::{Attempt, Claim, DistributedLock, LockName, Release};
use lockyard_postgres::testing::PostgresHarness;
use lockyard_postgres::{Mode, PostgresConfig};
use lockyard_testbed::{Options, Requests};

mod support;
use support::{Checked, harness_with};

/// Statements of the simple and of the extended protocol; the steps before `execute` are sent in the same flight.
fn statements(requests: &Requests) -> u64 {
    requests.of("statement") + requests.of("execute")
}

/// The cost of acquire and release on a name that this client has seen before.
async fn cost(mode: Mode) -> Checked<Option<(u64, u64, u64)>> {
    let Some(harness) = harness_with(mode, Options::new().counting()).await? else { return Ok(None) };
    let server = harness.server().ok_or("an own server")?;
    let lock = client(&harness, harness.config()).await?;
    let claim = |name: &LockName| Claim::new(name.clone(), Duration::from_secs(30));
    let name = LockName::new("round trips")?;
    let first = claim(&name);
    assert!(matches!(lock.try_acquire(&first).await?, Attempt::Granted(_)));
    assert_eq!(lock.release(&first).await?, Release::Released);

    let before = server.requests().await?;
    let second = claim(&name);
    assert!(matches!(lock.try_acquire(&second).await?, Attempt::Granted(_)));
    let between = server.requests().await?;
    assert_eq!(lock.release(&second).await?, Release::Released);
    let after = server.requests().await?;
    let (acquire, release) = (between.since(&before), after.since(&between));
    let parsed = acquire.of("parse") + release.of("parse");
    Ok(Some((statements(&acquire), statements(&release), parsed)))
}

async fn client(harness: &PostgresHarness, config: PostgresConfig) -> Checked<lockyard_postgres::PostgresLock> {
    Ok(harness.client(config).await?.0)
}

#[tokio::test]
async fn advisory_costs_one_statement_each_way() -> Checked {
    if let Some(cost) = cost(Mode::Advisory).await? {
        assert_eq!(cost, (1, 1, 0), "statements of acquire and release, and statements parsed");
    }
    Ok(())
}

/// Both requests of the acquire in one flight, and logged as one.
#[tokio::test]
async fn row_costs_one_flight_each_way() -> Checked {
    if let Some(cost) = cost(Mode::Row).await? {
        assert_eq!(cost, (1, 1, 0), "statements of acquire and release, and statements parsed");
    }
    Ok(())
}

#[tokio::test]
async fn lease_costs_one_statement_each_way() -> Checked {
    if let Some(cost) = cost(Mode::Lease).await? {
        assert_eq!(cost, (1, 1, 0), "statements of acquire and release, and statements parsed");
    }
    Ok(())
}
