//! What held locks of the lease table cost the server. Not run with the others: it measures.
//!
//! `cargo test -p lockyard-postgres --test held -- --ignored --nocapture`

use std::time::Duration;

use lockyard_api::{Clock, Locker};
use lockyard_postgres::Mode;
use lockyard_postgres::testing::PostgresHarness;
use lockyard_testbed::Options;
use sqlx::{PgConnection, Row};

mod support;
use support::{Checked, harness_with};

const HELD: usize = 2000;
const TTL: Duration = Duration::from_secs(3);
const WINDOW: Duration = Duration::from_secs(15);

/// Statements, flushes of the log, and clock ticks of processor time of the server and of this process.
struct Costs {
    statements: i64,
    flushes: i64,
    server: u64,
    client: u64,
}

impl Costs {
    async fn read(side: &mut PgConnection, harness: &PostgresHarness) -> Checked<Self> {
        let pid = harness.server().and_then(|server| server.pid()).ok_or("an own server")?;
        let look = "SELECT (SELECT sum(xact_commit)::int8 FROM pg_stat_database), (SELECT wal_sync FROM pg_stat_wal)";
        let row = sqlx::query(look).fetch_one(side).await?;
        let client = ticks("self").ok_or("no /proc")?.1;
        Ok(Self { statements: row.try_get(0)?, flushes: row.try_get(1)?, server: children(pid)?, client })
    }
}

/// The parent of a process, and its processor time.
fn ticks(pid: &str) -> Option<(u32, u64)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    Some((fields.get(1)?.parse().ok()?, fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?))
}

fn children(parent: u32) -> Checked<u64> {
    let all = std::fs::read_dir("/proc")?.filter_map(|entry| ticks(entry.ok()?.file_name().to_str()?));
    Ok(all.filter(|(of, _)| *of == parent).map(|(_, ticks)| ticks).sum())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures for a quarter of a minute"]
async fn what_2000_held_leases_cost() -> Checked {
    let Some(harness) = harness_with(Mode::Lease, Options::new().native_only()).await? else { return Ok(()) };
    let locks = Locker::builder(harness.client(harness.config()).await?.0).ttl(TTL).build()?;
    let mut guards = Vec::new();
    for at in 0..HELD {
        guards.push(locks.try_acquire(format!("held-{at}")).await?.ok_or("it is free")?);
    }
    let (clock, mut side) = (Clock::system(), harness.side().await?);
    clock.sleep(TTL).await;
    let (start, before) = (clock.now(), Costs::read(&mut side, &harness).await?);
    clock.sleep(WINDOW).await;
    let (after, seconds) = (Costs::read(&mut side, &harness).await?, clock.now().since(start).as_secs_f64());
    let lost = guards.iter().filter(|guard| !guard.is_held()).count();
    let per_second = |count: f64| count / seconds;
    println!(
        "{HELD} held, ttl {TTL:?}: {:.0} statements/s, {:.0} flushes/s, server {:.1} % of a core, client {:.1} %, {lost} lost",
        per_second((after.statements - before.statements) as f64),
        per_second((after.flushes - before.flushes) as f64),
        per_second((after.server - before.server) as f64),
        per_second((after.client - before.client) as f64),
    );
    Ok(())
}
