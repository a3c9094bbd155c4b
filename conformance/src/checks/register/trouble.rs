//! Registers when the server, the link or the writer is in trouble.

use lockyard_api::{Error, Fenced, Fencing, Outcome, Version, Write};

use super::{client, conflict, holds, numbered, persist, stale, written};
use crate::steps::{acquire, granted, token, within};
use crate::stop::ensure;
use crate::{Checked, Context, Stop};

pub(super) async fn survives_restart(ctx: &Context) -> Checked {
    ctx.needs(ctx.capabilities().fencing == Fencing::Durable, "no capability: durable fencing")?;
    let a = client(ctx).await?;
    let (name, old, new) = (ctx.name(), numbered(4)?, numbered(5)?);
    let version = written(a.register.write(&name, b"kept", new, Version::ABSENT).await?)?;
    ctx.harness().kill_server().await.made()?;
    ctx.harness().restart_server().await.made()?;
    let right = Fenced::new(b"kept".to_vec(), new, version);
    holds(&*client(ctx).await?.register, &name, &right).await?;
    let late = persist(ctx, || a.register.write(&name, b"late", old, version)).await?;
    stale(late, new)?;
    let found = persist(ctx, || a.register.read(&name)).await?;
    ensure!(found == right, "after the restart the old client finds {found:?}");
    Ok(())
}

/// Its writer cannot know whether the write landed, and finds out by reading: where a write is one request, it has.
pub(super) async fn swallowed_reply(ctx: &Context) -> Checked {
    let (a, b) = (client(ctx).await?, client(ctx).await?);
    let link = a.link.as_deref().ok_or_else(|| Stop::ignored("the harness has no links to disturb"))?;
    let (name, token) = (ctx.name(), numbered(2)?);
    let first = written(a.register.write(&name, b"before", token, Version::ABSENT).await?)?;
    link.swallow_reply().await;
    let answer = a.register.write(&name, b"mine", token, first).await;
    match &answer {
        Ok(answer) => drop(written(*answer)?),
        Err(error) => unknown(error)?,
    }
    let found = persist(ctx, || a.register.read(&name)).await?;
    let landed = found.value.as_deref() == Some(b"mine") && found.token == Some(token) && found.version != first;
    let right = landed || (answer.is_err() && found == Fenced::new(b"before".to_vec(), token, first));
    ensure!(right, "the write that expected version {first} is answered {answer:?}, and its writer reads {found:?}");
    holds(&*b.register, &name, &found).await?;
    let again = persist(ctx, || b.register.write(&name, b"again", token, first)).await?;
    if landed { conflict(again, found.version) } else { written(again).map(drop) }
}

/// A request was written to an open connection: nobody can know.
fn unknown(error: &Error) -> Checked {
    ensure!(error.outcome() == Outcome::Unknown, "a write without an answer says {:?}: {error}", error.outcome());
    Ok(())
}

/// The write may land later: repeated, one of the two counts.
pub(super) async fn silence_is_unknown(ctx: &Context) -> Checked {
    let a = client(ctx).await?;
    let link = a.link.as_deref().ok_or_else(|| Stop::ignored("the harness has no links to disturb"))?;
    let (name, token) = (ctx.name(), numbered(2)?);
    let first = written(a.register.write(&name, b"before", token, Version::ABSENT).await?)?;
    link.silence().await;
    let limit = ctx.harness().op_timeout() + ctx.patience();
    let call = async { Ok(a.register.write(&name, b"first", token, first).await) };
    let ended = within(limit, "a write to a silent server should end", call).await;
    link.heal().await;
    match ended? {
        Ok(answer) => {
            return Err(Stop::failed(format_args!("the server was silent and a write is answered {answer:?}")));
        }
        Err(error) => unknown(&error)?,
    }
    let again = persist(ctx, || a.register.write(&name, b"again", token, first)).await?;
    let found = persist(ctx, || a.register.read(&name)).await?;
    match again {
        Write::Written { version } => {
            ensure!(
                found == Fenced::new(b"again".to_vec(), token, version),
                "the second write counts, {found:?} is read"
            );
        }
        Write::Conflict { version } => {
            // A repetition whose own answer was lost on the old connection is a conflict as well.
            let one = matches!(found.value.as_deref(), Some(b"first" | b"again"));
            ensure!(one && found.version == version, "the first write has landed, {found:?} is read");
        }
        other => return Err(Stop::failed(format_args!("a repeated write is answered {other:?}"))),
    }
    Ok(())
}

/// B44: a holder that is paused between reading and writing for longer than its lease.
pub(super) async fn paused_holder_is_refused(ctx: &Context) -> Checked {
    ctx.needs_fencing()?;
    ctx.needs_expiry()?;
    let (late, next) = (client(ctx).await?, client(ctx).await?);
    let (a, b) = ctx.two().await?;
    let name = ctx.name();
    let (first, second) = (ctx.short(&name), ctx.short(&name).queueing());
    let grant = granted(a.lock.try_acquire(&first).await?)?;
    let (old, ttl) = (token(&grant)?, ctx.granted_ttl(&grant)?);
    let found = late.register.read(&name).await?;
    ctx.hang(&a).await?;
    if let Some(link) = &late.link {
        link.silence().await;
    }
    let taken = async {
        let grant = acquire(&*b.lock, &second, ctx.takeover(ttl) + ctx.recheck(&second)).await?;
        let new = token(&grant)?;
        let found = next.register.read(&name).await?;
        let version = written(next.register.write(&name, b"next", new, found.version).await?)?;
        Ok::<_, Stop>(Fenced::new(b"next".to_vec(), new, version))
    }
    .await;
    ctx.unhang(&a).await;
    if let Some(link) = &late.link {
        link.heal().await;
    }
    let right = taken?;
    let new = right.token.ok_or_else(|| Stop::failed("a value without a token"))?;
    stale(persist(ctx, || late.register.write(&name, b"late", old, found.version)).await?, new)?;
    // Nor does it help to look again.
    let seen = persist(ctx, || late.register.read(&name)).await?;
    stale(persist(ctx, || late.register.write(&name, b"late", old, seen.version)).await?, new)?;
    holds(&*next.register, &name, &right).await
}
