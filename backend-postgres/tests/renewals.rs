//! Renewals of the lease table that are asked for together.

use std::future::Future;
use std::time::Duration;

use futures_util::future::join_all;
use lockyard_api::{Claim, DistributedLock, ErrorKind, LockName, Outcome, Release, Renewal};
use lockyard_conformance::{Fault, Harness};
use lockyard_postgres::testing::PostgresHarness;
use lockyard_postgres::{Mode, PostgresLock};
use lockyard_testbed::{Options, Requests, timing};
use sqlx::{AssertSqlSafe, PgConnection, Row};
use tokio::task::JoinSet;

mod support;
use support::{Checked, granted, harness, harness_with, name, with_ttl};

/// A client that waits for long before it gives a statement up.
async fn patient(harness: &PostgresHarness) -> Checked<(PostgresLock, String)> {
    let mut config = harness.config();
    config.options_mut().op_timeout = Duration::from_secs(120);
    Ok(harness.client(config).await?)
}

async fn hold(lock: &PostgresLock, number: usize) -> Checked<Vec<Claim>> {
    let claims: Vec<Claim> = (0..number).map(|_| with_ttl(support::claim(&name()), 300)).collect();
    for grant in join_all(claims.iter().map(|claim| granted(lock, claim))).await {
        grant?;
    }
    Ok(claims)
}

/// Each on a task of its own, as the front end does it; the numbers tell which was answered.
fn renew_all(lock: &PostgresLock, claims: &[Claim]) -> JoinSet<(usize, lockyard_api::Result<Renewal>)> {
    let mut renewing = JoinSet::new();
    for (at, claim) in claims.iter().cloned().enumerate() {
        let lock = lock.clone();
        renewing.spawn(async move { (at, lock.renew(&claim).await) });
    }
    renewing
}

fn renewed(renewal: &Renewal) -> bool {
    matches!(renewal, Renewal::Renewed { .. })
}

/// Locks these rows until the transaction of the connection ends.
async fn lock_rows(harness: &PostgresHarness, claims: &[Claim]) -> Checked<PgConnection> {
    let mut side = harness.side().await?;
    sqlx::raw_sql("BEGIN").execute(&mut side).await?;
    let names: Vec<String> = claims.iter().map(|claim| claim.name.as_str().to_owned()).collect();
    let lock = sqlx::query("SELECT FROM lockyard.lease WHERE name = ANY ($1) FOR UPDATE").bind(names);
    assert_eq!(lock.fetch_all(&mut side).await?.len(), claims.len());
    Ok(side)
}

/// Lets no lease be written until the transaction of the connection ends.
async fn lock_table(harness: &PostgresHarness) -> Checked<PgConnection> {
    let mut side = harness.side().await?;
    sqlx::raw_sql("BEGIN; LOCK TABLE lockyard.lease IN EXCLUSIVE MODE").execute(&mut side).await?;
    Ok(side)
}

/// Waits until at least so many statements of this client wait for a lock.
async fn stuck(harness: &PostgresHarness, client: &str, number: i64) -> Checked {
    let mut side = harness.side().await?;
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND wait_event_type = 'Lock'";
    timing::within(Duration::from_secs(30), "a statement that waits for a lock", async {
        loop {
            let row = sqlx::query(sql).bind(client.to_owned()).fetch_one(&mut side).await?;
            if row.try_get::<i64, _>(0)? >= number {
                return Checked::Ok(());
            }
        }
    })
    .await
}

fn statements(requests: &Requests) -> u64 {
    requests.of("statement") + requests.of("execute")
}

/// On one thread all have asked before the first statement is sent, but for those that the runtime puts off.
#[tokio::test]
async fn holds_renewed_together_cost_few_statements() -> Checked {
    const HELD: usize = 600;
    let Some(harness) = harness_with(Mode::Lease, Options::new().counting()).await? else { return Ok(()) };
    let server = harness.server().ok_or("an own server")?;
    let lock = patient(&harness).await?.0;
    let claims = hold(&lock, HELD).await?;
    let before = server.requests().await?;
    let mut renewing = renew_all(&lock, &claims);
    let mut answered = 0;
    while let Some(answer) = renewing.join_next().await {
        assert!(renewed(&answer?.1?));
        answered += 1;
    }
    let cost = server.requests().await?.since(&before);
    assert_eq!(answered, HELD);
    // At most 500 go in one.
    assert!((2..=12).contains(&statements(&cost)), "{cost:?}");
    Ok(())
}

