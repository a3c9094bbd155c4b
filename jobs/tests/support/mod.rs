//! What the tests of this crate share.
#![allow(dead_code, reason = "each test binary uses a part of it")]

pub(crate) mod replica;

use std::error::Error;
use std::future::{Ready, ready};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lockyard::{Clock, FencedRegister, LockName, Locker, Namespace};
use lockyard_jobs::{Job, JobBuilder, JobEvent, JobObserver, Record, RunContext, WallTime};
use lockyard_memory::{MemoryLock, MemoryOptions, MemoryRegister, MemoryServer};
use lockyard_testbed::timing::scaled;
use lockyard_testbed::{Server, Service};

pub(crate) type Checked<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

/// How long anything may take that should happen soon.
pub(crate) const SOON: Duration = Duration::from_secs(30);

pub(crate) const MINUTE: Duration = Duration::from_secs(60);

/// A replica on a memory server, with links that can be disturbed, and a wall clock of its own.
pub(crate) struct Replica {
    pub(crate) locks: Locker,
    pub(crate) lock: MemoryLock,
    pub(crate) register: MemoryRegister,
    pub(crate) clock: Clock,
}

impl Replica {
    pub(crate) fn of(server: &MemoryServer) -> Self {
        let lock = server.connect(Namespace::default());
        let locks = Locker::new(lock.clone()).expect("inside a runtime");
        Self { locks, lock, register: server.register(Namespace::default()), clock: clock_at("2026-05-05T12:00:00Z") }
    }

    pub(crate) fn register(&self) -> Arc<dyn FencedRegister> {
        Arc::new(self.register.clone())
    }

    pub(crate) fn job(&self, name: &str) -> JobBuilder {
        Job::builder(name, self.locks.clone(), self.register()).clock(self.clock.clone())
    }

    pub(crate) fn now(&self) -> WallTime {
        WallTime::now(&self.clock)
    }
}

pub(crate) fn server() -> MemoryServer {
    MemoryServer::new(MemoryOptions::default().op_timeout(Duration::from_millis(100)))
}

/// A clock that only the test moves, and that shows this time.
pub(crate) fn clock_at(time: &str) -> Clock {
    let clock = Clock::manual();
    let time: WallTime = time.parse().expect(time);
    clock.step_wall_clock(time.since(WallTime::now(&clock)));
    clock
}

pub(crate) async fn record(job: &Job) -> Checked<Record> {
    let mut records = job.control().records().await?;
    Ok(records.remove(0))
}

/// Waits for what happens soon.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> Checked<T> {
    Ok(tokio::time::timeout(scaled(SOON), future).await?)
}

/// Work that ends at once and well.
pub(crate) fn nothing(_: RunContext) -> Ready<Result<(), String>> {
    ready(Ok(()))
}

/// Puts a value under a job's register name, as another program would.
pub(crate) async fn overwrite(register: &dyn FencedRegister, job: &str, value: &[u8]) -> Checked {
    let name = LockName::new(format!("@job/{job}"))?;
    let found = register.read(&name).await?;
    let token = found.token.map_or_else(|| lockyard::FencingToken::new(0), Ok)?;
    let _ = register.write(&name, value, token, found.version).await?;
    Ok(())
}

/// Remembers what it is told.
#[derive(Debug, Clone, Default)]
pub(crate) struct Heard(Arc<Mutex<Vec<JobEvent>>>);

impl Heard {
    pub(crate) fn events(&self) -> Vec<JobEvent> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl JobObserver for Heard {
    fn on_event(&self, _job: &str, event: &JobEvent) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(event.clone());
    }
}

/// A server of its own and the URL of locks on it, or `None` after saying why there is none.
pub(crate) async fn locks_on(service: Service, query: &str) -> Checked<Option<(Server, String)>> {
    let server = server_of(service).await?;
    Ok(server.map(|server| {
        let url = format!("{}{query}", server.lock_url());
        (server, url)
    }))
}

/// A server of its own, or `None` after saying why there is none.
pub(crate) async fn server_of(service: Service) -> Checked<Option<Server>> {
    Ok(Server::start_or_skip(service).await?)
}
