//! The parts of a cycle that ask no server: names, owners, leases, claims.

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use lockyard::{Claim, Clock, Drift, FencingToken, LockName, LockUrl, Owner};

fn names(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("name");
    group.bench_function("short", |bencher| bencher.iter(|| LockName::new(black_box("report:daily"))));
    let long = "x".repeat(LockName::MAX_BYTES);
    group.bench_function("longest", |bencher| bencher.iter(|| LockName::new(black_box(&long))));
    group.finish();
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
    group.finish();
}

fn urls(criterion: &mut Criterion) {
    let url = "redis://app:secret@db:6380/2?namespace=shop&ttl=10s";
    criterion.bench_function("url/parse", |bencher| bencher.iter(|| LockUrl::parse(black_box(url))));
}

criterion_group!(benches, names, owners, leases, urls);
criterion_main!(benches);
