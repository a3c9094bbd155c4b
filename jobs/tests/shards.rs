//! Items shared out among members that come, go, and die.

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lockyard::Namespace;
use lockyard_jobs::{JobError, Shards};
use lockyard_memory::{MemoryOptions, MemoryServer};
use lockyard_testbed::timing::eventually;
use lockyard_testbed::{Mode, Proxy, Service};
use support::{Checked, Replica, SOON, server, server_of, soon};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

const ITEMS: u32 = 32;
const TTL: Duration = Duration::from_secs(2);

/// A member that takes part in the background.
struct Member {
    shards: Shards,
    end: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Member {
    fn start(shards: Shards) -> Self {
        let (end, ended) = oneshot::channel();
        let own = shards.clone();
        let task = tokio::spawn(async move { own.run_until(async { drop(ended.await) }).await });
        Self { shards, end, task }
    }
}

/// Who owns which item. On a runtime of one thread nothing happens during the look: an item with two owners is a fault.
fn owners(members: &[Member]) -> BTreeMap<u32, String> {
    let mut owners = BTreeMap::new();
    for member in members {
        for item in member.shards.items() {
            let other = owners.insert(item.index(), member.shards.member().to_owned());
            assert_eq!(other, None, "item {} has two owners", item.index());
        }
    }
    owners
}

fn counts(members: &[Member]) -> Vec<usize> {
    members.iter().map(|member| member.shards.items().len()).collect()
}

/// Looks all the time, so that two owners are seen, until all items are owned and nobody owns more than this.
async fn settled(members: &[Member], share: usize) -> Checked<BTreeMap<u32, String>> {
    let calm = || async {
        let owners = owners(members);
        let fair = counts(members).iter().all(|count| *count <= share);
        (owners.len() == ITEMS as usize && fair).then_some(owners)
    };
    let found = eventually(SOON * 2, calm).await;
    found.ok_or_else(|| format!("never at most {share} each: {:?}", counts(members)).into())
}

fn moved(before: &BTreeMap<u32, String>, after: &BTreeMap<u32, String>) -> usize {
    before.iter().filter(|(item, owner)| after.get(item) != Some(owner)).count()
}

/// Four members, a fifth joins, then one dies: `kill` cuts the first one off for good.
async fn items_move_only_when_they_must(mut members: Vec<Member>, fifth: Shards, kill: impl AsyncFnOnce()) -> Checked {
    let four = settled(&members, 8).await?;
    members.push(Member::start(fifth));
    let five = settled(&members, 7).await?;
    let joined = moved(&four, &five);
    assert!(joined <= 7, "{joined} items moved when a member joined");

    let dead = members.remove(0);
    let left = dead.shards.items().len();
    dead.task.abort();
    kill().await;
    let clock = lockyard::Clock::system();
    let start = clock.now();
    let four = settled(&members, 8).await?;
    let took = clock.now().since(start);
    println!("{joined} moved at the join; {left} of the dead owned again after {took:?}, ttl {TTL:?}");
    assert_eq!(moved(&five, &four), left, "items moved that nobody had to move");
    for member in members {
        drop(member.end);
        soon(member.task).await??;
        assert!(member.shards.items().is_empty());
    }
    Ok(())
}

#[tokio::test]
async fn memory() -> Checked {
    let server = server();
    let replicas: Vec<_> = (0..5).map(|_| Replica::of(&server)).collect();
    let shards = |replica: &Replica| Shards::new("orders", ITEMS, TTL, replica.locks.clone(), replica.register());
    let members =
        replicas[..4].iter().map(|replica| Ok(Member::start(shards(replica)?))).collect::<Result<_, JobError>>()?;
    let (links, last) = (replicas[0].lock.link(), shards(&replicas[4])?);
    let kill = async || {
        links.silence();
        replicas[0].register.link().silence();
    };
    items_move_only_when_they_must(members, last, kill).await
}

#[tokio::test]
async fn redis() -> Checked {
    let Some(server) = server_of(Service::Redis).await? else { return Ok(()) };
    let proxy = Proxy::start(server.addr()).await?;
    let mut shards = Vec::new();
    for number in 0..5 {
        let url = if number == 0 { server.lock_url_via(proxy.addr()) } else { server.lock_url() };
        let (locks, register) = (lockyard::connect(&url).await?, lockyard::connect_register(&url).await?);
        shards.push(Shards::new("orders", ITEMS, TTL, locks, register)?);
    }
    let last = shards.remove(4);
    let members = shards.into_iter().map(Member::start).collect();
    let kill = async || {
        proxy.set(Mode::Hold).await;
    };
    items_move_only_when_they_must(members, last, kill).await
}

/// By a clock that only the test moves: exact, however slow the machine is.
#[tokio::test]
async fn what_the_dead_owned_is_owned_again_within_twice_the_ttl() -> Checked {
    const STEP: Duration = Duration::from_millis(25);
    let clock = lockyard::Clock::manual();
    let server = MemoryServer::new(MemoryOptions::default().op_timeout(TTL / 10).clock(clock.clone()));
    let mut members = Vec::new();
    for _ in 0..4 {
        let (lock, register) = (server.connect(Namespace::default()), server.register(Namespace::default()));
        let locks = lockyard::Locker::builder(lock.clone()).clock(clock.clone()).build()?;
        let shards = Shards::new("orders", ITEMS, TTL, locks, Arc::new(register.clone()))?;
        members.push((Member::start(shards), lock, register));
    }
    // On a runtime of one thread whoever can go on does so before this goes on.
    let settles = async |members: &[&Member], share: usize| -> Checked<Duration> {
        let start = clock.now();
        while clock.now().since(start) < TTL * 10 {
            for _ in 0..500 {
                tokio::task::yield_now().await;
            }
            let counts: Vec<_> = members.iter().map(|member| member.shards.items().len()).collect();
            if counts.iter().sum::<usize>() == ITEMS as usize && counts.iter().all(|count| *count <= share) {
                return Ok(clock.now().since(start));
            }
            clock.advance(STEP);
        }
        Err("the items are never owned".into())
    };
    while members.len() > 1 {
        let share = (ITEMS as usize).div_ceil(members.len());
        settles(&members.iter().map(|(member, ..)| member).collect::<Vec<_>>(), share).await?;
        // At some moment between two renewals.
        for _ in 0..members.len() * 7 {
            clock.advance(STEP);
            tokio::task::yield_now().await;
        }
        let (dead, lock, register) = members.remove(0);
        lock.link().silence();
        register.link().silence();
        dead.task.abort();
        let share = (ITEMS as usize).div_ceil(members.len());
        let took = settles(&members.iter().map(|(member, ..)| member).collect::<Vec<_>>(), share).await?;
        println!("{} members: owned again after {took:?} of {TTL:?}", members.len());
        assert!(took <= TTL * 2, "after {took:?}, ttl {TTL:?}");
    }
    Ok(())
}

#[tokio::test]
async fn an_item_in_use_is_not_given_back() -> Checked {
    let server = server();
    let (a, b) = (Replica::of(&server), Replica::of(&server));
    let shards = |replica: &Replica| Shards::new("orders", 2, TTL, replica.locks.clone(), replica.register());
    let first = Member::start(shards(&a)?);
    let owned = |member: &Member, count: usize| {
        let shards = member.shards.clone();
        async move { eventually(SOON, || async { shards.items().len() == count }).await.ok_or("never so many") }
    };
    owned(&first, 2).await?;
    let in_use = first.shards.items();
    let second = Member::start(shards(&b)?);
    // The second member is seen by the first, which keeps what is in use.
    let listed = lockyard::LockName::new("@members/orders")?;
    let joined = || async {
        let found = lockyard::FencedRegister::read(&a.register, &listed).await;
        found.is_ok_and(|found| {
            found.value.is_some_and(|value| String::from_utf8_lossy(&value).contains(second.shards.member()))
        })
    };
    eventually(SOON, joined).await.ok_or("never listed")?;
    a.locks.clock().sleep(TTL).await;
    assert_eq!((first.shards.items().len(), second.shards.items().len()), (2, 0));
    assert!(in_use.iter().all(lockyard_jobs::Item::is_held));
    drop(in_use);
    owned(&second, 1).await?;
    owned(&first, 1).await?;
    // Who leaves is not missed: its items move at once.
    drop(second.end);
    soon(second.task).await??;
    owned(&first, 2).await?;
    Ok(())
}

#[tokio::test]
async fn groups_that_are_none_are_told() -> Checked {
    let replica = Replica::of(&server());
    let long = "x".repeat(500);
    for (name, items, ttl, word) in [
        ("orders", 0, TTL, "at least 1"),
        ("orders", 1 << 20, TTL, "1048576"),
        ("orders", 8, Duration::ZERO, "ttl"),
        ("or#ders", 8, TTL, "#"),
        ("", 8, TTL, "empty"),
        (long.as_str(), 8, TTL, "shorter"),
    ] {
        let error = Shards::new(name, items, ttl, replica.locks.clone(), Arc::new(replica.register.clone()));
        let error = error.expect_err(word).to_string();
        assert!(error.contains(word), "{error}");
    }
    Ok(())
}
