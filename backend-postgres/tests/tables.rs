//! The traps of rows and leases. The numbers in the comments are field cases.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use lockyard_api::{
    Attempt, Clock, DistributedLock, FencedRegister, FencingToken, Liveness, Release, Renewal, Version, Wake, Write,
};
use lockyard_conformance::Harness;
use lockyard_postgres::testing::PostgresHarness;
use lockyard_postgres::{Mode, PostgresLock, PostgresRegister};
use sqlx::Row;
use tokio::task::JoinSet;

mod support;
use support::{Checked, acquire, busy, claim, granted, harness, name, with_ttl};

async fn client(harness: &PostgresHarness) -> Checked<PostgresLock> {
    Ok(harness.client(harness.config()).await?.0)
}

/// B97: a role's limit on idle transactions does not take a held row away.
#[tokio::test]
async fn the_roles_idle_timeout_does_not_end_a_row_lock() -> Checked {
    let Some(harness) = harness(Mode::Row).await? else { return Ok(()) };
    let set = "ALTER ROLE postgres SET idle_in_transaction_session_timeout = '500ms'";
    sqlx::raw_sql(set).execute(&mut harness.side().await?).await?;
    let (a, b) = (client(&harness).await?, client(&harness).await?);
    let claim = claim(&name());
    let grant = granted(&a, &claim).await?;
    let (clock, next) = (Clock::system(), support::claim(&claim.name));
    let until = clock.now().plus(Duration::from_millis(1500));
    while clock.now() < until {
        busy(&b, &next).await?;
        clock.sleep(Duration::from_millis(50)).await;
    }
    assert!(matches!(grant.liveness, Liveness::Session(watch) if watch.lost().is_none()));
    assert_eq!(a.release(&claim).await?, Release::Released);
    granted(&b, &next).await?;
    Ok(())
}

/// B106: a row that was never there, or is deleted while somebody waits for it, is made and not taken for a grant.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_row_is_never_a_grant() -> Checked {
    let Some(harness) = harness(Mode::Row).await? else { return Ok(()) };
    let (a, b, c) = (client(&harness).await?, client(&harness).await?, client(&harness).await?);
    let name = name();
    let (first, second, third) = (claim(&name), claim(&name).queueing(), claim(&name).queueing());
    let rival = claim(&name);
    let (one, other) = tokio::join!(a.try_acquire(&first), b.try_acquire(&rival));
    let granted_now = [one?, other?].iter().filter(|attempt| matches!(attempt, Attempt::Granted(_))).count();
    assert_eq!(granted_now, 1, "one of two gets a name that nobody has seen");
    b.release(&rival).await?;
    if a.renew(&first).await? == Renewal::Lost {
        granted(&a, &first).await?;
    }
    assert!(matches!(b.try_acquire(&second).await?, Attempt::Queued));
    assert!(matches!(c.try_acquire(&third).await?, Attempt::Queued));
    let mut side = harness.side().await?;
    let text = name.as_str().to_owned();
    let delete = tokio::spawn(async move {
        sqlx::query("DELETE FROM lockyard.row WHERE name = $1").bind(text).execute(&mut side).await
    });
    a.release(&first).await?;
    // After the deletion both make the row anew, and either may be first.
    let limit = Duration::from_secs(10);
    let (winner, won, loser, lost) = tokio::select! {
        grant = acquire(&b, &second, limit) => { grant?; (&b, &second, &c, &third) }
        grant = acquire(&c, &third, limit) => { grant?; (&c, &third, &b, &second) }
    };
    assert!(tokio::time::timeout(Duration::from_millis(100), loser.wait(lost)).await.is_err(), "two hold the name");
    busy(&a, &claim(&name)).await?;
    winner.release(won).await?;
    acquire(loser, lost, limit).await?;
    loser.release(lost).await?;
    delete.await??;
    Ok(())
}

