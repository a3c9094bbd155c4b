//! Clause 6, from the resource's side: a fenced register refuses who comes late.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use lockyard_api::{
    ErrorKind, Fenced, FencedRegister, FencingToken, LockName, Outcome, Release, Result, Version, Write,
};
use tokio::task::JoinSet;

mod trouble;

use super::checks;
use super::name::{PAIRS, names};
use crate::harness::RegisterClient;
use crate::steps::{POLL, answered, granted, within};
use crate::stop::ensure;
use crate::{Checked, Context, Stop};
use trouble::{paused_holder_is_refused, silence_is_unknown, survives_restart, swallowed_reply};

checks! {
    6 register: fresh_is_empty v2, keeps_every_byte v2, too_long_is_refused v2, stale_token_is_refused v2,
    equal_token_is_accepted v2, version_conflict v2, one_writer_a_version v2, names_apart v2, namespaces_apart v2,
    beside_its_lock v2, survives_reconnect v2, survives_restart alone v2, swallowed_reply v2, silence_is_unknown v2,
    paused_holder_is_refused v2, age_is_of_the_last_write v2
}

type Register = dyn FencedRegister;

async fn client(ctx: &Context) -> Checked<RegisterClient> {
    let client = ctx.harness().register().await?;
    client.ok_or_else(|| Stop::ignored("the harness has no fenced register"))
}

/// By the clock of the server; where the register tells it.
async fn age_is_of_the_last_write(ctx: &Context) -> Checked {
    const OLD: Duration = Duration::from_millis(300);
    const ROUNDING: Duration = Duration::from_millis(50);
    let (a, b) = (client(ctx).await?, client(ctx).await?);
    ctx.needs(a.register.tells_age(), "the register does not tell how old a value is")?;
    let (name, clock) = (ctx.name(), ctx.clock());
    let none = a.register.age(&name).await?;
    ensure!(none.is_none(), "a name that was never written is {none:?} old");
    let mut version = Version::ABSENT;
    for value in [b"1", b"2"] {
        let before = clock.now();
        version = written(a.register.write(&name, value, numbered(1)?, version).await?)?;
        let just = clock.now();
        for register in [&a.register, &b.register] {
            let age = register.age(&name).await?.ok_or_else(|| Stop::failed("a value without an age"))?;
            let most = clock.now().since(before) + ROUNDING;
            ensure!(age <= most, "a value that was written {most:?} ago at most is {age:?} old");
        }
        clock.sleep(OLD).await;
        let least = clock.now().since(just);
        let age = b.register.age(&name).await?.unwrap_or_default();
        ensure!(age + ROUNDING >= least, "a value that was written {least:?} ago is {age:?} old");
    }
    Ok(())
}

/// A token as a server might have given it.
fn numbered(number: u64) -> Checked<FencingToken> {
    Ok(FencingToken::from_server(number)?)
}

#[track_caller]
fn written(write: Write) -> Checked<Version> {
    match write {
        Write::Written { version } => Ok(version),
        other => Err(Stop::failed(format_args!("the write should be accepted and is answered {other:?}"))),
    }
}

#[track_caller]
fn stale(write: Write, right: FencingToken) -> Checked {
    if write == (Write::StaleToken { stored: right }) {
        return Ok(());
    }
    Err(Stop::failed(format_args!("token {right} has written since, an older one is answered {write:?}")))
}

#[track_caller]
fn conflict(write: Write, right: Version) -> Checked {
    if write == (Write::Conflict { version: right }) {
        return Ok(());
    }
    Err(Stop::failed(format_args!("version {right} is stored, a write that expects another is answered {write:?}")))
}

/// The register holds exactly this.
async fn holds(register: &Register, name: &LockName, right: &Fenced) -> Checked {
    let found = register.read(name).await?;
    ensure!(found == *right, "{name:?} should hold {right:?} and holds {found:?}");
    Ok(())
}

/// Asks until there is an answer that is no error of the connection. A write may be sent again: it lands once at most.
async fn persist<T, F>(ctx: &Context, mut call: impl FnMut() -> F) -> Checked<T>
where
    F: Future<Output = Result<T>>,
{
    let limit = ctx.harness().op_timeout() * 2 + ctx.patience();
    within(limit, "the register should answer once the server does", async {
        loop {
            match call().await {
                Ok(answer) => return Ok(answer),
                Err(error) if error.kind().is_transient() => ctx.clock().sleep(POLL).await,
                Err(error) => return Err(error.into()),
            }
        }
    })
    .await
}

async fn fresh_is_empty(ctx: &Context) -> Checked {
    let a = client(ctx).await?;
    let name = ctx.name();
    holds(&*a.register, &name, &Fenced::absent()).await?;
    conflict(a.register.write(&name, b"x", numbered(1)?, Version::new(1)).await?, Version::ABSENT)?;
    holds(&*a.register, &name, &Fenced::absent()).await
}

