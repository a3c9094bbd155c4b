//! Clause 13: names that differ, and namespace and name pairs that differ, are different locks.

use lockyard_api::LockName;

use super::checks;
use crate::steps::{busy, granted};
use crate::stop::ensure;
use crate::{Checked, Client, Context, Stop};

checks! { 13 name: differ, namespaces }

/// Pairs of namespace and name that are one text when the two are only put together.
pub(super) const PAIRS: &[(&str, &str)] =
    &[("", "bc"), ("b", "c"), ("", "b.c"), (".b", "c"), ("", "b-c"), ("-b", "c"), ("", "b_c"), ("_b", "c"), ("", "c")];

/// Names that encodings, prefixes, folding or limits may take for one another.
pub(super) fn names() -> Vec<String> {
    let long = "x".repeat(LockName::MAX_BYTES - 1);
    let mut names: Vec<String> = [
        "a",
        "A",
        "a ",
        "a/b",
        "a:b",
        "a/",
        "/a",
        "a//b",
        "a%2Fb",
        "{a}",
        "a{b}c",
        "{}",
        "}{",
        ".",
        "..",
        "zookeeper",
        "\u{e9}",
        "e\u{301}",
        "\u{1f512}",
        "\u{5e9}\u{5dc}",
        "ab",
        "a:queue",
    ]
    .map(str::to_owned)
    .to_vec();
    names.extend([format!("{long}y"), format!("{long}z"), "\u{1f512}".repeat(LockName::MAX_BYTES / 4)]);
    names
}

/// Two clients in a namespace that nobody else uses, where there are namespaces.
async fn apart(ctx: &Context) -> Checked<(Client, Client, String)> {
    let tag = format!("{:08x}", fastrand::u32(..));
    let namespace = format!("check-{tag}");
    match ctx.harness().connect_in(&namespace).await? {
        Some(a) => {
            let b = ctx.harness().connect_in(&namespace).await?;
            let b = b.ok_or_else(|| Stop::failed("connect_in offered a namespace once and not again"))?;
            Ok((a, b, String::new()))
        }
        None => ctx.two().await.map(|(a, b)| (a, b, tag)),
    }
}

async fn differ(ctx: &Context) -> Checked {
    let (a, b, tag) = apart(ctx).await?;
    let mut held = Vec::new();
    for name in names() {
        // Names of the greatest length have no room for a tag: nobody else uses them either.
        let tagged = format!("{name}{tag}");
        let name = LockName::new(if tagged.len() > LockName::MAX_BYTES { name } else { tagged })?;
        let claim = ctx.claim(&name);
        match a.lock.try_acquire(&claim).await? {
            lockyard_api::Attempt::Granted(_) => held.push(claim),
            other => return Err(Stop::failed(format_args!("{name:?} is held by nobody and answers {other:?}"))),
        }
    }
    for claim in &held {
        busy(b.lock.try_acquire(&ctx.claim(&claim.name)).await?)?;
    }
    for claim in &held {
        let release = a.lock.release(claim).await?;
        ensure!(
            release == lockyard_api::Release::Released,
            "{:?} was held and its release answers {release:?}",
            claim.name
        );
    }
    Ok(())
}

async fn namespaces(ctx: &Context) -> Checked {
    let tag = format!("{:08x}", fastrand::u32(..));
    let mut holds = Vec::new();
    for (namespace, name) in PAIRS {
        let namespace = format!("a{tag}{namespace}");
        let client = ctx.harness().connect_in(&namespace).await?;
        let client = client.ok_or_else(|| Stop::ignored("the harness has no namespaces"))?;
        let claim = ctx.claim(&LockName::new(name)?);
        granted(client.lock.try_acquire(&claim).await?)?;
        holds.push((client, claim));
    }
    for (client, claim) in holds {
        client.lock.release(&claim).await?;
    }
    Ok(())
}
