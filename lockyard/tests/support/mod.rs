//! What the tests of this crate share.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::error::Error;
use std::time::Duration;

use lockyard::{FencingToken, Guard};
use lockyard_testbed::{Options, Server, Service, require};

pub(crate) type Checked<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

/// A server of its own, or `None` after saying why there is none.
pub(crate) async fn server(service: Service) -> Checked<Option<Server>> {
    let started = Server::start_with(service, Options::new().native_only()).await;
    Ok(require::or_skip(service, started)?)
}

/// A holder that was paused for longer than its lease, and the next one, who was granted the lock meanwhile.
pub(crate) async fn paused_and_next(url: &str, name: &str) -> Checked<(Guard, Guard)> {
    let (first, second) = (lockyard::connect(url).await?, lockyard::connect(url).await?);
    // Never renewed, as if its process stood still from now on.
    let paused = first.lock(name).ttl(Duration::from_secs(1)).fixed().acquire().await?;
    let next = second.acquire(name).await?;
    assert!(!paused.is_held() && next.is_held());
    assert!(token(&next)? > token(&paused)?);
    Ok((paused, next))
}

pub(crate) fn token(guard: &Guard) -> Checked<FencingToken> {
    guard.fencing_token().ok_or_else(|| "a grant without a token".into())
}