/// A logged sequence is flushed by whoever draws every 33rd number; what others drew meanwhile came again after a crash.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_before_a_flush_repeats_no_token() -> Checked {
    for mode in [Mode::Advisory, Mode::Row] {
        let Some(harness) = harness(mode).await? else { return Ok(()) };
        // Flushes take 100 ms, so that the crash can come before the end of one.
        let slow = ["ALTER SYSTEM SET commit_delay = 100000", "ALTER SYSTEM SET commit_siblings = 0"];
        for sql in slow.into_iter().chain(["SELECT pg_reload_conf()"]) {
            sqlx::raw_sql(sql).execute(&mut harness.side().await?).await?;
        }
        let names = [name(), name()];
        let told = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
        let mut drawing = JoinSet::new();
        for at in 0..2 {
            let (lock, claim, told) = (client(&harness).await?, claim(&names[at]), Arc::clone(&told));
            drawing.spawn(async move {
                while let Ok(Attempt::Granted(grant)) = lock.try_acquire(&claim).await {
                    told[at].store(grant.token.map_or(0, FencingToken::get), Ordering::SeqCst);
                    if lock.release(&claim).await.is_err() {
                        break;
                    }
                }
            });
        }
        one_waits_while_the_other_draws(&told).await?;
        let server = harness.server().ok_or("own")?;
        server.kill().await?;
        while drawing.join_next().await.is_some() {}
        server.restart().await?;
        let lock = client(&harness).await?;
        for (name, told) in names.iter().zip(told.iter()) {
            let grant = granted(&lock, &claim(name)).await?;
            let (token, last) = (grant.token.ok_or("a token")?.get(), told.load(Ordering::SeqCst));
            assert!(token > last, "{mode:?}: {token} after {last}");
        }
    }
    Ok(())
}

