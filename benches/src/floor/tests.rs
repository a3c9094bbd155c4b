//! Each floor on a real server: it locks, it waits, and it leaves nothing.

use std::sync::Arc;
use std::time::Duration;

use lockyard_api::Error;
use lockyard_testbed::{Server, Service};

use super::*;
use crate::side::Contenders;

async fn floor(service: Service, mode: &str) -> Option<(Server, Arc<dyn Floor>)> {
    let server = Server::start_or_skip(service).await.expect("a server that is there starts")?;
    let nobody: crate::Connect = Arc::new(|| Box::pin(async { Err(Error::unsupported("floors only")) }));
    // As long as those of a comparison: what is named after it must not be cut off to the same name.
    let url = format!("{}?namespace=lockyard-compare-{:032x}", server.lock_url(), fastrand::u128(..));
    let target = Target::new(service.id(), service.id(), mode, &url, nobody);
    Some((server, of(&target).expect("a floor").expect("a server has one")))
}

/// One holds, the other waits until it is released, and not before.
async fn excludes(mut pair: Contenders) {
    let (mut waiter, mut holder) = pair.pop().zip(pair.pop()).expect("two");
    holder.acquire("name").await.expect("it is free");
    let mut waiting = tokio::spawn(async move { (waiter.acquire("name").await, waiter) });
    let early = tokio::time::timeout(Duration::from_millis(200), &mut waiting).await;
    assert!(early.is_err(), "two held it at once");
    holder.release("name").await.expect("it is held");
    let (got, mut waiter) =
        tokio::time::timeout(Duration::from_secs(10), waiting).await.expect("woken").expect("no panic");
    got.expect("it is free");
    waiter.release("name").await.expect("it is held");
    holder.close().await;
    waiter.close().await;
}

async fn works(service: Service, mode: &str) {
    let Some((_server, floor)) = floor(service, mode).await else { return };
    excludes(floor.own(2).await.expect("two sessions")).await;
    let mut one = floor.one().await.expect("a session");
    for name in ["same", "same", "fresh-1", "fresh-2"] {
        one.acquire(name).await.expect("it is free");
        one.release(name).await.expect("it is held");
    }
    let mut tasks = floor.shared(5).await.expect("tasks");
    for (at, task) in tasks.iter_mut().enumerate() {
        task.acquire(&format!("task-{at}")).await.expect("a name each");
    }
    for (at, task) in tasks.iter_mut().enumerate() {
        task.release(&format!("task-{at}")).await.expect("it is held");
    }
    for task in tasks {
        task.close().await;
    }
    one.close().await;
    if let Some((_, mut other)) = floor.beside().await.expect("another way, or none") {
        other.acquire("name").await.expect("it is free");
        other.release("name").await.expect("it is held");
        assert!(other.release("name").await.is_err(), "what is gone cannot be released");
    }
    assert!(!floor.settings().await.expect("settings").is_empty());
    floor.finish().await.expect("nothing is left");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis() {
    works(Service::Redis, "single").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_advisory() {
    works(Service::Postgres, "advisory").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_row() {
    works(Service::Postgres, "row").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_lease() {
    works(Service::Postgres, "lease").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn etcd() {
    works(Service::Etcd, "lease").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn zookeeper() {
    works(Service::Zookeeper, "session").await;
}

#[test]
fn there_is_no_floor_without_a_server_or_for_what_the_driver_cannot_do_alone() {
    let nobody: crate::Connect = Arc::new(|| Box::pin(async { Err(Error::unsupported("floors only")) }));
    let of_url = |kind: &str, url: &str| of(&Target::new(kind, kind, "single", url, Arc::clone(&nobody)));
    assert!(of_url("memory", "memory:").expect("no floor").is_none());
    let sentinel = of_url("redis", "redis+sentinel://h/s").map(|_| ()).expect_err("no floor");
    assert!(sentinel.to_string().contains("redis+sentinel"), "{sentinel}");
    assert!(of_url("postgres", "postgres://h/db").is_err(), "single is no mode of Postgres");
}

/// The server removes directories that have been empty for a while.
#[tokio::test]
async fn zookeeper_makes_a_removed_directory_again() {
    let Some((server, floor)) = floor(Service::Zookeeper, "").await else { return };
    let mut one = floor.one().await.expect("a session");
    one.acquire("name").await.expect("it is free");
    one.release("name").await.expect("it is held");
    let operator = zookeeper_client::Client::connect(&server.addr().to_string()).await.expect("a session");
    let roots = operator.list_children("/").await.expect("a list");
    let base = roots.iter().find(|root| root.starts_with("lockyard-compare-")).expect("the namespace");
    operator.delete(&format!("/{base}/floor-name"), None).await.expect("it is empty");
    one.acquire("name").await.expect("it is free");
    one.release("name").await.expect("it is held");
    one.close().await;
}
