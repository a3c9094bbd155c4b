//! B57: clients whose wall clocks are a minute apart.
#![cfg(all(feature = "redis", feature = "postgres"))]

mod support;

use std::time::Duration;

use lockyard_testbed::ClockOffset::{self, Ahead, Behind};
use lockyard_testbed::{Server, Service, WallClock};
use nix::sys::signal::Signal;
use support::{Scratch, end_of, finish, send, stderr};

const OFF: Duration = Duration::from_secs(30);
const TTL: &str = "2s";
/// Longer than the lease: who gets the name within it has got it from a live holder.
const TRIED: &str = "3s";

/// A name is kept as long as its holder renews, and is free once the holder is dead, whatever their clocks say.
async fn only_the_servers_clock_counts(url: &str, of_holder: ClockOffset, of_other: ClockOffset) {
    let (scratch, others) = (Scratch::on(url), Scratch::on(url));
    let clock = |scratch: &Scratch, offset| {
        let clock = WallClock::new(scratch.folder()).expect("a C compiler");
        clock.set(offset).expect("set");
        clock
    };
    let (clock_of_holder, clock_of_other) = (clock(&scratch, of_holder), clock(&others, of_other));
    let mut holding = scratch.run("job", &["--ttl", TTL], "echo $$ > pid; while :; do sleep 0.05; done");
    clock_of_holder.give(holding.as_std_mut());
    let mut holder = holding.spawn().expect("starts");
    scratch.pid_in("pid").await;
    let mut other = others.run("job", &["--ttl", TTL, "--wait", TRIED], "exit 5");
    clock_of_other.give(other.as_std_mut());
    let output = finish(&mut other).await;
    assert_eq!(output.status.code(), Some(75), "while it is held: {}", stderr(&output));
    assert!(holder.try_wait().expect("a child").is_none(), "the holder lost its lock");
    send(&holder, Signal::SIGKILL);
    end_of(&mut holder).await;
    let mut next = others.run("job", &["--ttl", TTL, "--wait", "60s"], "exit 5");
    clock_of_other.give(next.as_std_mut());
    let output = finish(&mut next).await;
    assert_eq!(output.status.code(), Some(5), "its holder is dead: {}", stderr(&output));
}

async fn both_ways(url: &str) {
    let (a, b) = (format!("{url}namespace=a"), format!("{url}namespace=b"));
    tokio::join!(
        only_the_servers_clock_counts(&a, Behind(OFF), Ahead(OFF)),
        only_the_servers_clock_counts(&b, Ahead(OFF), Behind(OFF)),
    );
}

#[tokio::test]
async fn redis() {
    let Some(server) = Server::start_or_skip(Service::Redis).await.expect("a server that works") else { return };
    both_ways(&format!("{}?", server.lock_url())).await;
}

#[tokio::test]
async fn postgres_lease() {
    let Some(server) = Server::start_or_skip(Service::Postgres).await.expect("a server that works") else { return };
    both_ways(&format!("{}?lock=lease&", server.lock_url())).await;
}
