//! What is kept of unused names goes, what is in use stays, and tokens go on rising (B144).

mod support;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use lockyard::{Clock, GarbageCollect, Locker, Unused};
use lockyard_testbed::{Service, timing};
use support::{Checked, server, token};
use tokio::task::JoinSet;

const HOUR: Duration = Duration::from_secs(3600);
const ONCE_USED: [&str; 3] = ["job:a", "job:b {x}%*", "other/c"];
const HELD: &str = "job:held";
const WAITED_FOR: &str = "job:waited-for";

/// What a backend keeps, and whether its server removes it as well.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keeps {
    Dated,
    Undated,
    /// The server may be first.
    ReapedToo,
}

fn all(time: Duration) -> Unused {
    Unused::for_at_least(time)
}

async fn removed(garbage: &dyn GarbageCollect, unused: Unused) -> Checked<BTreeSet<String>> {
    Ok(garbage.collect(&unused).await?.removed.into_iter().collect())
}

async fn waits(locks: &Locker, name: &str) -> Checked {
    let waiting = async {
        while locks.inspect(name).await?.and_then(|holder| holder.waiters) != Some(1) {
            Clock::system().sleep(Duration::from_millis(5)).await;
        }
        Checked::Ok(())
    };
    tokio::time::timeout(timing::scaled(Duration::from_secs(20)), waiting).await?
}

async fn use_once(locks: &Locker, name: &str) -> Checked<u64> {
    let guard = locks.try_acquire(name).await?.ok_or_else(|| format!("{name:?} is busy"))?;
    let number = token(&guard)?.get();
    guard.release().await?;
    Ok(number)
}

async fn only_what_is_unused_goes(url: &str, keeps: Keeps) -> Checked {
    let (locks, other) = (lockyard::connect(url).await?, lockyard::connect(url).await?);
    let garbage = lockyard::connect_garbage(url).await?;
    let mut tokens = Vec::new();
    for name in ONCE_USED {
        tokens.push(use_once(&locks, name).await?);
    }
    let (held, first) = (locks.acquire(HELD).await?, locks.acquire(WAITED_FOR).await?);
    let waiter = tokio::spawn({
        let other = other.clone();
        async move { other.acquire(WAITED_FOR).await }
    });
    waits(&locks, WAITED_FOR).await?;

    let young = garbage.collect(&all(HOUR)).await?;
    assert_eq!((young.removed.len(), young.in_use), (0, 2), "{young:?}");
    let (recent, undated) = if keeps == Keeps::Undated { (0, 3) } else { (3, 0) };
    if keeps != Keeps::ReapedToo {
        assert_eq!((young.recent, young.undated), (recent, undated), "{young:?}");
    }
    let expected: BTreeSet<String> = ONCE_USED.map(str::to_owned).into();
    let is_expected = |found: &BTreeSet<String>, expected: &BTreeSet<String>| match keeps {
        Keeps::ReapedToo => found.is_subset(expected),
        _ => found == expected,
    };
    for _ in 0..2 {
        let seen = removed(&*garbage, all(Duration::ZERO).only_look()).await?;
        assert!(is_expected(&seen, &expected), "{seen:?}");
    }
    let jobs = expected.iter().filter(|name| name.starts_with("job:")).cloned().collect();
    let gone = removed(&*garbage, all(Duration::ZERO).with_prefix("job:")).await?;
    assert!(is_expected(&gone, &jobs), "{gone:?}");
    let rest = garbage.collect(&all(Duration::ZERO)).await?;
    assert!(is_expected(&rest.removed.iter().cloned().collect(), &["other/c".to_owned()].into()), "{rest:?}");
    let nothing = garbage.collect(&all(Duration::ZERO)).await?;
    assert_eq!((nothing.removed.len(), nothing.in_use, nothing.recent, nothing.undated), (0, 2, 0, 0));

    assert!(other.try_acquire(HELD).await?.is_none(), "a held name was given to another");
    held.release().await?;
    let before = token(&first)?;
    first.release().await?;
    let next = waiter.await??;
    assert!(token(&next)? > before);
    next.release().await?;
    // By a client that knew the names when they were removed, and by another.
    for (name, before) in ONCE_USED.into_iter().zip(tokens) {
        let after = use_once(&locks, name).await?;
        assert!(after > before && use_once(&other, name).await? > after, "{name:?}: {before}, then {after}");
    }
    Ok(())
}

