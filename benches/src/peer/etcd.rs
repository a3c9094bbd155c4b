//! Peers on etcd.

use std::sync::Arc;

use ash_lock::backend::etcd::EtcdBackend;
use ash_lock::{LockClient, LockConfig, LockGuard};
use async_trait::async_trait;
use etcd_client::{Client, LockOptions};
use lockyard_testbed::Server;

use super::TTL;
use crate::side::{Contender, Contenders, Outcome, Side, Trouble, one_by_one};

/// Longer than any trial: nothing keeps it alive.
const LEASE_SECONDS: i64 = 300;

pub(super) fn ash_lock(server: &Server) -> Arc<dyn Side> {
    Arc::new(Ash { url: server.url() })
}

struct Ash {
    url: String,
}

impl Ash {
    async fn client(&self) -> Outcome<LockClient> {
        let backend = EtcdBackend::connect([self.url.as_str()], None).await?;
        let config = LockConfig { default_ttl: TTL, watchdog_interval: TTL / 3, ..LockConfig::default() };
        Ok(LockClient::connect_with(config, Arc::new(backend)).await?)
    }
}

#[async_trait]
impl Side for Ash {
    async fn one(&self) -> Outcome<Box<dyn Contender>> {
        Ok(Box::new(AshTask { client: self.client().await?, guard: None }))
    }

    async fn shared(&self, tasks: usize) -> Outcome<Contenders> {
        let client = self.client().await?;
        let task = |_| Box::new(AshTask { client: client.clone(), guard: None }) as Box<dyn Contender>;
        Ok((0..tasks).map(task).collect())
    }

    async fn own(&self, contenders: usize) -> Outcome<Contenders> {
        one_by_one(self, contenders).await
    }
}

struct AshTask {
    client: LockClient,
    guard: Option<LockGuard>,
}

#[async_trait]
impl Contender for AshTask {
    async fn acquire(&mut self, name: &str) -> Outcome<()> {
        self.guard = Some(self.client.lock(name).await.acquire().await?);
        Ok(())
    }

    async fn release(&mut self, name: &str) -> Outcome<()> {
        let guard = self.guard.take().ok_or_else(|| Trouble::new(format!("{name} is not held")))?;
        Ok(guard.unlock().await?)
    }
}

pub(super) fn lock_service(server: &Server) -> Arc<dyn Side> {
    Arc::new(Service { url: server.url() })
}

struct Service {
    url: String,
}

impl Service {
    async fn task(client: &Client) -> Outcome<Box<dyn Contender>> {
        let mut client = client.clone();
        let lease = client.lease_grant(LEASE_SECONDS, None).await?.id();
        Ok(Box::new(ServiceTask { client, lease, key: None }))
    }
}

#[async_trait]
impl Side for Service {
    async fn one(&self) -> Outcome<Box<dyn Contender>> {
        Self::task(&Client::connect([&self.url], None).await?).await
    }

    async fn shared(&self, tasks: usize) -> Outcome<Contenders> {
        let client = Client::connect([&self.url], None).await?;
        let mut all = Contenders::with_capacity(tasks);
        for _ in 0..tasks {
            all.push(Self::task(&client).await?);
        }
        Ok(all)
    }

    async fn own(&self, contenders: usize) -> Outcome<Contenders> {
        one_by_one(self, contenders).await
    }
}

/// A lease each: the lock service takes two requests under one lease for the same owner.
struct ServiceTask {
    client: Client,
    lease: i64,
    key: Option<Vec<u8>>,
}

#[async_trait]
impl Contender for ServiceTask {
    async fn acquire(&mut self, name: &str) -> Outcome<()> {
        let options = LockOptions::new().with_lease(self.lease);
        // With a slash, so that no name is the beginning of another.
        self.key = Some(self.client.lock(format!("peer/{name}/"), Some(options)).await?.key().to_vec());
        Ok(())
    }

    async fn release(&mut self, name: &str) -> Outcome<()> {
        let key = self.key.take().ok_or_else(|| Trouble::new(format!("{name} is not held")))?;
        self.client.unlock(key).await?;
        Ok(())
    }

    async fn close(mut self: Box<Self>) {
        // It ends by itself where this fails.
        let _ = self.client.lease_revoke(self.lease).await;
    }
}
