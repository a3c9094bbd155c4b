//! Servers and configurations that are refused say why, and what to do.

use std::path::PathBuf;
use std::time::Duration;

use lockyard_api::{Claim, Clock, DistributedLock, ErrorKind, Kind, LockName, Outcome};
use lockyard_postgres::testing::PostgresHarness;
use lockyard_postgres::{Mode, PostgresConfig, PostgresLock};

mod support;
use support::{Checked, granted, harness, name};

async fn refused(url: &str, kind: ErrorKind, words: &[&str]) -> Checked {
    let error = PostgresLock::connect(PostgresConfig::from_url(url)?).await.err().ok_or("it connects")?;
    assert_eq!(error.kind(), kind, "{url}: {error}");
    assert!(words.iter().all(|word| error.to_string().contains(word)), "{url}: {error}");
    assert!(!format!("{error} {error:?}").contains("geheim"), "a password in an error");
    Ok(())
}

#[tokio::test]
async fn wrong_urls_are_refused_with_a_remedy() -> Checked {
    let Some(harness) = harness(Mode::Advisory).await? else { return Ok(()) };
    let addr = harness.server().ok_or("own")?.addr();
    let role = format!("postgres://nobody:geheim@{addr}/postgres");
    refused(&role, ErrorKind::Auth, &["nobody", "pg_hba.conf"]).await?;
    refused(&format!("postgres://postgres@{addr}/nowhere"), ErrorKind::Config, &["nowhere", "existing database"])
        .await?;
    for mode in ["advisory", "row"] {
        let long = format!("postgres://postgres@{addr}/postgres?ttl=1h&lock={mode}");
        refused(&long, ErrorKind::InvalidTtl, &["300s"]).await?;
    }
    Ok(())
}

/// The password of a role that needs one.
#[tokio::test]
async fn a_wrong_password_is_an_auth_error() -> Checked {
    let Some(harness) = harness(Mode::Lease).await? else { return Ok(()) };
    let mut side = harness.side().await?;
    sqlx::raw_sql("CREATE ROLE app LOGIN PASSWORD 'right'").execute(&mut side).await?;
    let data = data_dir(&harness)?;
    let rules = std::fs::read_to_string(data.join("pg_hba.conf"))?;
    std::fs::write(data.join("pg_hba.conf"), format!("host all app 127.0.0.1/32 scram-sha-256\n{rules}"))?;
    sqlx::raw_sql("SELECT pg_reload_conf()").execute(&mut side).await?;
    sqlx::raw_sql("GRANT ALL ON DATABASE postgres TO app").execute(&mut side).await?;
    let addr = harness.server().ok_or("own")?.addr();
    // The reload is not instant.
    let wrong = PostgresConfig::from_url(&format!("postgres://app:geheim@{addr}/postgres?lock=lease"))?;
    let clock = Clock::system();
    let error = loop {
        match PostgresLock::connect(wrong.clone()).await {
            Ok(_) => clock.sleep(Duration::from_millis(20)).await,
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::Auth, "{error}");
    assert!(!format!("{error} {error:?}").contains("geheim"));
    let right = PostgresConfig::from_url(&format!("postgres://app:right@{addr}/postgres?lock=lease"))?;
    granted(&PostgresLock::connect(right).await?, &Claim::new(name(), Duration::from_secs(1))).await?;
    Ok(())
}

#[tokio::test]
async fn a_port_where_nobody_listens_is_told_at_once() -> Checked {
    let (clock, url) = (Clock::system(), "postgres://u:geheim@127.0.0.1:1/x");
    let start = clock.now();
    refused(url, ErrorKind::Unreachable, &["127.0.0.1", "host and port"]).await?;
    assert!(clock.now().since(start) < lockyard_testbed::timing::scaled(Duration::from_secs(3)));
    Ok(())
}

/// B87: nothing can be locked on a standby.
#[tokio::test]
async fn a_standby_is_refused() -> Checked {
    let Some(harness) = harness(Mode::Advisory).await? else { return Ok(()) };
    let server = harness.server().ok_or("own")?;
    let data = data_dir(&harness)?;
    server.stop().await?;
    std::fs::write(data.join("standby.signal"), "")?;
    server.restart().await?;
    for mode in [Mode::Advisory, Mode::Row, Mode::Lease] {
        let error = PostgresLock::connect(harness.config().mode(mode)).await.err().ok_or("it connects")?;
        assert_eq!(error.kind(), ErrorKind::WrongServer, "{error}");
        assert!(error.message().contains("connect to the primary"), "{error}");
    }
    Ok(())
}

/// Clients that start together on an empty database all start.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_start_together_create_the_schema_once() -> Checked {
    let Some(harness) = harness(Mode::Lease).await? else { return Ok(()) };
    let mut starting = tokio::task::JoinSet::new();
    for at in 0..9 {
        let mode = [Mode::Advisory, Mode::Row, Mode::Lease][at % 3];
        starting.spawn(PostgresLock::connect(harness.config().mode(mode)));
    }
    while let Some(started) = starting.join_next().await {
        granted(&started??, &Claim::new(name(), Duration::from_secs(1))).await?;
    }
    Ok(())
}

