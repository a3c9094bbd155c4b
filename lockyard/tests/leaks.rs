//! Many cycles over many names, half of them given up: what they used comes back (B157).
//!
//! A few thousand cycles unless `LOCKYARD_LEAK_CYCLES` says how many (100000 is the full count, a tenth of it names). What
//! stays on a server by design is counted and printed: run with `--nocapture`.

#[path = "leaks/client.rs"]
mod client;
#[path = "leaks/server.rs"]
mod server;
mod support;

use std::sync::LazyLock;
use std::time::Duration;

use client::Meters;
use lockyard::{Clock, ErrorKind, GarbageCollect, Locker, Unused};
use lockyard_testbed::{Service, timing};
use server::{Counts, Numbers};
use support::Checked;
use tokio::sync::Mutex;
use tokio::task::JoinSet;

/// The process has one memory and one table of files: one backend at a time.
static ALONE: LazyLock<Mutex<()>> = LazyLock::new(Mutex::default);

/// How long what was given up may take to go: an idle watch is kept for a while.
const SETTLING: Duration = Duration::from_secs(60);
/// What an allocator may keep of many short-lived tasks; a leak of a kilobyte a cycle at the full count is 100 MB.
const MEMORY_NOISE: usize = 24 << 20;

fn cycles(few: usize) -> usize {
    std::env::var("LOCKYARD_LEAK_CYCLES").ok().and_then(|text| text.parse().ok()).unwrap_or(few)
}

/// Cycles of eight tasks over two clients: acquired and released, dropped, timed out, cancelled.
async fn run(lockers: &[Locker; 2], prefix: &'static str, cycles: usize, names: usize) {
    const TASKS: usize = 8;
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let locks = lockers[task % 2].clone();
        tasks.spawn(async move {
            let mut random = fastrand::Rng::with_seed(task as u64);
            for cycle in 0..cycles / TASKS {
                // Neighbours in time are neighbours in names, so that some wait for each other.
                let name = format!("{prefix}-{}", (cycle * TASKS + random.usize(0..TASKS)) % names);
                give_or_take(&locks, &name, &mut random).await;
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.expect("no task fails");
    }
}

async fn give_or_take(locks: &Locker, name: &str, random: &mut fastrand::Rng) {
    let request = locks.lock(name).ttl(Duration::from_secs(30));
    let soon = Duration::from_micros(random.u64(0..3000));
    match random.u8(0..4) {
        0 => drop(tokio::time::timeout(soon, request.acquire()).await),
        1 => drop(request.wait(soon).acquire().await),
        2 => drop(request.acquire().await.expect("acquired")),
        _ => drop(request.acquire().await.expect("acquired").release().await.expect("released")),
    }
}

/// Both warm up on other names; then nothing may grow but what is kept by design.
async fn nothing_grows(url: &str, counts: &dyn Counts, few: usize) -> Checked {
    let (cycles, names) = (cycles(few), (cycles(few) / 10).max(10));
    let lockers = [lockyard::connect(url).await?, lockyard::connect(url).await?];
    run(&lockers, "warm", (cycles / 5).max(400), 50).await;
    let before = settle(&lockers, counts, None).await?;
    let kept = counts.kept().await?;
    run(&lockers, "leak", cycles, names).await;
    let after = settle(&lockers, counts, Some(&before)).await?;
    println!("{url}: {cycles} cycles, {names} names: before {before:?}, after {after:?}");
    println!("{url}: kept by design: before {kept:?}, after {:?}", counts.kept().await?);
    nothing_is_kept_for_ever(url, counts, &kept).await?;
    let grown = after.memory.saturating_sub(before.memory);
    assert!(grown <= MEMORY_NOISE, "{} KiB more memory after {cycles} cycles", grown >> 10);
    for number in (0..names).step_by((names / 50).max(1)) {
        let guard = lockers[0].try_acquire(format!("leak-{number}")).await?;
        guard.ok_or("a name is held by nobody and busy")?.release().await?;
    }
    Ok(())
}

/// What stays by design goes by a collection: after it there is no more than before the run.
async fn nothing_is_kept_for_ever(url: &str, counts: &dyn Counts, before: &Numbers) -> Checked {
    let collected = match lockyard::connect_garbage(url).await {
        Ok(garbage) => garbage.collect(&Unused::for_at_least(Duration::ZERO)).await?,
        Err(error) if error.kind() == ErrorKind::Unsupported => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let after = counts.kept().await?;
    println!("{url}: {} names removed, {} in use; kept then: {after:?}", collected.removed.len(), collected.in_use);
    assert_eq!((collected.in_use, collected.recent), (0, 0), "nobody uses a name");
    for (what, number) in &after {
        let first = before.get(what).copied().unwrap_or_default();
        assert!(*number <= first, "{number} {what} after the collection, {first} before the run");
    }
    Ok(())
}

/// The meters once nothing moves any more, and not above those of `before`.
async fn settle(lockers: &[Locker; 2], counts: &dyn Counts, before: Option<&Meters>) -> Checked<Meters> {
    let mut last = Meters::default();
    let wait = async {
        loop {
            let now = Meters::read(counts.left().await?);
            let pending: usize = lockers.iter().map(Locker::pending_releases).sum();
            let grown = before.is_some_and(|before| !now.at_most(before, counts.reserve(), counts.reserve_of_tasks()));
            if pending == 0 && now.is_unwatched() && now.same(&last) && !grown {
                return Checked::Ok(());
            }
            last = now;
            // Looks that lie apart in time: what still moves shows.
            Clock::system().sleep(Duration::from_millis(300)).await;
        }
    };
    let ended = tokio::time::timeout(timing::scaled(SETTLING), wait).await;
    match ended {
        Ok(read) => read.map(|()| last),
        Err(_) => Err(format!("not settled: {last:?}, before {before:?}").into()),
    }
}

async fn on(service: Service, few: usize) -> Checked {
    let _alone = ALONE.lock().await;
    let Some(server) = support::server(service).await? else { return Ok(()) };
    let counts = server::of(&server)?;
    nothing_grows(&server.lock_url(), &*counts, few).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory() -> Checked {
    let _alone = ALONE.lock().await;
    nothing_grows("memory://leaks", &server::Nothing, 20_000).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis() -> Checked {
    on(Service::Redis, 5_000).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres() -> Checked {
    let _alone = ALONE.lock().await;
    let Some(server) = support::server(Service::Postgres).await? else { return Ok(()) };
    let counts = server::of(&server)?;
    nothing_grows(&server.lock_url(), &*counts, 1_000).await?;
    for mode in ["lease", "row"] {
        nothing_grows(&format!("{}?lock={mode}", server.lock_url()), &*counts, 400).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn etcd() -> Checked {
    on(Service::Etcd, 2_000).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn zookeeper() -> Checked {
    on(Service::Zookeeper, 2_000).await
}
