//! Three servers that elect a leader: what a client sees when one of them fails.

use std::time::Duration;

use lockyard_api::{FencedRegister, FencingToken, LockName, Locker, Release, Write};
use lockyard_etcd::{EtcdConfig, EtcdLock, EtcdRegister};
use lockyard_testbed::timing::{self, eventually};
use lockyard_testbed::{Ensemble, Mode, Proxy, Service};

const LIMIT: Duration = Duration::from_secs(60);

async fn three() -> Option<Ensemble> {
    Ensemble::three_or_skip(Service::Etcd).await.expect("it starts where it is installed")
}

async fn locker(url: &str, ttl: Duration) -> Locker {
    let config = EtcdConfig::from_url(&format!("{url}/?ttl={}s", ttl.as_secs())).expect("a URL");
    let lock = EtcdLock::connect(config).await.expect("connects");
    Locker::builder(lock).ttl(ttl).patience(Duration::from_secs(60)).build().expect("inside a runtime")
}

async fn within<T>(what: &str, work: impl Future<Output = T>) -> T {
    timing::within(LIMIT, what, work).await
}

/// B111, B151: whichever member dies, the renewals go on by way of another.
#[tokio::test(flavor = "multi_thread")]
async fn a_hold_survives_the_death_of_each_server() {
    let Some(ensemble) = three().await else { return };
    let locks = locker(&ensemble.lock_url(), Duration::from_secs(30)).await;
    let guard = locks.acquire("job").await.expect("acquired");
    for server in ensemble.servers() {
        server.kill().await.expect("ours");
        ensemble.leader().await.expect("the others elect one");
        let holder = timing::answer(LIMIT, "a look at the holder", || locks.inspect("job")).await;
        assert_eq!(holder.and_then(|holder| holder.token), guard.fencing_token());
        // The lease in full once more: somebody renewed it after that death.
        let before = guard.remaining();
        let renewed = eventually(LIMIT, || async { guard.remaining() > before || !guard.is_held() }).await;
        assert!(renewed.is_some() && guard.is_held(), "lost: {:?}", guard.lost_reason());
        server.restart().await.expect("it joins again");
    }
    assert_eq!(within("the release", guard.release()).await.expect("an answer"), Release::Released);
}

/// B113: a new leader counts every lease from the start again; the name of a dead holder is free one ttl after that.
#[tokio::test(flavor = "multi_thread")]
async fn a_dead_holders_name_is_free_one_ttl_after_an_election() {
    let Some(ensemble) = three().await else { return };
    let leader = ensemble.leader().await.expect("a leader");
    let staying = &ensemble.servers()[(leader + 1) % 3];
    let proxy = Proxy::start(staying.addr()).await.expect("a port");
    let ttl = Duration::from_secs(5);
    let (dead, other) =
        (locker(&staying.lock_url_via(proxy.addr()), ttl).await, locker(&staying.lock_url(), ttl).await);
    let guard = dead.acquire("job").await.expect("acquired");
    proxy.set(Mode::Hold).await;
    let waiting = tokio::spawn(async move { other.acquire("job").await.map(|next| (next, other)) });
    eventually(LIMIT, || async { guard.remaining() < ttl / 4 }).await.expect("most of its lease goes by");
    ensemble.servers()[leader].kill().await.expect("ours");
    let (next, _other) = within("the other is granted", waiting).await.expect("no panic").expect("acquired");
    assert!(!guard.is_held(), "two hold it by their own clocks");
    assert!(next.fencing_token() > guard.fencing_token());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_register_survives_the_death_of_each_server() {
    let Some(ensemble) = three().await else { return };
    let config = EtcdConfig::from_url(&ensemble.lock_url()).expect("a URL");
    let register = EtcdRegister::connect(config).await.expect("connects");
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
