//! How many sessions a client keeps.

use std::time::Duration;

use lockyard_api::{Attempt, DistributedLock, ErrorKind, Outcome, Release};
use lockyard_postgres::{Mode, PostgresConfig};
use lockyard_testbed::timing;
use sqlx::Row;
use tokio::sync::Mutex;

mod support;
use support::{Checked, claim, granted, harness, name, with_ttl};

/// Beyond the limit an acquire fails at once, and what is held stays.
#[tokio::test]
async fn the_limit_of_sessions_is_a_capacity() -> Checked {
    let Some(harness) = harness(Mode::Advisory).await? else { return Ok(()) };
    let url = format!("{}?max_sessions=2&ttl=5s", harness.server().ok_or("own")?.lock_url());
    let (lock, other) =
        (harness.client(PostgresConfig::from_url(&url)?).await?.0, harness.client(harness.config()).await?.0);
    let (first, second) = (name(), name());
    granted(&other, &claim(&first)).await?;
    granted(&other, &claim(&second)).await?;
    let waiting = claim(&first).queueing();
    assert!(matches!(lock.try_acquire(&waiting).await?, Attempt::Queued));
    let error = lock.try_acquire(&claim(&second).queueing()).await.expect_err("no session left");
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Capacity, Outcome::NotApplied), "{error}");
    assert!(error.message().contains("max_sessions"), "{error}");
    assert_eq!(lock.release(&waiting).await?, Release::Released);
    let retry = claim(&second).queueing();
    let again = || async { matches!(lock.try_acquire(&retry).await, Ok(Attempt::Queued)) };
    timing::eventually(Duration::from_secs(5), again).await.ok_or("the session was not given back")?;
    Ok(())
}

/// A session that nobody uses any more gives way to one of another ttl.
#[tokio::test]
async fn spare_sessions_keep_nobody_out() -> Checked {
    let Some(harness) = harness(Mode::Row).await? else { return Ok(()) };
    let url = format!("{}?lock=row&max_sessions=2&ttl=5s", harness.server().ok_or("own")?.lock_url());
    let lock = harness.client(PostgresConfig::from_url(&url)?).await?.0;
    for ttl in [5, 20, 5] {
        let claims = [with_ttl(claim(&name()), ttl), with_ttl(claim(&name()), ttl)];
        for claim in &claims {
            granted(&lock, claim).await?;
        }
        let error = lock.try_acquire(&with_ttl(claim(&name()), ttl)).await.expect_err("both sessions hold");
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::Capacity, Outcome::NotApplied), "{error}");
        for claim in &claims {
            assert_eq!(lock.release(claim).await?, Release::Released);
        }
    }
    Ok(())
}

/// Many holds at a time need many sessions; those that nobody uses again are closed.
#[tokio::test]
async fn sessions_that_are_too_many_go() -> Checked {
    const MANY: usize = 12;
    let Some(harness) = harness(Mode::Row).await? else { return Ok(()) };
    let url = format!("{}?lock=row&sessions=2&ttl=60s", harness.server().ok_or("own")?.lock_url());
    let (lock, application) = harness.client(PostgresConfig::from_url(&url)?).await?;
    let claims: Vec<_> = (0..MANY).map(|_| with_ttl(claim(&name()), 60)).collect();
    let side = Mutex::new(harness.side().await?);
    let open = || async {
        let count = sqlx::query("SELECT count(*) FROM pg_stat_activity WHERE application_name = $1").bind(&application);
        let row = count.fetch_one(&mut *side.lock().await).await.ok()?;
        row.try_get::<i64, _>(0).ok()
    };
    for claim in &claims {
        granted(&lock, claim).await?;
    }
    let most = open().await;
    assert!(most >= Some(i64::try_from(MANY)?), "{most:?} sessions hold {MANY} rows");
    for claim in &claims {
        assert_eq!(lock.release(claim).await?, Release::Released);
    }
    // What is left is two spares and the side connection.
    timing::eventually(Duration::from_secs(20), || async { open().await.is_some_and(|open| open <= 3) })
        .await
        .ok_or("sessions that nobody needs stay")?;
    granted(&lock, &claims[0]).await?;
    Ok(())
}
