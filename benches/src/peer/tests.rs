//! Each peer on a real server: it locks and waits.

use std::time::Duration;

use lockyard_testbed::Service;

use super::*;
use crate::side::Contenders;

async fn peers(service: Service, mode: &str) {
    let Some(server) = Server::start_or_skip(service).await.expect("a server that is there starts") else { return };
    let nobody: crate::Connect = Arc::new(|| Box::pin(async { Err(lockyard_api::Error::unsupported("peers only")) }));
    let target = Target::new(mode, service.id(), "", &server.lock_url(), nobody).with_server(Arc::new(server));
    let mut count = 0;
    for (peer, server) in of(&target) {
        let side = (peer.side)(&server);
        excludes(peer, side.own(2).await.expect(peer.id)).await;
        let tasks = side.shared(3).await.expect(peer.id);
        for (at, mut task) in tasks.into_iter().enumerate() {
            let name = format!("{}-{at}", peer.id.replace(':', "-"));
            task.acquire(&name).await.expect("a name each");
            task.release(&name).await.expect("it is held");
            assert!(task.release(&name).await.is_err(), "{}: what is gone cannot be released", peer.id);
            task.close().await;
        }
        assert!(peer.backend(&target).is_peer() && !peer.notes.is_empty());
        count += 1;
    }
    assert!(count > 0, "no peer of {mode}");
}

/// One holds, the other waits until it is released, and not before.
async fn excludes(peer: &Peer, mut pair: Contenders) {
    let name = peer.id.replace(':', "-");
    let (mut waiter, mut holder) = pair.pop().zip(pair.pop()).expect("two");
    holder.acquire(&name).await.expect("it is free");
    let waited = name.clone();
    let mut waiting = tokio::spawn(async move { (waiter.acquire(&waited).await, waiter) });
    let early = tokio::time::timeout(Duration::from_millis(200), &mut waiting).await;
    assert!(early.is_err(), "{}: two held it at once", peer.id);
    holder.release(&name).await.expect("it is held");
    let (got, mut waiter) =
        tokio::time::timeout(Duration::from_secs(30), waiting).await.expect("woken").expect("no panic");
    got.expect("it is free");
    waiter.release(&name).await.expect("it is held");
    holder.close().await;
    waiter.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis() {
    peers(Service::Redis, "redis").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres() {
    peers(Service::Postgres, "postgres-advisory").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn etcd() {
    peers(Service::Etcd, "etcd").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn zookeeper() {
    peers(Service::Zookeeper, "zookeeper").await;
}