async fn keeps_every_byte(ctx: &Context) -> Checked {
    let (a, b) = (client(ctx).await?, client(ctx).await?);
    let name = ctx.name();
    let every = (0..=u8::MAX).cycle().take(2000).collect();
    let mut version = Version::ABSENT;
    for value in [every, Vec::new(), b"'; $1 $q$ \\x00 \0".to_vec(), vec![0xff; Fenced::MAX_VALUE_BYTES]] {
        let token = numbered(7)?;
        version = written(a.register.write(&name, &value, token, version).await?)?;
        let found = b.register.read(&name).await?;
        let (right, is) = (value.len(), found.value.as_ref().map(Vec::len));
        ensure!(found == Fenced::new(value, token, version), "{right} bytes come back changed, {is:?} long");
    }
    Ok(())
}

async fn too_long_is_refused(ctx: &Context) -> Checked {
    let a = client(ctx).await?;
    let name = ctx.name();
    let value = vec![b'x'; Fenced::MAX_VALUE_BYTES + 1];
    match a.register.write(&name, &value, numbered(1)?, Version::ABSENT).await {
        Ok(answer) => Err(Stop::failed(format_args!("a value that is too long is answered {answer:?}"))),
        Err(error) => {
            let told = (error.kind(), error.outcome());
            ensure!(
                told == (ErrorKind::InvalidValue, Outcome::NotApplied),
                "a value that is too long is {told:?}: {error}"
            );
            holds(&*a.register, &name, &Fenced::absent()).await
        }
    }
}

async fn stale_token_is_refused(ctx: &Context) -> Checked {
    let (a, b) = (client(ctx).await?, client(ctx).await?);
    let name = ctx.name();
    // As texts these numbers would be the other way round.
    let (old, new) = (numbered(9)?, numbered(10)?);
    let first = written(a.register.write(&name, b"old", old, Version::ABSENT).await?)?;
    let second = written(b.register.write(&name, b"new", new, first).await?)?;
    let right = Fenced::new(b"new".to_vec(), new, second);
    for late in [&a, &b] {
        stale(late.register.write(&name, b"late", old, second).await?, new)?;
        let just_before = FencingToken::new(new.get() - 1)?;
        stale(late.register.write(&name, b"late", just_before, second).await?, new)?;
        holds(&*late.register, &name, &right).await?;
    }
    Ok(())
}

async fn equal_token_is_accepted(ctx: &Context) -> Checked {
    let (a, b) = (client(ctx).await?, client(ctx).await?);
    let (name, token) = (ctx.name(), numbered(3)?);
    let mut version = Version::ABSENT;
    for (client, value) in [(&a, b"1"), (&a, b"2"), (&b, b"3")] {
        version = written(client.register.write(&name, value, token, version).await?)?;
        holds(&*b.register, &name, &Fenced::new(value.to_vec(), token, version)).await?;
    }
    Ok(())
}

async fn version_conflict(ctx: &Context) -> Checked {
    let (a, b) = (client(ctx).await?, client(ctx).await?);
    let name = ctx.name();
    let (low, high) = (numbered(3)?, numbered(4)?);
    let first = written(a.register.write(&name, b"1", low, Version::ABSENT).await?)?;
    let second = written(b.register.write(&name, b"2", low, first).await?)?;
    ensure!(first != second && first != Version::ABSENT, "two writes made the versions {first} and {second}");
    for expected in [first, Version::ABSENT, Version::new(second.get() + 1)] {
        for token in [low, high] {
            conflict(a.register.write(&name, b"late", token, expected).await?, second)?;
        }
    }
    // What was refused has changed nothing, the token included.
    holds(&*a.register, &name, &Fenced::new(b"2".to_vec(), low, second)).await
}

async fn one_writer_a_version(ctx: &Context) -> Checked {
    const WRITERS: u8 = 4;
    let mut clients = Vec::new();
    for _ in 0..WRITERS {
        clients.push(client(ctx).await?);
    }
    let (name, token) = (ctx.name(), numbered(5)?);
    let (mut version, mut seen) = (Version::ABSENT, HashSet::new());
    for round in 0..5 {
        let mut writers = JoinSet::new();
        for (value, client) in (round * WRITERS..).zip(&clients) {
            let (register, name) = (Arc::clone(&client.register), name.clone());
            writers.spawn(async move { (value, register.write(&name, &[value], token, version).await) });
        }
        let mut made = Vec::new();
        while let Some(ended) = writers.join_next().await {
            match ended.map_err(|panic| Stop::failed(format_args!("a writer ended by a panic: {panic}")))? {
                (value, Ok(Write::Written { version })) => made.push((value, version)),
                (_, Ok(Write::Conflict { .. })) => {}
                (_, Ok(other)) => {
                    return Err(Stop::failed(format_args!("writers of one token are answered {other:?}")));
                }
                (_, Err(error)) => return Err(error.into()),
            }
        }
        let &[(value, next)] = made.as_slice() else {
            return Err(Stop::failed(format_args!("{WRITERS} writers expect version {version}, {} wrote", made.len())));
        };
        ensure!(seen.insert(next), "version {next} comes twice");
        holds(&*clients[0].register, &name, &Fenced::new(vec![value], token, next)).await?;
        version = next;
    }
    Ok(())
}

