//! `connections`: how many connections one client has for many names.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use lockyard_api::{ErrorKind, Guard, Locker};
use tokio::task::JoinSet;

use super::process::connections_to;
use super::{Found, Job, Sample, Trial};
use crate::report::Connections;
use crate::side::{Outcome, Trouble};
use crate::target::Target;

/// How many requests are under way at a time.
const AT_ONCE: usize = 32;
/// How often what opens connections is looked at, and how long nothing may change before it is at rest.
const LOOK: Duration = Duration::from_millis(100);
const REST: u32 = 10;
/// A client that opens connections for longer has no rest.
const LOOKS: u32 = 600;

pub(super) async fn run(job: &Job, names: usize) -> Outcome<Trial> {
    let target = job.target.as_ref().ok_or_else(super::no_target)?;
    let port = port(target)?;
    let before = connections_to(port)?;
    let holder = Locker::over((target.connect)().await?).build()?;
    let (guards, refused) = hold(&holder, &job.name, names).await?;
    let held_connections = at_rest(job, port, &before, || 0).await?;
    let before = connections_to(port)?;
    let waiter = Locker::over((target.connect)().await?).build()?;
    let waiting = wait(job, &waiter, port, &before, guards.len()).await;
    // Give the names back first: who waits for them may end then, too.
    stream::iter(guards).for_each_concurrent(AT_ONCE, |guard| async move { drop(guard.release().await) }).await;
    let _ = tokio::join!(holder.shutdown(), waiter.shutdown());
    let (waited, waited_connections, full) = waiting?;
    let held = names - refused;
    let mut notes = Vec::new();
    if refused > 0 {
        notes.push(format!("more than {held} holds are refused: Capacity"));
    }
    if full > 0 {
        notes.push(format!("more than {waited} waits are refused: Capacity"));
    }
    let found = Connections {
        held: held as u64,
        waited: waited as u64,
        held_connections: held_connections as u64,
        waited_connections: waited_connections as u64,
        note: notes.join("; "),
    };
    Ok(Trial { found: Some(Found::Connections(found)), ..Trial::alone(Sample::default()) })
}

fn port(target: &Target) -> Outcome<u16> {
    let (url, _) = target.parsed()?;
    let usual = match target.kind.as_str() {
        "redis" => 6379,
        "postgres" => 5432,
        "etcd" => 2379,
        _ => 2181,
    };
    let host = url.hosts.first().ok_or_else(|| Trouble::new("the URL names no host"))?;
    Ok(host.port.unwrap_or(usual))
}

/// Takes so many names; how many were refused because nothing more fits.
async fn hold(locker: &Locker, name: &str, names: usize) -> Outcome<(Vec<Guard>, usize)> {
    let mut tried = stream::iter(0..names).map(|at| locker.acquire(format!("{name}-{at}"))).buffer_unordered(AT_ONCE);
    let (mut guards, mut refused) = (Vec::new(), 0);
    while let Some(granted) = tried.next().await {
        match granted {
            Ok(guard) => guards.push(guard),
            Err(error) if error.kind() == ErrorKind::Capacity => refused += 1,
            Err(error) => return Err(error.into()),
        }
    }
    Ok((guards, refused))
}

/// Waits for names that are held: how many wait, over how many connections, and how many were refused.
async fn wait(
    job: &Job,
    locker: &Locker,
    port: u16,
    before: &BTreeSet<u64>,
    held: usize,
) -> Outcome<(usize, usize, usize)> {
    // Only names that are held can be waited for; which of them are is known by their number.
    let mut waiting = JoinSet::new();
    for at in 0..held {
        let (locker, name) = (locker.clone(), format!("{}-{at}", job.name));
        waiting.spawn(async move { locker.acquire(name).await });
    }
    let (mut full, mut trouble) = (0, None);
    let connections = at_rest(job, port, before, || {
        while let Some(ended) = waiting.try_join_next() {
            match ended {
                Ok(Err(error)) if error.kind() == ErrorKind::Capacity => full += 1,
                Ok(Err(error)) => trouble = Some(Trouble::from(error)),
                Ok(Ok(_)) => trouble = Some(Trouble::new("a name was granted while it was held")),
                Err(error) => trouble = Some(Trouble::from(error)),
            }
        }
        full
    })
    .await;
    let waited = waiting.len();
    waiting.shutdown().await;
    match trouble {
        Some(trouble) => Err(trouble),
        None => Ok((waited, connections?, full)),
    }
}

/// How many connections there are beside those before, once neither they nor what `also` counts change any more.
async fn at_rest(job: &Job, port: u16, before: &BTreeSet<u64>, mut also: impl FnMut() -> usize) -> Outcome<usize> {
    let (mut last, mut quiet) = (None, 0);
    for _ in 0..LOOKS {
        job.clock.sleep(LOOK).await;
        let now = (connections_to(port)?.difference(before).count(), also());
        quiet = if last == Some(now) { quiet + 1 } else { 0 };
        if quiet >= REST {
            return Ok(now.0);
        }
        last = Some(now);
    }
    Err(Trouble::new("the connections never came to rest"))
}
