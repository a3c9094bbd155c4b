//! The register of the service that keeps the locks.

use lockyard::{FencedRegister, FencingToken, LockName, Write};

use crate::support::{Checked, paused_and_next, token};

/// Whether the report was saved: what a later holder has written stays as it is.
async fn save(
    register: &dyn FencedRegister,
    name: &LockName,
    body: &str,
    token: FencingToken,
) -> lockyard::Result<bool> {
    loop {
        let found = register.read(name).await?;
        match register.write(name, body.as_bytes(), token, found.version).await? {
            Write::Written { .. } => return Ok(true),
            Write::StaleToken { .. } => return Ok(false),
            _ => {} // another write of this holder came first
        }
    }
}

#[tokio::test]
async fn a_late_holder_changes_no_register() -> Checked {
    let url = "memory://safety-register";
    let register = lockyard::connect_register(url).await?;
    let (paused, next) = paused_and_next(url, "report").await?;
    let (old, new) = (token(&paused)?, token(&next)?);

    assert!(save(&register, next.name(), "next", new).await?);
    assert!(save(&register, next.name(), "next, again", new).await?);
    assert!(!save(&register, next.name(), "late", old).await?);
    assert_eq!(register.read(next.name()).await?.value.as_deref(), Some(&b"next, again"[..]));
    Ok(())
}
