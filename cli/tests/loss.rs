//! The goal of `lockyard run`: the command is dead before anybody else can hold the lock; and it dies with lockyard.
//!
//! Ten losses in `make test`; two hundred by
//! `LOCKYARD_LOSS_RUNS=200 cargo test -p lockyard-cli --test loss -- --nocapture`.
#![cfg(feature = "redis")]

mod support;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use fastrand::Rng;
use lockyard::{Clock, Locker};
use lockyard_testbed::timing::scaled;
use lockyard_testbed::{Mode, Proxy, Server, Service};
use nix::sys::signal::Signal;
use support::{SOON, Scratch, end_of, lives, send};

const TTL: Duration = Duration::from_secs(4);
/// How many losses happen at a time: their commands sign on all the while.
const AT_ONCE: u64 = 10;

/// Cut off at a random moment in a random way, ever renewed until then: the last sign of life of the old command comes
/// before the next grant, every time.
#[tokio::test]
async fn the_last_sign_of_life_comes_before_the_next_grant() {
    let Some(server) = Server::start_or_skip(Service::Redis).await.expect("a server that works") else { return };
    let server = Arc::new(server);
    let next = lockyard::connect(&server.lock_url()).await.expect("it answers");
    let runs = std::env::var("LOCKYARD_LOSS_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(AT_ONCE);
    let mut gaps = Vec::new();
    for first in (1..=runs).step_by(usize::try_from(AT_ONCE).expect("few")) {
        let seeds = first..=runs.min(first + AT_ONCE - 1);
        let losses: Vec<_> = seeds.map(|seed| tokio::spawn(lose(Arc::clone(&server), next.clone(), seed))).collect();
        for loss in losses {
            gaps.push(loss.await.expect("a loss as it should be"));
        }
    }
    gaps.sort();
    let (least, median) = (gaps[0], gaps[gaps.len() / 2]);
    println!("{runs} of {runs} losses: dead {least:.0?} or more before the next grant, {median:.0?} in the median");
    next.shutdown().await.expect("its releases are answered");
}

/// One loss. Returns how long before the next grant the last sign of life came.
async fn lose(server: Arc<Server>, next: Locker, seed: u64) -> Duration {
    let mut random = Rng::with_seed(seed);
    let mode = [Mode::Hold, Mode::DropRequests, Mode::DropReplies, Mode::Refuse][random.usize(..4)];
    let moment = TTL.mul_f64(random.f64() / 2.0);
    let proxy = Proxy::start(server.addr()).await.expect("a port");
    let scratch = Scratch::on(&server.lock_url_via(proxy.addr()));
    let name = format!("loss-{seed}");
    // It ignores TERM. Each line sets the time of change of the file, by the kernel's clock.
    let script = "trap '' TERM; while :; do echo sign > sign; sleep 0.02; done";
    let mut run = scratch.run(&name, &["--ttl", "4s"], script).spawn().expect("starts");
    scratch.file_made("sign").await;
    let granted = tokio::spawn(async move {
        let guard = next.acquire(&name).await.expect("when the lease has ended");
        let granted = now();
        let _ = guard.release().await.expect("answered");
        granted
    });
    let clock = Clock::system();
    clock.sleep(moment).await;
    proxy.set(mode).await;
    if mode == Mode::Refuse {
        proxy.reset();
    }
    assert_eq!(end_of(&mut run).await.code(), Some(79), "seed {seed}, {mode:?} after {moment:?}");
    let granted = tokio::time::timeout(scaled(SOON), granted).await.expect("soon").expect("no panic");
    let last = std::fs::metadata(scratch.path("sign")).and_then(|file| file.modified()).expect("its time");
    let gap = granted.duration_since(last);
    gap.unwrap_or_else(|late| {
        panic!("alive {:?} after the next grant: seed {seed}, {mode:?} after {moment:?}", late.duration())
    })
}

/// The kernel kills the command when lockyard is killed; how soon is printed, 100 ms being the goal.
#[tokio::test]
async fn the_command_of_a_killed_lockyard_is_gone_soon() {
    let Some(server) = Server::start_or_skip(Service::Redis).await.expect("a server that works") else { return };
    let clock = Clock::system();
    let mut times = Vec::new();
    for round in 0..10 {
        let scratch = Scratch::on(&server.lock_url());
        let script = "echo $$ > pid; while :; do sleep 0.05; done";
        let mut run = scratch.run(&format!("killed-{round}"), &[], script).spawn().expect("starts");
        let command = scratch.pid_in("pid").await;
        let killed = clock.now();
        send(&run, Signal::SIGKILL);
        while lives(command) {
            assert!(clock.now() < killed.plus(scaled(SOON)), "the command lives on without lockyard");
            tokio::task::yield_now().await;
        }
        times.push(clock.now().since(killed));
        end_of(&mut run).await;
    }
    times.sort();
    println!("killed with lockyard: the command is gone within {:.1?}, {:.1?} in the median", times[9], times[5]);
}

#[expect(clippy::disallowed_methods, reason = "compared with the times of files")]
fn now() -> SystemTime {
    SystemTime::now()
}
