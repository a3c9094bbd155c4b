//! What an uncontended acquire and release cost, by the server's own account.

use std::time::Duration;

use lockyard_api::{Attempt, Claim, DistributedLock, FencedRegister, FencingToken, LockName, Release, Version, Write};
use lockyard_postgres::testing::PostgresHarness;
use lockyard_postgres::{Mode, PostgresConfig, PostgresRegister};
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

#[tokio::test]
async fn a_register_costs_one_statement_each_way() -> Checked {
    let Some(harness) = harness_with(Mode::Advisory, Options::new().counting()).await? else { return Ok(()) };
    let server = harness.server().ok_or("an own server")?;
    let register = PostgresRegister::connect(harness.config()).await?;
    let (name, token) = (LockName::new("round trips")?, FencingToken::new(768)?);
    assert!(matches!(register.write(&name, b"1", token, Version::ABSENT).await?, Write::Written { .. }));
    let version = register.read(&name).await?.version;

    let before = server.requests().await?;
    let _ = register.read(&name).await?;
    let between = server.requests().await?;
    let (stale, conflict) = (FencingToken::new(0)?, Version::ABSENT);
    for (token, expected) in [(stale, version), (token, conflict), (token, version)] {
        let _ = register.write(&name, b"2", token, expected).await?;
    }
    let writes = server.requests().await?.since(&between);
    let read = between.since(&before);
    assert_eq!((statements(&read), statements(&writes)), (1, 3));
    assert_eq!(read.of("parse") + writes.of("parse"), 0);
    Ok(())
}
