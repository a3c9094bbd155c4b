//! `at_least_for` on every backend: the job stays closed when the process that ran it has gone. B137.

mod support;

use std::time::Duration;

use lockyard_jobs::{Job, Outcome, Skipped, WallTime};
use lockyard_testbed::Service;
use lockyard_testbed::timing::eventually;
use support::{Checked, SOON, locks_on, nothing};

const LEAST: Duration = Duration::from_secs(4);
const HOUR: Duration = Duration::from_secs(3600);

/// Whose clock keeps the job closed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    /// The server's: the clocks of hosts do not matter.
    Server,
    /// The hosts'.
    Host,
}

async fn job(url: &str, clock: &lockyard::Clock) -> Checked<(lockyard::Locker, Job)> {
    let (locks, register) = (lockyard::connect(url).await?, lockyard::connect_register(url).await?);
    let job = Job::builder("short", locks.clone(), register).at_least_for(LEAST).clock(clock.clone()).build()?;
    Ok((locks, job))
}

async fn stays_closed(url: &str, by: By) -> Checked {
    // A memory server ends with its last client.
    let _server = lockyard::connect_register(url).await?;
    let clock = support::clock_at("2026-05-05T12:00:00Z");
    let (locks, first) = job(url, &clock).await?;
    let real = locks.clock().clone();
    let before = real.now();
    assert_eq!(first.run_tick(WallTime::now(&clock), nothing).await?, Outcome::Ran(()));
    // It ends as a process does that has nothing more to do.
    drop(first);
    locks.shutdown().await?;
    drop(locks);

    if by == By::Server {
        clock.advance(HOUR);
    }
    let (_locks, second) = job(url, &clock).await?;
    let tick = async || {
        clock.advance(Duration::from_millis(1));
        second.run_tick(WallTime::now(&clock), nothing).await
    };
    let soon = tick().await?;
    // A machine that is so slow that the time was over has shown nothing.
    if real.now().since(before) < LEAST {
        assert!(matches!(soon, Outcome::Skipped(Skipped::TooSoon { .. })), "{url}: {soon:?}");
    }
    if by == By::Host {
        clock.advance(LEAST);
    }
    let opened = eventually(SOON, || async { matches!(tick().await, Ok(Outcome::Ran(()))) }).await;
    opened.ok_or_else(|| format!("{url}: it is never open again"))?;
    if by == By::Server {
        assert!(real.now().since(before) >= LEAST, "{url}: it was open too soon");
    }
    Ok(())
}

async fn on_server(service: Service, query: &str, by: By) -> Checked {
    let Some((_server, url)) = locks_on(service, query).await? else { return Ok(()) };
    stays_closed(&url, by).await
}

#[tokio::test]
async fn memory() -> Checked {
    stays_closed("memory://least", By::Server).await
}

#[tokio::test]
async fn file() -> Checked {
    let folder = tempfile::tempdir()?;
    stays_closed(&format!("file:{}", folder.path().display()), By::Host).await
}

#[tokio::test]
async fn redis() -> Checked {
    on_server(Service::Redis, "", By::Server).await
}

#[tokio::test]
async fn postgres_lease() -> Checked {
    on_server(Service::Postgres, "?lock=lease", By::Server).await
}

#[tokio::test]
async fn postgres_sessions() -> Checked {
    on_server(Service::Postgres, "?lock=advisory", By::Server).await?;
    on_server(Service::Postgres, "?lock=row", By::Server).await
}

#[tokio::test]
async fn etcd() -> Checked {
    on_server(Service::Etcd, "", By::Server).await
}

#[tokio::test]
async fn zookeeper() -> Checked {
    on_server(Service::Zookeeper, "", By::Server).await
}

/// How old a value is by the server's clock lies between two times that were taken around it.
async fn ages_from_its_last_write(service: Service) -> Checked {
    // The clock of the machine is the server's too, and may be slewed.
    const OFF: Duration = Duration::from_millis(50);
    let Some((_server, url)) = locks_on(service, "").await? else { return Ok(()) };
    let (register, name) = (lockyard::connect_register(&url).await?, lockyard::LockName::new("stamp")?);
    assert!(register.tells_age());
    assert_eq!(register.age(&name).await?, None);
    let clock = lockyard::Clock::system();
    let mut version = lockyard::Version::ABSENT;
    for number in 1..3 {
        let before = clock.now();
        let written = register.write(&name, b"x", lockyard::FencingToken::new(number)?, version).await?;
        let after = clock.now();
        clock.sleep(OFF * 4).await;
        let least = clock.now().since(after);
        let age = register.age(&name).await?.ok_or("it was written")?;
        assert!(age + OFF >= least && age <= clock.now().since(before) + OFF, "{url}: {age:?}, at least {least:?}");
        version = register.read(&name).await?.version;
        assert!(matches!(written, lockyard::Write::Written { version: of_write } if of_write == version), "as it was");
    }
    Ok(())
}

#[tokio::test]
async fn ages_on_postgres() -> Checked {
    ages_from_its_last_write(Service::Postgres).await
}

#[tokio::test]
async fn ages_on_zookeeper() -> Checked {
    ages_from_its_last_write(Service::Zookeeper).await
}