/// Ends too when both have drawn so many that nobody waits for a flush.
async fn one_waits_while_the_other_draws(told: &[AtomicU64; 2]) -> Checked {
    const ENOUGH: usize = 100;
    let clock = Clock::system();
    let (mut drawn, mut last, mut since) = ([0_usize; 2], [0; 2], [clock.now(); 2]);
    let watching = async {
        loop {
            for at in 0..2 {
                let now = told[at].load(Ordering::SeqCst);
                if now != last[at] {
                    (last[at], drawn[at], since[at]) = (now, drawn[at] + 1, clock.now());
                }
            }
            let waits = since.map(|since| clock.now().since(since) > Duration::from_millis(20));
            let many = drawn.iter().sum::<usize>() > 40;
            if (many && waits[0] != waits[1]) || drawn.iter().all(|drawn| *drawn > ENOUGH) {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    let limit = lockyard_testbed::timing::scaled(Duration::from_secs(20));
    tokio::time::timeout(limit, watching).await.map_err(|_| "neither drew".into())
}

/// B105: a database whose default isolation makes statements fail to serialise.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn contention_under_a_serializable_default_reaches_nobody() -> Checked {
    let Some(harness) = harness(Mode::Lease).await? else { return Ok(()) };
    let set = "ALTER DATABASE postgres SET default_transaction_isolation = 'serializable'";
    sqlx::raw_sql(set).execute(&mut harness.side().await?).await?;
    let names = [name(), name()];
    let inside = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
    let mut contenders = JoinSet::new();
    for at in 0..8 {
        let (lock, name, inside) = (client(&harness).await?, names[at % 2].clone(), Arc::clone(&inside));
        contenders.spawn(async move {
            for _ in 0..15 {
                let claim = claim(&name).queueing();
                acquire(&lock, &claim, Duration::from_secs(30)).await?;
                assert_eq!(inside[at % 2].fetch_add(1, Ordering::SeqCst), 0, "two hold the name");
                assert!(matches!(lock.renew(&claim).await?, Renewal::Renewed { .. }));
                inside[at % 2].fetch_sub(1, Ordering::SeqCst);
                assert_eq!(lock.release(&claim).await?, Release::Released);
            }
            Checked::Ok(())
        });
    }
    while let Some(ended) = contenders.join_next().await {
        ended??;
    }
    assert_eq!(harness.entries(&names[0]).await, Some(0));
    Ok(())
}

/// A waiter whose client is gone is passed over at once: nobody waits for its ttl, and its row goes.
#[tokio::test]
async fn a_dead_waiter_is_passed_over() -> Checked {
    let Some(harness) = harness(Mode::Lease).await? else { return Ok(()) };
    let (a, b, c) = (client(&harness).await?, harness.client(harness.config()).await?, client(&harness).await?);
    let name = name();
    let (first, second, third) =
        (with_ttl(claim(&name), 60), with_ttl(claim(&name).queueing(), 60), with_ttl(claim(&name).queueing(), 60));
    granted(&a, &first).await?;
    assert!(matches!(b.0.try_acquire(&second).await?, Attempt::Queued));
    assert!(matches!(c.try_acquire(&third).await?, Attempt::Queued));
    drop(b.0);
    let mut side = harness.side().await?;
    for _ in 0..200 {
        let count = sqlx::query("SELECT count(*) FROM pg_stat_activity WHERE application_name = $1").bind(&b.1);
        if count.fetch_one(&mut side).await?.try_get::<i64, _>(0)? == 0 {
            break;
        }
        Clock::system().sleep(Duration::from_millis(25)).await;
    }
    a.release(&first).await?;
    acquire(&c, &third, Duration::from_secs(3)).await?;
    let left = sqlx::query("SELECT count(*) FROM lockyard.waiter").fetch_one(&mut side).await?;
    assert_eq!(left.try_get::<i64, _>(0)?, 0, "rows of waiters that nobody will serve");
    Ok(())
}

/// A grant whose message is lost with the listening connection is found at once by asking again.
#[tokio::test]
async fn a_lost_message_is_made_up_for() -> Checked {
    let Some(harness) = harness(Mode::Lease).await? else { return Ok(()) };
    let (a, b) = (client(&harness).await?, harness.client(harness.config()).await?);
    let name = name();
    let (first, second) = (with_ttl(claim(&name), 60), with_ttl(claim(&name).queueing(), 60));
    granted(&a, &first).await?;
    assert!(matches!(b.0.try_acquire(&second).await?, Attempt::Queued));
    let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = $1";
    sqlx::query(end).bind(&b.1).execute(&mut harness.side().await?).await?;
    a.release(&first).await?;
    acquire(&b.0, &second, Duration::from_secs(5)).await?;
    Ok(())
}

/// A place that is taken after the statement of a release has looked at the table, and before that gets the row, is not missed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_that_waits_for_the_row_sees_who_queued_meanwhile() -> Checked {
    let Some(harness) = harness(Mode::Lease).await? else { return Ok(()) };
    let (a, b) = (client(&harness).await?, client(&harness).await?);
    let name = name();
    let (first, second) = (with_ttl(claim(&name), 60), with_ttl(claim(&name).queueing(), 60));
    granted(&a, &first).await?;
    let (mut side, mut watch) = (harness.side().await?, harness.side().await?);
    sqlx::raw_sql("BEGIN; SELECT 1 FROM lockyard.lease FOR UPDATE").execute(&mut side).await?;
    let queue = b.try_acquire(&second);
    let rest = async {
        at_the_row(&mut watch, 1).await?;
        let release = a.release(&first);
        let let_go = async {
            at_the_row(&mut watch, 2).await?;
            sqlx::raw_sql("COMMIT").execute(&mut side).await?;
            Checked::Ok(())
        };
        let (released, let_go) = tokio::join!(release, let_go);
        let_go?;
        assert_eq!(released?, Release::Released);
        Checked::Ok(())
    };
    let (queued, rest) = tokio::join!(queue, rest);
    rest?;
    assert!(matches!(queued?, Attempt::Queued));
    // Long before it would ask again by itself.
    let told = tokio::time::timeout(Duration::from_secs(5), b.wait(&second)).await;
    assert!(matches!(told, Ok(Ok(Wake::Granted(_)))), "{told:?}");
    Ok(())
}

/// Waits until so many statements wait for a row.
async fn at_the_row(side: &mut sqlx::PgConnection, count: i64) -> Checked {
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
    for _ in 0..400 {
        if sqlx::query(waiting).fetch_one(&mut *side).await?.try_get::<i64, _>(0)? == count {
            return Ok(());
        }
        Clock::system().sleep(Duration::from_millis(10)).await;
    }
    Err(format!("never {count} at the row").into())
}

/// The number and the clock are read after the wait for the row: a late taker has a later token and its full lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_taker_that_waited_for_the_row_has_its_full_lease() -> Checked {
    // Locked alone, and written.
    for keep in ["SELECT 1 FROM lockyard.lease FOR UPDATE", "UPDATE lockyard.lease SET label = 'other'"] {
        taker_waits_for_the_row(keep).await?;
    }
    Ok(())
}

