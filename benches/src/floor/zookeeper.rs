//! ZooKeeper: create, list, delete, each awaited.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use async_trait::async_trait;
use lockyard_api::LockUrl;
use zookeeper_client::{Acls, Client, CreateMode, Error as ZkError};

use super::Floor;
use crate::side::{Contender, Contenders, Outcome, Side, Trouble, one_by_one};

const PREFIX: &str = "floor-lock-";

pub(super) struct ZookeeperFloor {
    cluster: String,
    base: String,
}

impl ZookeeperFloor {
    pub(super) fn new(url: &LockUrl, namespace: &str) -> Self {
        let hosts: Vec<String> = url.hosts.iter().map(|host| host.with_default_port(2181)).collect();
        let chroot = url.path.trim_matches('/');
        let base = [chroot, namespace].iter().filter(|part| !part.is_empty()).map(|part| format!("/{part}")).collect();
        Self { cluster: hosts.join(","), base }
    }

    async fn client(&self) -> Outcome<Client> {
        Ok(Client::connector().with_session_timeout(Duration::from_secs(30)).connect(&self.cluster).await?)
    }

    fn session(&self, client: Client, waits: bool) -> Session {
        Session { client, base: self.base.clone(), node: String::new(), waits, made: HashSet::new() }
    }
}

#[async_trait]
impl Side for ZookeeperFloor {
    async fn one(&self) -> Outcome<Box<dyn Contender>> {
        let client = self.client().await?;
        client.mkdir(&self.base, &CreateMode::Persistent.with_acls(Acls::anyone_all())).await?;
        Ok(Box::new(self.session(client, true)))
    }

    async fn shared(&self, tasks: usize) -> Outcome<Contenders> {
        let client = self.client().await?;
        client.mkdir(&self.base, &CreateMode::Persistent.with_acls(Acls::anyone_all())).await?;
        Ok((0..tasks).map(|_| Box::new(self.session(client.clone(), false)) as Box<dyn Contender>).collect())
    }

    async fn own(&self, contenders: usize) -> Outcome<Contenders> {
        one_by_one(self, contenders).await
    }
}

#[async_trait]
impl Floor for ZookeeperFloor {
    async fn settings(&self) -> Outcome<BTreeMap<String, String>> {
        let client = self.client().await?;
        let negotiated = format!("{} ms", client.session_timeout().as_millis());
        Ok(BTreeMap::from([("session timeout as negotiated".to_owned(), negotiated)]))
    }
}

struct Session {
    client: Client,
    base: String,
    node: String,
    waits: bool,
    /// The directories that are known to exist.
    made: HashSet<String>,
}

impl Session {
    async fn ensure(&mut self, dir: &str) -> Outcome<()> {
        if self.made.contains(dir) {
            return Ok(());
        }
        match self.client.create(dir, b"", &CreateMode::Container.with_acls(Acls::anyone_all())).await {
            Ok(_) | Err(ZkError::NodeExists) => self.made.insert(dir.to_owned()),
            Err(error) => return Err(error.into()),
        };
        Ok(())
    }
}

#[async_trait]
impl Contender for Session {
    async fn acquire(&mut self, name: &str) -> Outcome<()> {
        let dir = format!("{}/floor-{name}", self.base);
        let path = format!("{dir}/{PREFIX}");
        let options = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
        let (_, sequence) = loop {
            self.ensure(&dir).await?;
            match self.client.create(&path, b"", &options).await {
                // The server removes containers that have been empty for a while.
                Err(ZkError::NoNode) => self.made.remove(&dir),
                made => break made?,
            };
        };
        let own = format!("{PREFIX}{sequence}");
        self.node = format!("{path}{sequence}");
        loop {
            let mut children = self.client.list_children(&dir).await?;
            children.sort();
            let at = children.iter().position(|child| *child == own);
            let at = at.ok_or_else(|| Trouble::new(format!("{name}: the own node is gone")))?;
            let Some(ahead) = at.checked_sub(1).and_then(|at| children.get(at)) else { return Ok(()) };
            if !self.waits {
                return Err(Trouble::new(format!("{name} is taken")));
            }
            let (stat, watcher) = self.client.check_and_watch_stat(&format!("{dir}/{ahead}")).await?;
            if stat.is_some() {
                watcher.changed().await;
            }
        }
    }

    async fn release(&mut self, _name: &str) -> Outcome<()> {
        Ok(self.client.delete(&self.node, None).await?)
    }
}