/// Two threads: the statements are sent while the others still ask.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_of_those_renewed_together_has_its_full_lease() -> Checked {
    let Some(harness) = harness(Mode::Lease).await? else { return Ok(()) };
    let lock = patient(&harness).await?.0;
    let mut claims = hold(&lock, 200).await?;
    for (at, claim) in claims.iter_mut().enumerate() {
        claim.ttl = Duration::from_secs(1000 + 10 * at as u64);
    }
    let now = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::int8";
    let before: i64 = sqlx::query(now).fetch_one(&mut harness.side().await?).await?.try_get(0)?;
    let mut renewing = renew_all(&lock, &claims);
    while let Some(answer) = renewing.join_next().await {
        let (at, answer) = answer?;
        assert!(matches!(answer?, Renewal::Renewed { ttl, .. } if ttl == claims[at].ttl));
    }
    let ends = "SELECT name, (extract(epoch FROM expires_at) * 1000)::int8 FROM lockyard.lease";
    for row in sqlx::query(ends).fetch_all(&mut harness.side().await?).await? {
        let (name, end): (String, i64) = (row.try_get(0)?, row.try_get(1)?);
        let claim = claims.iter().find(|claim| claim.name.as_str() == name).ok_or("an unknown row")?;
        assert!(u128::try_from(end - before)? >= claim.ttl.as_millis(), "a short lease: {claim:?} {}", end - before);
    }
    Ok(())
}

#[tokio::test]
async fn a_renewal_alone_costs_one_statement() -> Checked {
    let Some(harness) = harness_with(Mode::Lease, Options::new().counting()).await? else { return Ok(()) };
    let server = harness.server().ok_or("an own server")?;
    let lock = harness.client(harness.config()).await?.0;
    let claims = hold(&lock, 1).await?;
    assert!(renewed(&lock.renew(&claims[0]).await?));
    let before = server.requests().await?;
    assert!(renewed(&lock.renew(&claims[0]).await?));
    let cost = server.requests().await?.since(&before);
    assert_eq!((statements(&cost), cost.of("parse")), (1, 0), "{cost:?}");
    Ok(())
}

/// More rows than the client has connections for statements.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_somebody_has_locked_hold_up_nobody_else() -> Checked {
    const LOCKED: usize = 6;
    let Some(harness) = harness(Mode::Lease).await? else { return Ok(()) };
    let (lock, client) = patient(&harness).await?;
    let claims = hold(&lock, 40).await?;
    let mut side = lock_rows(&harness, &claims[..LOCKED]).await?;
    let mut renewing = renew_all(&lock, &claims);
    for _ in LOCKED..claims.len() {
        let (at, answer) = renewing.join_next().await.ok_or("an answer")??;
        assert!(at >= LOCKED, "{at} was renewed while its row was locked");
        assert!(renewed(&answer?));
    }
    stuck(&harness, &client, 1).await?;
    // Neither what is asked for now.
    let mut again = renew_all(&lock, &claims[LOCKED..]);
    while let Some(answer) = again.join_next().await {
        assert!(renewed(&answer?.1?));
    }
    assert_eq!(lock.release(&claims[LOCKED]).await?, Release::Released);
    assert_eq!(renewing.len(), LOCKED);
    sqlx::raw_sql("COMMIT").execute(&mut side).await?;
    while let Some(answer) = renewing.join_next().await {
        assert!(renewed(&answer?.1?));
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_hold_is_told_to_its_own_alone() -> Checked {
    let Some(harness) = harness(Mode::Lease).await? else { return Ok(()) };
    let lock = patient(&harness).await?.0;
    let mut claims = hold(&lock, 30).await?;
    // Deleted, given to another owner, run out, never held.
    assert!(matches!(harness.revoke(&claims[3]).await, Fault::Done));
    for (at, set) in [(5, "owner = 'somebody'"), (7, "expires_at = clock_timestamp()")] {
        let sql = format!("UPDATE lockyard.lease SET {set} WHERE name = $1");
        let update = sqlx::query(AssertSqlSafe(sql)).bind(claims[at].name.as_str().to_owned());
        update.execute(&mut harness.side().await?).await?;
    }
    claims.push(support::claim(&name()));
    let lost = [3, 5, 7, claims.len() - 1];
    let mut renewing = renew_all(&lock, &claims);
    while let Some(answer) = renewing.join_next().await {
        let (at, answer) = answer?;
        assert_eq!(answer? == Renewal::Lost, lost.contains(&at), "{at}");
    }
    Ok(())
}

/// Polls each once and drops those that this says.
async fn ask_and_drop<F: Future>(futures: Vec<F>, goes: impl Fn(usize) -> bool) -> Vec<std::pin::Pin<Box<F>>> {
    let mut futures: Vec<_> = futures.into_iter().map(Box::pin).collect();
    for future in &mut futures {
        assert!(futures_util::poll!(future).is_pending());
    }
    tokio::task::yield_now().await;
    let kept = futures.into_iter().enumerate().filter(|(at, _)| !goes(*at));
    kept.map(|(_, future)| future).collect()
}

/// Of those whose statement is under way, and of those that wait for the next one; the first one too, who made it begin.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_is_dropped_harms_none_of_the_others() -> Checked {
    let Some(harness) = harness(Mode::Lease).await? else { return Ok(()) };
    let (lock, client) = patient(&harness).await?;
    let claims = hold(&lock, 60).await?;
    let mut side = lock_table(&harness).await?;
    let under_way = ask_and_drop(claims[..30].iter().map(|claim| lock.renew(claim)).collect(), |_| false).await;
    stuck(&harness, &client, 1).await?;
    let waiting = ask_and_drop(claims[30..].iter().map(|claim| lock.renew(claim)).collect(), |at| at % 2 == 0).await;
    let under_way: Vec<_> = under_way.into_iter().enumerate().filter(|(at, _)| at % 2 == 1).map(|(_, f)| f).collect();
    sqlx::raw_sql("COMMIT").execute(&mut side).await?;
    let answers = join_all(under_way.into_iter().chain(waiting)).await;
    assert_eq!(answers.len(), 30);
    for answer in answers {
        assert!(renewed(&answer?));
    }
    // Nor itself: the lease is where it was.
    for claim in &claims {
        assert!(renewed(&lock.renew(claim).await?));
        assert_eq!(lock.release(claim).await?, Release::Released);
        assert_eq!(lock.renew(claim).await?, Renewal::Lost);
    }
    Ok(())
}

