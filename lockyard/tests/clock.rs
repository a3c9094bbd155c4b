//! B56: a server that counts leases by its wall clock, and somebody sets that clock.

mod support;

use std::time::Duration;

use lockyard::{Clock, LostReason};
use lockyard_testbed::{ClockOffset, Options, Server, Service, require, timing};
use support::{Checked, token};

/// How far the clock is set.
const FAR: Duration = Duration::from_secs(3600);
const JUMP: Duration = Duration::from_secs(3);
/// Ends long after the next renewal, also on a busy machine.
const TTL: Duration = Duration::from_secs(9);
const SHORT: Duration = Duration::from_secs(1);
/// Long enough for anything here.
const PATIENCE: Duration = Duration::from_secs(60);

async fn server(service: Service) -> Checked<Option<Server>> {
    let started = Server::start_with(service, Options::new().own_clock()).await;
    Ok(require::or_skip(service, started)?)
}

/// The clock is set ahead: the server lets the next one in at once, the holder is told at its next renewal, and the next
/// one's hold is an ordinary one.
async fn ahead_ends_leases_early(server: &Server, url: &str) -> Checked<u64> {
    let (first, second) = (lockyard::connect(url).await?, lockyard::connect(url).await?);
    let holder = first.lock("ahead").ttl(TTL).acquire().await?;
    assert!(second.try_acquire("ahead").await?.is_none());
    server.set_clock(ClockOffset::Ahead(FAR))?;
    let next = second.lock("ahead").ttl(TTL).try_acquire().await?.ok_or("the lease has not ended by the new clock")?;
    assert!(token(&next)? > token(&holder)?);
    let reason = tokio::time::timeout(timing::scaled(PATIENCE), holder.lost()).await?;
    assert_eq!(
        reason,
        LostReason::Revoked,
        "it is told by the server at a renewal, not by its own clock at the deadline"
    );
    assert!(!holder.is_held() && next.is_held());
    let number = token(&next)?.get();
    assert_eq!(next.release().await?, lockyard::Release::Released);
    Ok(number)
}

/// The clock is set back: a lease that nobody renews is longer by the jump, and nobody holds beside its holder.
async fn back_makes_leases_longer(server: &Server, url: &str, last: u64) -> Checked {
    let (first, second) = (lockyard::connect(url).await?, lockyard::connect(url).await?);
    let kept = first.lock("kept").ttl(TTL).acquire().await?;
    let clock = Clock::system();
    let begin = clock.now();
    let silent = first.lock("back").ttl(SHORT).fixed().acquire().await?;
    assert!(token(&silent)?.get() > 0);
    server.set_clock(ClockOffset::Ahead(FAR.saturating_sub(JUMP)))?;
    let next = tokio::time::timeout(timing::scaled(PATIENCE), second.lock("back").ttl(SHORT).acquire()).await??;
    let took = clock.now().since(begin);
    assert!(!silent.is_held() && next.is_held());
    assert!(token(&next)? > token(&silent)?);
    println!("{url}: a lease of {SHORT:?} ended {took:?} after it began, the clock having been set back by {JUMP:?}");
    assert!(took >= SHORT + JUMP, "it ended by another clock than the one that was set: {took:?}");
    // Far back, beyond the time at which the last tokens were drawn: they rise all the same.
    server.set_clock(ClockOffset::Behind(FAR))?;
    assert_eq!(next.release().await?, lockyard::Release::Released);
    let again = second.lock("ahead").ttl(TTL).try_acquire().await?.ok_or("a free name is busy")?;
    assert!(token(&again)?.get() > last, "a token fell with the clock: {last}, then {:?}", token(&again)?);
    assert!(kept.is_held(), "a hold that is renewed outlasts every jump");
    assert_eq!(kept.release().await?, lockyard::Release::Released);
    Ok(())
}

async fn both(server: &Server, url: &str) -> Checked {
    let last = ahead_ends_leases_early(server, url).await?;
    back_makes_leases_longer(server, url, last).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis() -> Checked {
    let Some(server) = server(Service::Redis).await? else { return Ok(()) };
    both(&server, &server.lock_url()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_lease() -> Checked {
    let Some(server) = server(Service::Postgres).await? else { return Ok(()) };
    both(&server, &format!("{}?lock=lease", server.lock_url())).await
}
