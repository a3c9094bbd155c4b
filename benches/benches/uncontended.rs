//! What an uncontended cycle costs a client: group = scenario, function = backend.

use criterion::{Criterion, criterion_group, criterion_main};
use lockyard::Locker;
use lockyard_benches::NoopLock;
use tokio::runtime::Runtime;

#[path = "../support/targets.rs"]
mod targets;

fn uncontended(criterion: &mut Criterion) {
    let runtime = Runtime::new().expect("a runtime");
    let mut group = criterion.benchmark_group("uncontended");
    group.sample_size(20);
    let noop = runtime.block_on(async { Locker::new(NoopLock::new()) }).expect("a locker");
    group.bench_function("noop", |bencher| bencher.to_async(&runtime).iter(|| cycle(&noop)));
    let started = runtime.block_on(targets::start(&[], false));
    for target in &started.targets {
        let open = async { Locker::over((target.connect)().await?).build() };
        match runtime.block_on(open) {
            Ok(locker) => {
                group.bench_function(target.id.as_str(), |bencher| bencher.to_async(&runtime).iter(|| cycle(&locker)));
                // What it could not undo in time, the lease ends.
                let _ = runtime.block_on(locker.shutdown());
            }
            Err(error) => eprintln!("SKIPPED: {}: {error}", target.id),
        }
    }
    group.finish();
}

async fn cycle(locker: &Locker) {
    let guard = locker.acquire("bench").await.expect("nobody else wants it");
    guard.release().await.expect("it was held");
}

criterion_group!(benches, uncontended);
criterion_main!(benches);
