//! Clause 9: a grant never rests on an entry of an earlier session.

use super::checks;
use crate::steps::{granted, persist, queued, stands};
use crate::stop::ensure;
use crate::{Checked, Context, Stop};
use lockyard_api::{Attempt, ErrorKind};

checks! { 9 stale: no_grant_from_earlier_session, new_session_starts_anew }

/// A waiter whose session ended gets nothing by its old place, also when its turn would have come.
async fn no_grant_from_earlier_session(ctx: &Context) -> Checked {
    ctx.needs_sessions()?;
    let (a, b) = ctx.two().await?;
    let name = ctx.name();
    let (held, waiting) = (ctx.claim(&name), ctx.claim(&name).queueing());
    let hold = granted(b.lock.try_acquire(&held).await?)?;
    queued(a.lock.try_acquire(&waiting).await?)?;
    ctx.harness().end_session(&a).await.made()?;
    b.lock.release(&held).await?;
    let clock = ctx.clock();
    let until = clock.now().plus(ctx.takeover(ctx.granted_ttl(&hold)?));
    while clock.now() < until {
        match a.lock.try_acquire(&waiting).await {
            Err(error) if error.kind() == ErrorKind::SessionChanged => break,
            Err(_) | Ok(Attempt::Queued) => clock.sleep(crate::steps::POLL).await,
            Ok(other) => {
                return Err(Stop::failed(format_args!("the waiter's session has ended, yet it answers {other:?}")));
            }
        }
    }
    ensure!(clock.now() < until, "a waiter of an ended session was never told SessionChanged");
    Ok(())
}

async fn new_session_starts_anew(ctx: &Context) -> Checked {
    ctx.needs_sessions()?;
    let (a, b) = ctx.two().await?;
    let name = ctx.name();
    let hold = granted(a.lock.try_acquire(&ctx.claim(&name)).await?)?;
    ctx.harness().end_session(&a).await.made()?;
    let claim = ctx.claim(&name).queueing();
    let limit = ctx.takeover(ctx.granted_ttl(&hold)?) + ctx.harness().op_timeout() + ctx.recheck(&claim);
    let (claim, again) = persist(&*a.lock, claim, limit).await?;
    if let (Some(old), Some(new)) = (hold.token, again.token) {
        ensure!(new > old, "the new session's hold has token {new}, the ended one's had {old}");
    }
    stands(a.lock.renew(&claim).await?)?;
    crate::steps::busy(b.lock.try_acquire(&ctx.claim(&name)).await?)
}
