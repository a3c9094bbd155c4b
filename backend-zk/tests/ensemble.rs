//! Three servers that elect a leader: what a client sees when one of them fails, or is cut off from the others.

use std::time::Duration;

use lockyard_api::{FencedRegister, FencingToken, LockName, Locker, Release, Version, Write};
use lockyard_testbed::timing::{self, eventually};
use lockyard_testbed::{Ensemble, Mode, Service};
use lockyard_zk::{ZkConfig, ZkLock, ZkRegister};

/// The driver pauses for as long again as it has been cut off; elections of a busy machine take many seconds.
const LIMIT: Duration = Duration::from_secs(120);

/// `None` when the service is absent and not required.
async fn three() -> Option<(Ensemble, usize)> {
    let ensemble = Ensemble::three_or_skip(Service::Zookeeper).await.expect("it starts where it is installed")?;
    let leader = ensemble.leader().await.expect("a leader");
    Some((ensemble, leader))
}

async fn locker(url: &str, ttl: Duration) -> Locker {
    let config = ZkConfig::from_url(&format!("{url}/?ttl={}s&connect_timeout=20s", ttl.as_secs())).expect("a URL");
    let lock = ZkLock::connect(config).await.expect("connects");
    Locker::builder(lock).ttl(ttl).patience(LIMIT).build().expect("inside a runtime")
}

async fn within<T>(what: &str, work: impl Future<Output = T>) -> T {
    timing::within(LIMIT, what, work).await
}

async fn one_waits(locks: &Locker) {
    let waiters = async || locks.inspect("job").await.ok().flatten().and_then(|holder| holder.waiters);
    eventually(LIMIT, || async { waiters().await == Some(1) }).await.expect("the other waits");
}

/// A follower that has lost its leader goes on answering pings and reads, while the leader ends the sessions that are
/// connected to it: only what is answered through the leader may count as a sign of life.
#[tokio::test(flavor = "multi_thread")]
async fn a_holder_on_a_cut_off_follower_stops_before_another_holds() {
    let Some((ensemble, leader)) = three().await else { return };
    let follower = (leader + 1) % 3;
    let ttl = Duration::from_secs(4);
    let (cut_off, other) = (
        locker(&ensemble.servers()[follower].lock_url(), ttl).await,
        locker(&ensemble.servers()[leader].lock_url(), ttl).await,
    );
    let guard = cut_off.acquire("job").await.expect("acquired");
    let waiting = tokio::spawn(async move { other.acquire("job").await.map(|next| (next, other)) });
    one_waits(&cut_off).await;
    ensemble.link(follower, leader).expect("between two members").set(Mode::Hold).await;
    let (next, _other) = within("the other is granted", waiting).await.expect("no panic").expect("acquired");
    assert!(!guard.is_held(), "two hold it by their own clocks");
    within("the loss is told", guard.lost()).await;
    assert!(next.fencing_token() > guard.fencing_token());
}

/// B151: an election is no loss.
#[tokio::test(flavor = "multi_thread")]
async fn a_hold_survives_the_death_of_each_server() {
    let Some((ensemble, _)) = three().await else { return };
    let locks = locker(&ensemble.lock_url(), LIMIT).await;
    let guard = locks.acquire("job").await.expect("acquired");
    for server in ensemble.servers() {
        server.kill().await.expect("ours");
        ensemble.leader().await.expect("the others elect one");
        let holder = timing::answer(LIMIT, "a look at the holder", || locks.inspect("job")).await;
        assert_eq!(holder.and_then(|holder| holder.token), guard.fencing_token());
        assert!(guard.is_held(), "lost: {:?}", guard.lost_reason());
        server.restart().await.expect("it joins again");
    }
    assert_eq!(within("the release", guard.release()).await.expect("an answer"), Release::Released);
}

/// B121: what happened while the waiter's server was away is found when it is back.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_whose_server_was_away_gets_its_turn() {
    let Some((ensemble, leader)) = three().await else { return };
    let away = &ensemble.servers()[(leader + 1) % 3];
    let ttl = Duration::from_secs(60);
    let (holder, waiter) =
        (locker(&ensemble.servers()[leader].lock_url(), ttl).await, locker(&away.lock_url(), ttl).await);
    let guard = holder.acquire("job").await.expect("acquired");
    let waiting = tokio::spawn(async move { waiter.acquire("job").await.map(|guard| (guard, waiter)) });
    one_waits(&holder).await;
    away.kill().await.expect("ours");
    assert_eq!(guard.release().await.expect("an answer"), Release::Released);
    away.restart().await.expect("it joins again");
    let (granted, _waiter) = within("its turn", waiting).await.expect("no panic").expect("acquired");
    assert!(granted.is_held());
}

async fn register(url: &str) -> ZkRegister {
    let config = ZkConfig::from_url(&format!("{url}/?ttl=10s&op_timeout=2s&connect_timeout=20s")).expect("a URL");
    ZkRegister::connect(config).await.expect("connects")
}

/// A follower that has lost its leader would answer a plain read with what was there before.
#[tokio::test(flavor = "multi_thread")]
async fn a_register_is_never_read_from_a_follower_that_is_behind() {
    let Some((ensemble, leader)) = three().await else { return };
    let follower = (leader + 1) % 3;
    let (writer, reader) = (
        register(&ensemble.servers()[leader].lock_url()).await,
        register(&ensemble.servers()[follower].lock_url()).await,
    );
    let (name, token) = (LockName::new("job").expect("a name"), FencingToken::from_server(1).expect("small"));
    let _ = writer.write(&name, b"old", token, Version::ABSENT).await.expect("an answer");
    let found = reader.read(&name).await.expect("an answer");
    assert_eq!(found.value.as_deref(), Some(&b"old"[..]));
    ensemble.link(follower, leader).expect("between two members").set(Mode::Hold).await;
    let written = writer.write(&name, b"new", token, found.version).await.expect("two of three are enough");
    let Write::Written { version } = written else { panic!("{written:?}") };
    // No answer is right, the old value is not; nor is a write accepted that expects it.
    if let Ok(behind) = reader.read(&name).await {
        assert_eq!(behind.version, version);
    }
    if let Ok(answer) = reader.write(&name, b"late", token, found.version).await {
        assert_eq!(answer, Write::Conflict { version });
    }
    ensemble.link(follower, leader).expect("between two members").set(Mode::Pass).await;
    let again = timing::answer(LIMIT, "a read by who is back", || reader.read(&name)).await;
    assert_eq!((again.value.as_deref(), again.version), (Some(&b"new"[..]), version));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_register_survives_the_death_of_each_server() {
    let Some((ensemble, _)) = three().await else { return };
    let register = register(&ensemble.lock_url()).await;
    let (name, token) = (LockName::new("job").expect("a name"), FencingToken::from_server(1).expect("small"));
    let mut value = Vec::new();
    for server in ensemble.servers() {
        server.kill().await.expect("ours");
        ensemble.leader().await.expect("the others elect one");
        let found = timing::answer(LIMIT, "a read", || register.read(&name)).await;
        assert_eq!(found.value.unwrap_or_default(), value);
        value.push(b'x');
        // Repeated without an answer, it may find itself: that is a conflict.
        let written =
            timing::answer(LIMIT, "somebody writes", || register.write(&name, &value, token, found.version)).await;
        assert!(matches!(written, Write::Written { .. } | Write::Conflict { .. }), "{written:?}");
        server.restart().await.expect("it joins again");
    }
    let found = timing::answer(LIMIT, "a read", || register.read(&name)).await;
    assert_eq!(found.value, Some(b"xxx".to_vec()));
}
