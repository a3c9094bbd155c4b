//! The parts of a cycle that ask no server: names and keys, owners, the lease clock, the local queue, the checker of histories.

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use futures_util::future::join_all;
use lockyard::{Claim, Clock, Drift, FencingToken, LockName, LockUrl, Locker, Namespace, Owner};
use lockyard_benches::NoopLock;
use lockyard_conformance::history::{Event, History, Rules, What};
use tokio::runtime::Runtime;

/// From a text to what is sent: the rule for names, and the keys of a name at a server.
fn names(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("name");
    let namespace = Namespace::new("lockyard").expect("a namespace");
    let long = "x".repeat(LockName::MAX_BYTES);
    for (which, text) in [("short", "report:daily"), ("braces", "report:{daily}%"), ("longest", long.as_str())] {
        group.bench_with_input(BenchmarkId::new("check", which), text, |bencher, text| {
            bencher.iter(|| LockName::new(black_box(text)));
        });
        let name = LockName::new(text).expect("a name");
        group.bench_with_input(BenchmarkId::new("encode", which), &name, |bencher, name| {
            bencher.iter(|| lockyard_redis::scripts::keys(black_box(&namespace), black_box(name)));
        });
    }
    group.finish();
    let url = "redis://app:secret@db:6380/2?namespace=shop&ttl=10s";
    criterion.bench_function("url/parse", |bencher| bencher.iter(|| LockUrl::parse(black_box(url))));
}

fn owners(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("owner");
    group.bench_function("random", |bencher| bencher.iter(Owner::random));
    let owner = Owner::random();
    group.bench_function("write", |bencher| bencher.iter(|| black_box(owner).to_string()));
    let text = owner.to_string();
    group.bench_function("parse", |bencher| bencher.iter(|| Owner::parse(black_box(&text))));
    group.finish();
}

/// What a lease asks of the clock, up to the question of a holder whether it still holds.
fn leases(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("lease");
    let (clock, ttl) = (Clock::system(), Duration::from_secs(30));
    group.bench_function("now", |bencher| bencher.iter(|| clock.now()));
    let from = clock.now();
    group.bench_function("deadline", |bencher| {
        bencher.iter(|| black_box(from).plus(ttl.saturating_sub(Drift::DEFAULT.margin(ttl))))
    });
    group.bench_function("token", |bencher| bencher.iter(|| FencingToken::from_server(black_box(4711))));
    let name = LockName::new("report:daily").expect("a name");
    group.bench_function("claim", |bencher| bencher.iter(|| Claim::new(name.clone(), ttl)));
    let runtime = Runtime::new().expect("a runtime");
    let locker = runtime.block_on(async { Locker::new(NoopLock::new()) }).expect("a locker");
    let guard = runtime.block_on(locker.acquire("bench")).expect("it is granted");
    group.bench_function("is_held", |bencher| bencher.iter(|| black_box(&guard).is_held()));
    group.finish();
    runtime.block_on(async { guard.release().await.expect("it was held") });
}

/// So many tasks of one process want one name at once, each once: what passing it on inside the process costs.
fn local_queue(criterion: &mut Criterion) {
    let runtime = Runtime::new().expect("a runtime");
    let locker = runtime.block_on(async { Locker::new(NoopLock::new()) }).expect("a locker");
    let mut group = criterion.benchmark_group("local_queue");
    for waiters in [0_u64, 7, 63] {
        group.throughput(Throughput::Elements(waiters + 1));
        group.bench_with_input(BenchmarkId::new("noop", waiters), &waiters, |bencher, waiters| {
            bencher.to_async(&runtime).iter(|| async {
                join_all((0..=*waiters).map(|_| cycle(&locker))).await;
            });
        });
    }
    group.finish();
}

async fn cycle(locker: &Locker) {
    let guard = locker.acquire("bench").await.expect("it is granted in turn");
    guard.release().await.expect("it was held");
}

/// Histories of eight clients that take a name in turn.
fn checker(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("checker");
    for holds in [100_u32, 10_000] {
        let history = history(holds);
        assert!(history.check().violations.is_empty(), "the history is sound");
        group.throughput(Throughput::Elements(u64::from(holds)));
        group.bench_with_input(BenchmarkId::new("check", holds), &history, |bencher, history| {
            bencher.iter(|| black_box(history).check());
        });
    }
    group.finish();
}

fn history(holds: u32) -> History {
    let mut history = History::new(Rules::strict());
    for op in 0..holds {
        let (at, client, op) = (u64::from(op) * 1_000, op % 8, u64::from(op));
        let granted = What::Granted { owner: format!("{op:032x}"), token: Some(op + 1), until: at + 900 };
        let what = [What::Acquire, granted, What::Release, What::Released { held: true }];
        let events = (0_u64..).zip(what).map(|(step, what)| Event::new(at + step * 100, client, op, "bench", what));
        history.events.extend(events);
    }
    history
}

criterion_group!(benches, names, owners, leases, local_queue, checker);
criterion_main!(benches);
