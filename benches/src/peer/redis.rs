//! Peers on Redis.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use distributed_lock_core::{DistributedLock as _, LockHandle as _, LockProvider as _};
use distributed_lock_redis::{RedisLockHandle, RedisLockProvider};
use lockyard_api::Clock;
use lockyard_testbed::Server;
use rslock::{Lock, LockManager};

use super::TTL;
use crate::side::{Contender, Contenders, Outcome, Side, Trouble, one_by_one};

/// How long our loop sleeps where the peer does not wait.
const AGAIN: Duration = Duration::from_millis(50);

pub(super) fn rslock(server: &Server) -> Arc<dyn Side> {
    Arc::new(Rslock { url: server.url() })
}

struct Rslock {
    url: String,
}

#[async_trait]
impl Side for Rslock {
    async fn one(&self) -> Outcome<Box<dyn Contender>> {
        Ok(Box::new(RslockTask { manager: LockManager::new(vec![self.url.as_str()]), lock: None }))
    }

    async fn shared(&self, tasks: usize) -> Outcome<Contenders> {
        let manager = LockManager::new(vec![self.url.as_str()]);
        let task = |_| Box::new(RslockTask { manager: manager.clone(), lock: None }) as Box<dyn Contender>;
        Ok((0..tasks).map(task).collect())
    }

    async fn own(&self, contenders: usize) -> Outcome<Contenders> {
        one_by_one(self, contenders).await
    }
}

struct RslockTask {
    manager: LockManager,
    lock: Option<Lock>,
}

#[async_trait]
impl Contender for RslockTask {
    async fn acquire(&mut self, name: &str) -> Outcome<()> {
        self.lock = Some(self.manager.acquire_no_guard(name.as_bytes(), TTL).await?);
        Ok(())
    }

    async fn release(&mut self, name: &str) -> Outcome<()> {
        let lock = self.lock.take().ok_or_else(|| Trouble::new(format!("{name} is not held")))?;
        self.manager.unlock(&lock).await;
        Ok(())
    }
}

pub(super) fn distributed_lock(server: &Server) -> Arc<dyn Side> {
    Arc::new(Distributed { url: server.url() })
}

struct Distributed {
    url: String,
}

#[async_trait]
impl Side for Distributed {
    async fn one(&self) -> Outcome<Box<dyn Contender>> {
        let provider = Arc::new(RedisLockProvider::new(self.url.as_str()).await?);
        Ok(Box::new(DistributedTask { provider, handle: None }))
    }

    async fn shared(&self, tasks: usize) -> Outcome<Contenders> {
        let provider = Arc::new(RedisLockProvider::new(self.url.as_str()).await?);
        let task =
            |_| Box::new(DistributedTask { provider: Arc::clone(&provider), handle: None }) as Box<dyn Contender>;
        Ok((0..tasks).map(task).collect())
    }

    async fn own(&self, contenders: usize) -> Outcome<Contenders> {
        one_by_one(self, contenders).await
    }
}

struct DistributedTask {
    provider: Arc<RedisLockProvider>,
    handle: Option<RedisLockHandle>,
}

#[async_trait]
impl Contender for DistributedTask {
    async fn acquire(&mut self, name: &str) -> Outcome<()> {
        // An object each time: its id is that of the object, so one object held twice has one id.
        let lock = self.provider.create_lock(name);
        loop {
            if let Some(handle) = lock.try_acquire().await? {
                self.handle = Some(handle);
                return Ok(());
            }
            Clock::system().sleep(AGAIN).await;
        }
    }

    async fn release(&mut self, name: &str) -> Outcome<()> {
        let handle = self.handle.take().ok_or_else(|| Trouble::new(format!("{name} is not held")))?;
        Ok(handle.release().await?)
    }
}
