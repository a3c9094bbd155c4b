//! The recipe of the ZooKeeper driver.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lockyard_testbed::Server;
use zookeeper_client::{Acls, Client, CreateMode, LockOptions, LockPrefix, OwnedLockClient};

use crate::side::{Contender, Contenders, Outcome, Side, Trouble, one_by_one};

pub(super) fn recipe(server: &Server) -> Arc<dyn Side> {
    Arc::new(Recipe { cluster: server.url() })
}

struct Recipe {
    cluster: String,
}

impl Recipe {
    async fn client(&self) -> Outcome<Client> {
        Ok(Client::connector().with_session_timeout(Duration::from_secs(30)).connect(&self.cluster).await?)
    }
}

#[async_trait]
impl Side for Recipe {
    async fn one(&self) -> Outcome<Box<dyn Contender>> {
        Ok(Box::new(Task { client: self.client().await?, held: None }))
    }

    async fn shared(&self, tasks: usize) -> Outcome<Contenders> {
        let client = self.client().await?;
        let task = |_| Box::new(Task { client: client.clone(), held: None }) as Box<dyn Contender>;
        Ok((0..tasks).map(task).collect())
    }

    async fn own(&self, contenders: usize) -> Outcome<Contenders> {
        one_by_one(self, contenders).await
    }
}

struct Task {
    client: Client,
    held: Option<OwnedLockClient>,
}

#[async_trait]
impl Contender for Task {
    async fn acquire(&mut self, name: &str) -> Outcome<()> {
        let folder = format!("/peer/{name}");
        let prefix = LockPrefix::new_curator(&folder, "lock-")?;
        let parents = CreateMode::Persistent.with_acls(Acls::anyone_all());
        let options = LockOptions::new(Acls::anyone_all()).with_ancestor_options(parents)?;
        self.held = Some(self.client.lock(prefix, b"", options).await?.into_owned());
        Ok(())
    }

    async fn release(&mut self, name: &str) -> Outcome<()> {
        // It deletes in the background; there is no other way to release.
        self.held.take().map(drop).ok_or_else(|| Trouble::new(format!("{name} is not held")))
    }
}