#[tokio::test]
async fn what_is_not_offered_is_refused_before_any_traffic() -> Checked {
    let Some(harness) = harness(Mode::Row).await? else { return Ok(()) };
    for mode in [Mode::Advisory, Mode::Row, Mode::Lease] {
        let lock = harness.client(harness.config().mode(mode)).await?.0;
        let name = LockName::new("x")?;
        let shared = Claim::new(name.clone(), Duration::from_secs(1)).with_kind(Kind::Shared);
        let error = lock.try_acquire(&shared).await.expect_err("no shared locks");
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::Unsupported, Outcome::NotApplied));
        let error = lock.try_acquire(&Claim::new(name, Duration::from_millis(1))).await.expect_err("too short");
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::InvalidTtl, Outcome::NotApplied));
    }
    Ok(())
}

/// Refuses to give a lease again to the owner that has it already.
const REFUSE_REPEATS: &str = "
    CREATE FUNCTION lockyard.refuse_repeats() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF EXISTS (SELECT FROM lockyard.lease l WHERE l.namespace = NEW.namespace AND l.name = NEW.name
            AND l.owner = NEW.owner AND l.token IS NOT NULL) THEN
            RAISE EXCEPTION 'a repeat is refused';
        END IF;
        RETURN NEW;
    END $$;
    CREATE TRIGGER refuse_repeats BEFORE INSERT OR UPDATE ON lockyard.lease
        FOR EACH ROW EXECUTE FUNCTION lockyard.refuse_repeats()";

/// B15: the first statement took the lease and its answer was lost; that its repeat is refused says nothing of it.
#[tokio::test]
async fn a_refused_repeat_of_an_unanswered_statement_is_unknown() -> Checked {
    let Some(harness) = harness(Mode::Lease).await? else { return Ok(()) };
    let (lock, _, proxy) = harness.client_through_proxy(harness.config()).await?;
    // Connected and prepared: the next reply is the answer.
    let warm = Claim::new(name(), Duration::from_secs(30));
    granted(&lock, &warm).await?;
    lock.release(&warm).await?;
    sqlx::raw_sql(REFUSE_REPEATS).execute(&mut harness.side().await?).await?;
    let claim = Claim::new(name(), Duration::from_secs(30));
    proxy.swallow_replies(1);
    let error = lock.try_acquire(&claim).await.err().ok_or("the repeat was not refused")?;
    assert!(error.to_string().contains("a repeat is refused"), "{error}");
    let held = lock.inspect(&claim.name).await?.and_then(|holder| holder.owner);
    assert_eq!(held, Some(claim.owner), "the statement without an answer should have taken the lease");
    assert_eq!(error.outcome(), Outcome::Unknown, "{error:?}");
    Ok(())
}

fn data_dir(harness: &PostgresHarness) -> Checked<PathBuf> {
    let pid = harness.server().and_then(|server| server.pid()).ok_or("an own server")?;
    Ok(std::fs::read_link(format!("/proc/{pid}/cwd"))?)
}
