//! Grants of lease mode that were on their way for longer than they lasted.

use std::sync::Arc;

use lockyard_api::{Attempt, DistributedLock, Wake};
use lockyard_postgres::Mode;

mod support;
use support::{Checked, busy, claim, granted, harness, name, with_ttl};

/// The waiter has been told since that somebody else holds the name: what a hand-over of before has sent is no grant any more.
#[tokio::test(flavor = "multi_thread")]
async fn a_grant_of_the_past_is_not_believed() -> Checked {
    let Some(harness) = harness(Mode::Lease).await? else { return Ok(()) };
    let (a, b) = (harness.client(harness.config()).await?.0, Arc::new(harness.client(harness.config()).await?.0));
    let name = name();
    let (hold, waiter) = (with_ttl(claim(&name), 60), with_ttl(claim(&name).queueing(), 60));
    let held = granted(&a, &hold).await?.token.ok_or("a token")?;
    assert!(matches!(b.try_acquire(&waiter).await?, Attempt::Queued));
    let waiting = tokio::spawn({
        let (b, waiter) = (Arc::clone(&b), waiter.clone());
        async move { b.wait(&waiter).await }
    });
    let late = "SELECT pg_notify(w.channel, w.owner || ' ' || $2) FROM lockyard.waiter w WHERE w.owner = $1";
    let number = (held.server_number() - 1).to_string();
    let told =
        sqlx::query(late).bind(waiter.owner.to_string()).bind(number).execute(&mut harness.side().await?).await?;
    assert_eq!(told.rows_affected(), 1);
    // What is sent over one channel arrives in order: this one later.
    a.release(&hold).await?;
    let Wake::Granted(grant) = waiting.await?? else { return Err("nothing was granted".into()) };
    assert!(grant.token > Some(held), "{:?} after {held:?}", grant.token);
    busy(&a, &claim(&name)).await
}
