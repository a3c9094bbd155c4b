//! The traps of session-level advisory locks. The numbers in the comments are field cases.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lockyard_api::{
    Attempt, Clock, DistributedLock, ErrorKind, Liveness, LockName, LostReason, Outcome, Release, Renewal,
};
use lockyard_conformance::Harness;
use lockyard_postgres::{Mode, PostgresConfig};
use lockyard_testbed::{Options, timing};
use sqlx::{Connection, Row};
use tokio::task::JoinSet;

mod support;
use support::{Checked, acquire, busy, claim, granted, harness, harness_with, name, with_ttl};

/// B23: an acquire that was given up while it waited leaves nothing, neither now nor when the holder gives the name back.
#[tokio::test]
async fn a_wait_that_was_given_up_becomes_no_hold() -> Checked {
    let Some(harness) = harness(Mode::Advisory).await? else { return Ok(()) };
    let (holder, a, c) = three(&harness).await?;
    let name = name();
    let (first, waiting, third) = (claim(&name), claim(&name).queueing(), claim(&name));
    granted(&holder, &first).await?;
    assert!(matches!(a.try_acquire(&waiting).await?, Attempt::Queued));
    let given_up = tokio::time::timeout(Duration::from_millis(300), a.wait(&waiting)).await;
    assert!(given_up.is_err(), "the name is held");
    assert_eq!(a.release(&waiting).await?, Release::Released);
    assert_eq!(harness.entries(&name).await, Some(1), "the holder alone");
    holder.release(&first).await?;
    granted(&c, &third).await?;
    assert_eq!(harness.entries(&name).await, Some(1));
    Ok(())
}

/// B26: whoever gives up at the very moment of the grant holds nothing afterwards.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn giving_up_as_the_grant_comes_leaves_no_hold() -> Checked {
    let Some(harness) = harness(Mode::Advisory).await? else { return Ok(()) };
    let (holder, waiter, _) = three(&harness).await?;
    let mut side = harness.side().await?;
    for round in 0..100_u64 {
        let name = LockName::new(format!("pg:{}", 7_000_000 + round))?;
        let (first, second) = (claim(&name), claim(&name).queueing());
        granted(&holder, &first).await?;
        assert!(matches!(waiter.try_acquire(&second).await?, Attempt::Queued));
        let late = Duration::from_micros(round * 17 % 700);
        let give_up = async {
            Clock::system().sleep(late).await;
            waiter.release(&second).await
        };
        let (released, given_up) = tokio::join!(holder.release(&first), give_up);
        assert_eq!(released?, Release::Released);
        given_up?;
        let held: i64 =
            sqlx::query("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = $1::int8::oid")
                .bind(7_000_000 + i64::try_from(round)?)
                .fetch_one(&mut side)
                .await?
                .try_get(0)?;
        assert_eq!(held, 0, "round {round}");
    }
    Ok(())
}

/// B63: two names with the same key contend, inside one client as well, and neither is taken for the other.
#[tokio::test]
async fn names_with_the_same_key_contend() -> Checked {
    let Some(harness) = harness(Mode::Advisory).await? else { return Ok(()) };
    let (a, b, _) = three(&harness).await?;
    let first = claim(&name());
    granted(&a, &first).await?;
    let row =
        sqlx::query("SELECT (classid::int8 << 32) | objid::int8 FROM pg_locks WHERE locktype = 'advisory' AND granted");
    let key: i64 = row.fetch_one(&mut harness.side().await?).await?.try_get(0)?;
    let other = LockName::new(format!("pg:{key}"))?;
    busy(&b, &claim(&other)).await?;
    busy(&a, &claim(&other)).await?;
    assert_eq!(a.renew(&claim(&other)).await?, Renewal::Lost);
    assert_eq!(a.release(&claim(&other)).await?, Release::NotHeld);
    let queueing = claim(&other).queueing();
    assert!(matches!(a.try_acquire(&queueing).await?, Attempt::Queued), "no false success, and no hang");
    a.release(&first).await?;
    acquire(&a, &queueing, Duration::from_secs(5)).await?;
    Ok(())
}

