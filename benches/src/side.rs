//! The two sides of a comparison: lockyard, and the bare driver below it.

use std::fmt;

use async_trait::async_trait;
use lockyard_api::{Guard, Locker};

use crate::target::Connect;

/// What went wrong while measuring, as a sentence.
#[derive(Debug, Clone)]
pub(crate) struct Trouble(pub(crate) String);

pub(crate) type Outcome<T> = Result<T, Trouble>;

impl Trouble {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl<E: std::error::Error> From<E> for Trouble {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One contender: it takes a name, and gives it back.
#[async_trait]
pub(crate) trait Contender: Send {
    /// Takes the name; waits while another has it, if this contender was made for that.
    async fn acquire(&mut self, name: &str) -> Outcome<()>;

    /// Gives the name back, and hears that it is free.
    async fn release(&mut self, name: &str) -> Outcome<()>;

    /// Ends the session.
    async fn close(self: Box<Self>) {}
}

pub(crate) type Contenders = Vec<Box<dyn Contender>>;

/// Where contenders come from.
#[async_trait]
pub(crate) trait Side: Send + Sync {
    /// One with a client of its own; nobody else wants its names.
    async fn one(&self) -> Outcome<Box<dyn Contender>>;

    /// So many tasks that share what one client has.
    async fn shared(&self, tasks: usize) -> Outcome<Contenders>;

    /// The same without a queue in the process: they wait for each other at the server.
    async fn unqueued(&self, tasks: usize) -> Outcome<Contenders> {
        self.shared(tasks).await
    }

    /// The same, where the lock is handed on in the process.
    async fn cohort(&self, tasks: usize) -> Outcome<Contenders> {
        self.shared(tasks).await
    }

    /// So many, each with a client of its own, that wait for each other.
    async fn own(&self, contenders: usize) -> Outcome<Contenders>;
}

/// How often a cohort hands a lock on.
const HANDOFFS: u8 = 32;

/// Lockyard: the front end over the backend.
pub(crate) struct Ours {
    connect: Connect,
}

impl Ours {
    pub(crate) fn new(connect: &Connect) -> Self {
        Self { connect: Connect::clone(connect) }
    }

    async fn locker(&self) -> Outcome<Locker> {
        Ok(Locker::over((self.connect)().await?).build()?)
    }
}

#[async_trait]
impl Side for Ours {
    async fn one(&self) -> Outcome<Box<dyn Contender>> {
        Ok(Box::new(Task { locker: self.locker().await?, guard: None }))
    }

    async fn shared(&self, tasks: usize) -> Outcome<Contenders> {
        Ok(Task::several(&self.locker().await?, tasks))
    }

    async fn unqueued(&self, tasks: usize) -> Outcome<Contenders> {
        let locker = Locker::over((self.connect)().await?).local_queue(false).build()?;
        Ok(Task::several(&locker, tasks))
    }

    async fn cohort(&self, tasks: usize) -> Outcome<Contenders> {
        let locker = Locker::over((self.connect)().await?).cohort(HANDOFFS).build()?;
        Ok(Task::several(&locker, tasks))
    }

    async fn own(&self, contenders: usize) -> Outcome<Contenders> {
        one_by_one(self, contenders).await
    }
}

/// So many of [`Side::one`], opened one after the other.
pub(crate) async fn one_by_one(side: &dyn Side, contenders: usize) -> Outcome<Contenders> {
    let mut all = Vec::with_capacity(contenders);
    for _ in 0..contenders {
        all.push(side.one().await?);
    }
    Ok(all)
}

struct Task {
    locker: Locker,
    guard: Option<Guard>,
}

impl Task {
    fn several(locker: &Locker, tasks: usize) -> Contenders {
        let task = || Box::new(Self { locker: locker.clone(), guard: None }) as Box<dyn Contender>;
        (0..tasks).map(|_| task()).collect()
    }
}

#[async_trait]
impl Contender for Task {
    async fn acquire(&mut self, name: &str) -> Outcome<()> {
        self.guard = Some(self.locker.acquire(name).await?);
        Ok(())
    }

    async fn release(&mut self, name: &str) -> Outcome<()> {
        let guard = self.guard.take().ok_or_else(|| Trouble::new(format!("{name} is not held")))?;
        match guard.release().await? {
            lockyard_api::Release::Released => Ok(()),
            _ => Err(Trouble::new(format!("{name} was lost while it was held"))),
        }
    }

    async fn close(self: Box<Self>) {
        drop(self.guard);
        // What it could not undo in time, the lease ends.
        let _ = self.locker.shutdown().await;
    }
}