async fn taker_waits_for_the_row(keep: &'static str) -> Checked {
    let Some(harness) = harness(Mode::Lease).await? else { return Ok(()) };
    let (a, b) = (client(&harness).await?, client(&harness).await?);
    let name = name();
    let first = claim(&name);
    let before = granted(&a, &first).await?;
    a.release(&first).await?;
    // Somebody keeps the row for a while.
    let mut side = harness.side().await?;
    sqlx::raw_sql(sqlx::AssertSqlSafe(format!("BEGIN; {keep}"))).execute(&mut side).await?;
    let second = claim(&name);
    let late = async {
        Clock::system().sleep(Duration::from_millis(400)).await;
        let now = sqlx::query("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::int8");
        let now: i64 = now.fetch_one(&mut side).await?.try_get(0)?;
        // What was drawn before the wait ends is older than this.
        let drawn = sqlx::query("SELECT nextval('lockyard.draw') << 8").fetch_one(&mut side).await?.try_get(0)?;
        sqlx::raw_sql("COMMIT").execute(&mut side).await?;
        Checked::Ok((now, drawn))
    };
    let (grant, let_go) = tokio::join!(granted(&b, &second), late);
    let (let_go, drawn): (i64, i64) = let_go?;
    let token = grant?.token;
    assert!(token > before.token && token.map(FencingToken::get) > u64::try_from(drawn).ok(), "{keep}: {token:?}");
    let end = sqlx::query("SELECT (extract(epoch FROM expires_at) * 1000)::int8 FROM lockyard.lease");
    let end: i64 = end.fetch_one(&mut harness.side().await?).await?.try_get(0)?;
    let lease = end - let_go;
    assert!(lease >= 5000, "{keep}: a lease of 5 s ends {lease} ms after its taker stopped waiting");
    Ok(())
}

/// What was read before a row was deleted by hand is not mistaken for what was written after.
#[tokio::test]
async fn no_version_of_a_register_comes_twice() -> Checked {
    let Some(harness) = harness(Mode::Advisory).await? else { return Ok(()) };
    let register = PostgresRegister::connect(harness.config()).await?;
    let (name, token) = (name(), FencingToken::from_server(1)?);
    let mut seen = Vec::new();
    for _ in 0..3 {
        let answer = register.write(&name, b"x", token, Version::ABSENT).await?;
        let Write::Written { version } = answer else { return Err(format!("{answer:?} where there is no row").into()) };
        assert!(!seen.contains(&version), "{version} after {seen:?}");
        seen.push(version);
        sqlx::raw_sql("DELETE FROM lockyard.register").execute(&mut harness.side().await?).await?;
        assert_eq!(register.write(&name, b"late", token, version).await?, Write::Conflict { version: Version::ABSENT });
    }
    Ok(())
}

/// B105: also where the database's default isolation makes statements fail to serialise, and all write at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn registers_count_under_a_serializable_default() -> Checked {
    let Some(harness) = harness(Mode::Lease).await? else { return Ok(()) };
    let set = "ALTER DATABASE postgres SET default_transaction_isolation = 'serializable'";
    sqlx::raw_sql(set).execute(&mut harness.side().await?).await?;
    let (name, token) = (name(), FencingToken::from_server(1)?);
    let mut writers = JoinSet::new();
    for _ in 0..4 {
        let (register, name) = (PostgresRegister::connect(harness.config()).await?, name.clone());
        writers.spawn(async move {
            for _ in 0..10 {
                loop {
                    let found = register.read(&name).await?;
                    let mut value = found.value.unwrap_or_default();
                    value.push(b'x');
                    if let Write::Written { .. } = register.write(&name, &value, token, found.version).await? {
                        break;
                    }
                }
            }
            Checked::Ok(())
        });
    }
    while let Some(ended) = writers.join_next().await {
        ended??;
    }
    let register = PostgresRegister::connect(harness.config()).await?;
    assert_eq!(register.read(&name).await?.value.map(|value| value.len()), Some(40));
    Ok(())
}