async fn names_apart(ctx: &Context) -> Checked {
    let tag = format!("{:08x}", fastrand::u32(..));
    let namespace = format!("check-{tag}");
    let (a, b) = match ctx.harness().register_in(&namespace).await? {
        Some(a) => (a, ctx.harness().register_in(&namespace).await?),
        None => (client(ctx).await?, Some(client(ctx).await?)),
    };
    let b = b.ok_or_else(|| Stop::failed("register_in offered a namespace once and not again"))?;
    let mut stored = Vec::new();
    for (at, name) in names().into_iter().enumerate() {
        let name = LockName::new(name)?;
        // Without namespaces an earlier run may have left its values.
        let found = a.register.read(&name).await?;
        let token = numbered(1)?;
        let value = format!("{at} {tag}").into_bytes();
        let version = written(a.register.write(&name, &value, token, found.version).await?)?;
        stored.push((name, Fenced::new(value, token, version)));
    }
    for (name, right) in &stored {
        holds(&*b.register, name, right).await?;
    }
    Ok(())
}

async fn namespaces_apart(ctx: &Context) -> Checked {
    client(ctx).await?;
    let tag = format!("{:08x}", fastrand::u32(..));
    let mut stored = Vec::new();
    for (at, (namespace, name)) in PAIRS.iter().enumerate() {
        let client = ctx.harness().register_in(&format!("a{tag}{namespace}")).await?;
        let client = client.ok_or_else(|| Stop::ignored("the harness has no namespaces"))?;
        let (name, value, token) = (LockName::new(name)?, at.to_string().into_bytes(), numbered(1)?);
        let version = written(client.register.write(&name, &value, token, Version::ABSENT).await?)?;
        stored.push((client, name, Fenced::new(value, token, version)));
    }
    for (client, name, right) in stored {
        holds(&*client.register, &name, &right).await?;
    }
    Ok(())
}

/// The value under a lock may bear the lock's name, and those that look like a backend's own.
async fn beside_its_lock(ctx: &Context) -> Checked {
    let (a, lock) = (client(ctx).await?, ctx.client().await?);
    let (base, mut stored) = (ctx.name(), Vec::new());
    for form in ["", "/register", "%register", ":register", "}:register", ".register", ".register.lock"] {
        let name = LockName::new(format!("{base}{form}"))?;
        let version = written(a.register.write(&name, form.as_bytes(), numbered(1)?, Version::ABSENT).await?)?;
        stored.push((name, Fenced::new(form.as_bytes().to_vec(), numbered(1)?, version)));
    }
    let special = LockName::new("%register")?;
    let mut claims = vec![ctx.claim(&special)];
    claims.extend(stored.iter().map(|(name, _)| ctx.claim(name)));
    for claim in &claims {
        granted(lock.lock.try_acquire(claim).await?)?;
    }
    for (name, right) in &stored {
        holds(&*a.register, name, right).await?;
    }
    for claim in &claims {
        answered(lock.lock.release(claim).await?, Release::Released)?;
    }
    for (name, right) in &stored {
        holds(&*a.register, name, right).await?;
    }
    Ok(())
}

async fn survives_reconnect(ctx: &Context) -> Checked {
    let (a, b) = (client(ctx).await?, client(ctx).await?);
    let (name, token) = (ctx.name(), numbered(2)?);
    let version = written(a.register.write(&name, b"kept", token, Version::ABSENT).await?)?;
    drop(a);
    let right = Fenced::new(b"kept".to_vec(), token, version);
    holds(&*client(ctx).await?.register, &name, &right).await?;
    holds(&*b.register, &name, &right).await?;
    if let Some(link) = &b.link {
        link.cut().await;
        let found = persist(ctx, || b.register.read(&name)).await?;
        ensure!(found == right, "after its connection was closed the client finds {found:?}");
        let version = persist(ctx, || b.register.write(&name, b"next", token, version)).await?;
        written(version)?;
    }
    Ok(())
}
