//! Peers on Postgres.

use std::sync::Arc;

use async_trait::async_trait;
use distributed_lock_core::{DistributedLock, LockHandle as _, LockProvider};
use distributed_lock_postgres::PostgresLockProvider;
use lockyard_testbed::Server;
use sqlx::Connection as _;
use sqlx::postgres::{PgAdvisoryLock, PgAdvisoryLockGuard, PgConnection};

use crate::side::{Contender, Contenders, Outcome, Side, Trouble, one_by_one};

pub(super) fn distributed_lock(server: &Server) -> Arc<dyn Side> {
    Arc::new(Distributed { url: server.url() })
}

struct Distributed {
    url: String,
}

#[async_trait]
impl Side for Distributed {
    async fn one(&self) -> Outcome<Box<dyn Contender>> {
        let provider = Arc::new(PostgresLockProvider::new(self.url.as_str()).await?);
        Ok(Box::new(DistributedTask { provider, handle: None }))
    }

    async fn shared(&self, tasks: usize) -> Outcome<Contenders> {
        let provider = Arc::new(PostgresLockProvider::new(self.url.as_str()).await?);
        let task =
            |_| Box::new(DistributedTask { provider: Arc::clone(&provider), handle: None }) as Box<dyn Contender>;
        Ok((0..tasks).map(task).collect())
    }

    async fn own(&self, contenders: usize) -> Outcome<Contenders> {
        one_by_one(self, contenders).await
    }
}

/// The crate does not name it.
type Handle = <<PostgresLockProvider as LockProvider>::Lock as DistributedLock>::Handle;

struct DistributedTask {
    provider: Arc<PostgresLockProvider>,
    handle: Option<Handle>,
}

#[async_trait]
impl Contender for DistributedTask {
    async fn acquire(&mut self, name: &str) -> Outcome<()> {
        self.handle = Some(self.provider.create_lock(name).acquire(None).await?);
        Ok(())
    }

    async fn release(&mut self, name: &str) -> Outcome<()> {
        // Dropped instead, it would go back to the pool with the lock.
        let handle = self.handle.take().ok_or_else(|| Trouble::new(format!("{name} is not held")))?;
        Ok(handle.release().await?)
    }
}

pub(super) fn sqlx_advisory(server: &Server) -> Arc<dyn Side> {
    Arc::new(Sqlx { url: server.url() })
}

struct Sqlx {
    url: String,
}

#[async_trait]
impl Side for Sqlx {
    async fn one(&self) -> Outcome<Box<dyn Contender>> {
        Ok(Box::new(SqlxTask { free: Some(PgConnection::connect(&self.url).await?), guard: None }))
    }

    /// A connection each: it holds one lock at a time.
    async fn shared(&self, tasks: usize) -> Outcome<Contenders> {
        one_by_one(self, tasks).await
    }

    async fn own(&self, contenders: usize) -> Outcome<Contenders> {
        one_by_one(self, contenders).await
    }
}

struct SqlxTask {
    free: Option<PgConnection>,
    guard: Option<PgAdvisoryLockGuard<PgConnection>>,
}

#[async_trait]
impl Contender for SqlxTask {
    async fn acquire(&mut self, name: &str) -> Outcome<()> {
        let connection = self.free.take().ok_or_else(|| Trouble::new("the connection is in use"))?;
        self.guard = Some(PgAdvisoryLock::new(name).acquire(connection).await?);
        Ok(())
    }

    async fn release(&mut self, name: &str) -> Outcome<()> {
        let guard = self.guard.take().ok_or_else(|| Trouble::new(format!("{name} is not held")))?;
        self.free = Some(guard.release_now().await?);
        Ok(())
    }

    async fn close(self: Box<Self>) {
        if let Some(connection) = self.free {
            // A connection that cannot say goodbye is gone as well.
            let _ = connection.close().await;
        }
    }
}
