//! A holder that was paused for too long writes late, and is refused: the token decides.
//!
//! ```sh
//! cargo run -p lockyard-jobs --example fenced_write -- redis://127.0.0.1/
//! ```

use std::time::Duration;

use lockyard::{Error, Guard, LockName, Write};

#[tokio::main]
async fn main() -> lockyard::Result<()> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory://fenced-write".to_owned());
    let (first, second) = (lockyard::connect(&url).await?, lockyard::connect(&url).await?);
    let register = lockyard::connect_register(&url).await?;
    let name = LockName::new("demo:balance")?;
    let ttl = first.capabilities().ttl.min.max(Duration::from_secs(1));

    // Never renewed, as if its process stood still from now on.
    let paused = first.lock(&name).ttl(ttl).fixed().acquire().await?;
    let seen = register.read(&name).await?;
    // Granted when the service has let the paused one go.
    let next = second.lock(&name).ttl(ttl).acquire().await?;
    let written = register.write(&name, b"of the next holder", token(&next)?, seen.version).await?;
    println!("next holder, token {}: {written:?}", token(&next)?);

    let late = register.write(&name, b"of the paused holder", token(&paused)?, seen.version).await?;
    println!("paused holder, token {}: {late:?}", token(&paused)?);
    assert!(matches!(late, Write::StaleToken { .. }), "the late write was accepted");
    next.release().await?;
    Ok(())
}

fn token(guard: &Guard) -> lockyard::Result<lockyard::FencingToken> {
    guard.fencing_token().ok_or_else(|| Error::unsupported("this backend gives no fencing tokens"))
}