/// What was asked for does not keep the client: its connections close while the server has not answered yet.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_goes_leaves_no_renewal_behind() -> Checked {
    let Some(harness) = harness(Mode::Lease).await? else { return Ok(()) };
    let mut config = harness.config();
    config.options_mut().op_timeout = Duration::from_secs(120);
    let (lock, client, proxy) = harness.client_through_proxy(config).await?;
    let claims = hold(&lock, 10).await?;
    let mut side = lock_table(&harness).await?;
    let kept = ask_and_drop(claims.iter().map(|claim| lock.renew(claim)).collect(), |_| false).await;
    stuck(&harness, &client, 1).await?;
    assert!(proxy.connections() > 0);
    drop(kept);
    drop(lock);
    let closed = || async { proxy.connections() == 0 };
    timing::eventually(Duration::from_secs(30), closed).await.ok_or("connections are left")?;
    sqlx::raw_sql("COMMIT").execute(&mut side).await?;
    Ok(())
}

/// Refuses to write one name.
fn refuse(name: &LockName) -> String {
    format!(
        "CREATE FUNCTION lockyard.refuse() RETURNS trigger LANGUAGE plpgsql AS \
         $$ BEGIN RAISE EXCEPTION 'refused'; END $$; \
         CREATE TRIGGER refuse BEFORE UPDATE ON lockyard.lease FOR EACH ROW WHEN (OLD.name = '{name}') \
         EXECUTE FUNCTION lockyard.refuse()"
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_server_refuses_for_one_is_told_to_that_one() -> Checked {
    let Some(harness) = harness(Mode::Lease).await? else { return Ok(()) };
    let lock = patient(&harness).await?.0;
    let claims = hold(&lock, 30).await?;
    let sql = refuse(&claims[4].name);
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut harness.side().await?).await?;
    let mut renewing = renew_all(&lock, &claims);
    while let Some(answer) = renewing.join_next().await {
        let (at, answer) = answer?;
        match answer {
            Ok(renewal) => assert!(at != 4 && renewed(&renewal), "{at}"),
            Err(error) => {
                assert!(at == 4 && error.to_string().contains("refused"), "{at}: {error}");
                assert_eq!(error.outcome(), Outcome::NotApplied);
            }
        }
    }
    Ok(())
}

/// All are told, each of its own, and none takes it for lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_does_not_answer_is_told_to_all() -> Checked {
    let Some(harness) = harness(Mode::Lease).await? else { return Ok(()) };
    let lock = harness.client(harness.config()).await?.0;
    let claims = hold(&lock, 20).await?;
    let server = harness.server().ok_or("own")?;
    server.freeze().await?;
    let mut renewing = renew_all(&lock, &claims);
    while let Some(answer) = renewing.join_next().await {
        let error = answer?.1.err().ok_or("renewed by nobody")?;
        assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
    }
    server.thaw().await?;
    for answer in join_all(claims.iter().map(|claim| lock.renew(claim))).await {
        assert!(renewed(&answer?));
    }
    Ok(())
}
