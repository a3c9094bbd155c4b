//! What an uncontended cycle costs a client: group = scenario, function = backend, parameter = how many tasks of the same client
//! wait meanwhile, each for another name that is taken.

use std::time::Duration;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, criterion_group, criterion_main};
use lockyard::{Guard, Locker};
use lockyard_benches::{Connect, NoopLock};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

#[path = "../support/targets.rs"]
mod targets;

/// How many wait.
const WAITERS: [usize; 2] = [0, 8];

fn uncontended(criterion: &mut Criterion) {
    let runtime = Runtime::new().expect("a runtime");
    let mut group = criterion.benchmark_group("uncontended");
    group.sample_size(20).warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(4));
    let noop = runtime.block_on(async { Locker::new(NoopLock::new()) }).expect("a locker");
    group.bench_with_input(BenchmarkId::new("noop", 0), &noop, |bencher, noop| {
        bencher.to_async(&runtime).iter(|| cycle(noop));
    });
    let started = runtime.block_on(targets::start(&[], false));
    for target in &started.targets {
        for waiters in WAITERS {
            match runtime.block_on(Crowd::gather(&target.connect, waiters)) {
                Ok(crowd) => measure(&mut group, &runtime, &target.id, crowd),
                Err(error) => eprintln!("SKIPPED: {} with {waiters} waiters: {error}", target.id),
            }
        }
    }
    group.finish();
}

fn measure(group: &mut BenchmarkGroup<'_, WallTime>, runtime: &Runtime, id: &str, crowd: Crowd) {
    group.bench_with_input(BenchmarkId::new(id, crowd.waiting.len()), &crowd.locker, |bencher, locker| {
        bencher.to_async(runtime).iter(|| cycle(locker));
    });
    runtime.block_on(crowd.leave());
}

async fn cycle(locker: &Locker) {
    let guard = locker.acquire("bench").await.expect("nobody else wants it");
    guard.release().await.expect("it was held");
}

/// The client that is measured, with the tasks that wait through it for what another client holds.
struct Crowd {
    locker: Locker,
    waiting: JoinSet<()>,
    other: Locker,
    held: Vec<Guard>,
}

impl Crowd {
    async fn gather(connect: &Connect, waiters: usize) -> lockyard::Result<Self> {
        let locker = Locker::over(connect().await?).build()?;
        let other = Locker::over(connect().await?).build()?;
        let (mut waiting, mut held) = (JoinSet::new(), Vec::new());
        for at in 0..waiters {
            let name = format!("taken-{at}");
            held.push(other.acquire(name.as_str()).await?);
            let locker = locker.clone();
            waiting.spawn(async move {
                // Ended by the crowd's leave, or by a server that fails: then the cycles fail as well.
                let _ = locker.acquire(name.as_str()).await;
            });
        }
        Ok(Self { locker, waiting, other, held })
    }

    /// What cannot be undone in time, the leases end.
    async fn leave(mut self) {
        self.waiting.shutdown().await;
        for guard in self.held {
            let _ = guard.release().await;
        }
        let _ = self.locker.shutdown().await;
        let _ = self.other.shutdown().await;
    }
}

criterion_group!(benches, uncontended);
criterion_main!(benches);