/// The last token of a name, and whether somebody holds it.
#[derive(Default)]
struct Watched {
    token: AtomicU64,
    held: AtomicBool,
}

/// Names are taken while they are removed all the time: one holder each, and tokens that rise.
async fn a_removal_never_meets_a_holder(url: &str) -> Checked {
    const NAMES: usize = 3;
    const ROUNDS: usize = 60;
    const REMOVALS: usize = 20;
    let watched: Arc<[Watched; NAMES]> = Arc::default();
    let gone = Arc::new(AtomicUsize::new(0));
    let garbage = lockyard::connect_garbage(url).await?;
    let mut working = JoinSet::new();
    for worker in 0..4 {
        let (locks, watched, gone) = (lockyard::connect(url).await?, Arc::clone(&watched), Arc::clone(&gone));
        working.spawn(async move {
            let mut round = 0;
            while round < ROUNDS || gone.load(Ordering::SeqCst) < REMOVALS {
                let name = (round + worker) % NAMES;
                let guard = locks.acquire(format!("race-{name}")).await?;
                let it = &watched[name];
                assert!(!it.held.swap(true, Ordering::SeqCst), "two holders of race-{name}");
                let number = token(&guard)?.get();
                let before = it.token.swap(number, Ordering::SeqCst);
                assert!(number > before, "race-{name}: token {number} after {before}");
                it.held.store(false, Ordering::SeqCst);
                guard.release().await?;
                // Now and then a moment in which the name is nobody's.
                Clock::system().sleep(Duration::from_millis(fastrand::u64(0..4))).await;
                round += 1;
            }
            Checked::Ok(())
        });
    }
    let over = AtomicBool::new(false);
    let sweeping = async {
        // Not dropped half-way: what it does goes on for a moment.
        while !over.load(Ordering::SeqCst) {
            let collected = garbage.collect(&all(Duration::ZERO)).await?;
            gone.fetch_add(collected.removed.len(), Ordering::SeqCst);
            tokio::task::yield_now().await;
        }
        Checked::Ok(())
    };
    let worked = async {
        let mut ended = Checked::Ok(());
        while let Some(worker) = working.join_next().await {
            ended = ended.and(worker.map_err(Into::into).flatten());
        }
        over.store(true, Ordering::SeqCst);
        ended
    };
    let ended = async {
        let (worked, swept) = tokio::join!(worked, sweeping);
        worked.and(swept)
    };
    tokio::time::timeout(timing::scaled(Duration::from_secs(60)), ended).await?
}

async fn both(url: &str, keeps: Keeps) -> Checked {
    only_what_is_unused_goes(url, keeps).await?;
    a_removal_never_meets_a_holder(url).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn file() -> Checked {
    let directory = std::env::temp_dir().join(format!("lockyard-garbage-{}", std::process::id()));
    let ended = both(&format!("file://{}", directory.display()), Keeps::Dated).await;
    let removed = std::fs::remove_dir_all(&directory);
    ended?;
    Ok(removed?)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis() -> Checked {
    let Some(server) = server(Service::Redis).await? else { return Ok(()) };
    both(&server.lock_url(), Keeps::Dated).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres() -> Checked {
    let Some(server) = server(Service::Postgres).await? else { return Ok(()) };
    let url = |mode| format!("{}?lock={mode}", server.lock_url());
    both(&url("lease"), Keeps::Dated).await?;
    both(&url("row"), Keeps::Undated).await?;
    nothing_is_kept(&url("advisory")).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn etcd() -> Checked {
    let Some(server) = server(Service::Etcd).await? else { return Ok(()) };
    nothing_is_kept(&server.lock_url()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn zookeeper() -> Checked {
    let Some(server) = server(Service::Zookeeper).await? else { return Ok(()) };
    both(&server.lock_url(), Keeps::ReapedToo).await
}

async fn nothing_is_kept(url: &str) -> Checked {
    let locks = lockyard::connect(url).await?;
    let before = use_once(&locks, "job:a").await?;
    let collected = lockyard::connect_garbage(url).await?.collect(&all(Duration::ZERO)).await?;
    assert_eq!(collected, lockyard::Collected::new());
    assert!(use_once(&locks, "job:a").await? > before);
    Ok(())
}

#[tokio::test]
async fn locks_in_memory_have_nothing_to_remove() {
    let refused = lockyard::connect_garbage("memory:").await.expect_err("they end with their process");
    assert_eq!(refused.kind(), lockyard::ErrorKind::Unsupported);
}