/// B89, B102: a session that is ended is told at once, long before its heartbeat, and its release is no success.
#[tokio::test]
async fn an_ended_session_is_told_at_once() -> Checked {
    let Some(harness) = harness(Mode::Advisory).await? else { return Ok(()) };
    let client = harness.connect().await?;
    let claim = with_ttl(claim(&name()), 60);
    let grant = granted(&*client.lock, &claim).await?;
    let Liveness::Session(watch) = grant.liveness else { return Err("no session".into()) };
    assert_eq!(harness.end_session(&client).await, lockyard_conformance::Fault::Done);
    let told = || async { watch.lost() == Some(LostReason::SessionEnded) };
    timing::eventually(Duration::from_secs(3), told).await.ok_or("told neither at once nor soon")?;
    assert_eq!(client.lock.renew(&claim).await?, Renewal::Lost);
    let again = client.lock.try_acquire(&claim).await.expect_err("another session");
    assert_eq!(again.kind(), ErrorKind::SessionChanged);
    assert_eq!(client.lock.release(&claim).await?, Release::NotHeld);
    granted(&*client.lock, &support::claim(&claim.name)).await?;
    Ok(())
}

/// B91: tasks of one client that share a session exclude each other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_of_one_client_exclude_each_other() -> Checked {
    let Some(harness) = harness(Mode::Advisory).await? else { return Ok(()) };
    let mut config = PostgresConfig::from_url(&format!("{}?sessions=1", harness.server().ok_or("own")?.lock_url()))?;
    config.options_mut().op_timeout = Duration::from_secs(20);
    let lock = Arc::new(harness.client(config).await?.0);
    let (name, inside, grants) = (name(), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut tasks = JoinSet::new();
    for _ in 0..4 {
        let (lock, name, inside, grants) = (Arc::clone(&lock), name.clone(), Arc::clone(&inside), Arc::clone(&grants));
        tasks.spawn(async move {
            for _ in 0..250 {
                let claim = claim(&name);
                match lock.try_acquire(&claim).await? {
                    Attempt::Granted(_) => {
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two hold the name");
                        grants.fetch_add(1, Ordering::SeqCst);
                        tokio::task::yield_now().await;
                        inside.fetch_sub(1, Ordering::SeqCst);
                        assert_eq!(lock.release(&claim).await?, Release::Released);
                    }
                    _ => tokio::task::yield_now().await,
                }
            }
            Checked::Ok(())
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    assert!(grants.load(Ordering::SeqCst) > 0);
    assert_eq!(harness.entries(&name).await, Some(0));
    Ok(())
}

/// B99: what the role or the database sets for its statements does not end a wait.
#[tokio::test]
async fn timeouts_of_the_role_do_not_end_a_wait() -> Checked {
    let Some(harness) = harness(Mode::Advisory).await? else { return Ok(()) };
    let mut side = harness.side().await?;
    for setting in ["lock_timeout = '200ms'", "statement_timeout = '300ms'", "idle_session_timeout = '400ms'"] {
        sqlx::raw_sql(sqlx::AssertSqlSafe(format!("ALTER ROLE postgres SET {setting}"))).execute(&mut side).await?;
    }
    let (holder, waiter, _) = three(&harness).await?;
    let name = name();
    let (first, second) = (claim(&name), claim(&name).queueing());
    granted(&holder, &first).await?;
    let hold = async {
        Clock::system().sleep(Duration::from_millis(1500)).await;
        Checked::Ok(holder.release(&first).await?)
    };
    let (released, waited) = tokio::join!(hold, acquire(&waiter, &second, Duration::from_secs(10)));
    assert_eq!(released?, Release::Released);
    waited?;
    Ok(())
}

/// B101: where the server's lock table ends is told as such; what was taken before stays, and the client goes on.
#[tokio::test]
async fn a_full_lock_table_is_a_capacity() -> Checked {
    let small = ["-c", "max_connections=10", "-c", "max_locks_per_transaction=10", "-c", "max_worker_processes=0"];
    let options = Options::new().native_only().args(small);
    let Some(harness) = harness_with(Mode::Advisory, options).await? else { return Ok(()) };
    let lock = harness.client(harness.config()).await?.0;
    let mut held = Vec::new();
    let error = loop {
        assert!(held.len() < 20_000, "the lock table has no end");
        let claim = with_ttl(claim(&name()), 30);
        match lock.try_acquire(&claim).await {
            Ok(Attempt::Granted(_)) => held.push(claim),
            Ok(other) => return Err(format!("{other:?}").into()),
            Err(error) => break error,
        }
    };
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Capacity, Outcome::NotApplied), "{error}");
    assert!(error.message().contains("max_locks_per_transaction"), "{error}");
    assert!(matches!(lock.renew(&held[0]).await?, Renewal::Renewed { .. }));
    for claim in held.drain(..).take(20) {
        assert_eq!(lock.release(&claim).await?, Release::Released);
    }
    granted(&lock, &claim(&name())).await?;
    Ok(())
}

/// Other programs' locks are joined by their numbers.
#[tokio::test]
async fn literal_names_meet_other_programs() -> Checked {
    let Some(harness) = harness(Mode::Advisory).await? else { return Ok(()) };
    let lock = harness.client(harness.config()).await?.0;
    let mut program = harness.side().await?;
    let (one, two) = (LockName::new("pg:42")?, LockName::new("pg:1,2")?);
    sqlx::raw_sql("SELECT pg_advisory_lock(42), pg_advisory_lock(1, 2)").execute(&mut program).await?;
    busy(&lock, &claim(&one)).await?;
    busy(&lock, &claim(&two)).await?;
    let holder = lock.inspect(&one).await?.ok_or("it is held")?;
    assert!(holder.owner.is_none() && holder.origin.is_some_and(|origin| origin.contains("lockyard harness")));
    program.close().await?;
    let free = || async { matches!(lock.try_acquire(&claim(&one)).await, Ok(Attempt::Granted(_))) };
    timing::eventually(Duration::from_secs(5), free).await.ok_or("not free")?;
    granted(&lock, &claim(&two)).await?;
    Ok(())
}

/// The last clone's drop ends holds, waits and connections, though nothing was released.
#[tokio::test]
async fn dropping_the_client_leaves_nothing_on_the_server() -> Checked {
    let Some(harness) = harness(Mode::Advisory).await? else { return Ok(()) };
    let (holder, other) = (harness.client(harness.config()).await?, harness.client(harness.config()).await?);
    let (held, waited) = (claim(&name()), name());
    granted(&other.0, &claim(&waited)).await?;
    granted(&holder.0, &held).await?;
    assert!(matches!(holder.0.try_acquire(&claim(&waited).queueing()).await?, Attempt::Queued));
    holder.0.inspect(&waited).await?;
    drop(holder.0);
    let mut side = harness.side().await?;
    let mut left = i64::MAX;
    for _ in 0..200 {
        let count = sqlx::query("SELECT count(*) FROM pg_stat_activity WHERE application_name = $1").bind(&holder.1);
        left = count.fetch_one(&mut side).await?.try_get(0)?;
        if left == 0 {
            break;
        }
        Clock::system().sleep(Duration::from_millis(25)).await;
    }
    assert_eq!(left, 0, "sessions of a client that is gone");
    granted(&other.0, &claim(&held.name)).await?;
    assert_eq!(harness.entries(&waited).await, Some(1));
    Ok(())
}

/// Without slices the server's queue is the order of arrival.
#[tokio::test]
async fn without_slices_the_order_is_that_of_arrival() -> Checked {
    let Some(harness) = harness(Mode::Advisory).await? else { return Ok(()) };
    let url = format!("{}?wait_slice=0s", harness.server().ok_or("own")?.lock_url());
    let holder = harness.client(PostgresConfig::from_url(&url)?).await?.0;
    assert_eq!(holder.capabilities().queue, lockyard_api::Queueing::Fifo);
    let name = name();
    let first = claim(&name);
    granted(&holder, &first).await?;
    let mut waiters = Vec::new();
    for _ in 0..5 {
        let lock = harness.client(PostgresConfig::from_url(&url)?).await?.0;
        let claim = claim(&name).queueing();
        assert!(matches!(lock.try_acquire(&claim).await?, Attempt::Queued));
        waiters.push((lock, claim));
    }
    holder.release(&first).await?;
    for at in 0..waiters.len() {
        let (lock, claim) = &waiters[at];
        acquire(lock, claim, Duration::from_secs(5)).await?;
        for (behind, later) in &waiters[at + 1..] {
            assert!(tokio::time::timeout(Duration::from_millis(20), behind.wait(later)).await.is_err(), "out of turn");
        }
        lock.release(claim).await?;
    }
    Ok(())
}

type Three = (lockyard_postgres::PostgresLock, lockyard_postgres::PostgresLock, lockyard_postgres::PostgresLock);

async fn three(harness: &lockyard_postgres::testing::PostgresHarness) -> Checked<Three> {
    let client = || async { harness.client(harness.config()).await.map(|(lock, _)| lock) };
    Ok((client().await?, client().await?, client().await?))
}
