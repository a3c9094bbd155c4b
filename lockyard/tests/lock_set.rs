//! The example `lock_set` on real servers. B44: two clients write at once after a pause.

#[allow(dead_code, reason = "its main is run by hand")]
#[path = "../examples/lock_set.rs"]
mod lock_set;
mod support;

use lock_set::{Fenced, Plain, Report, run};
use lockyard_testbed::Service;
use support::{Checked, server};

const ROUNDS: usize = 2;

/// Without fencing every round loses what the second holder wrote; with it nothing is lost.
async fn loses_only_without_fencing(url: &str) -> Checked {
    let without = run(url, &Plain::default(), ROUNDS).await?;
    let with = run(url, &Fenced::connect(url).await?, ROUNDS).await?;
    println!("{url}: without fencing {without}; with fencing {with}");
    assert_eq!(without, Report { made: 2 * ROUNDS, refused: 0, lost: ROUNDS });
    assert_eq!(with, Report { made: 2 * ROUNDS, refused: ROUNDS, lost: 0 });
    Ok(())
}

#[tokio::test]
async fn memory() -> Checked {
    loses_only_without_fencing("memory://lock-set").await
}

#[tokio::test]
async fn redis() -> Checked {
    let Some(server) = server(Service::Redis).await? else { return Ok(()) };
    loses_only_without_fencing(&server.lock_url()).await
}

#[tokio::test]
async fn postgres_lease() -> Checked {
    let Some(server) = server(Service::Postgres).await? else { return Ok(()) };
    loses_only_without_fencing(&format!("{}?lock=lease", server.lock_url())).await
}
