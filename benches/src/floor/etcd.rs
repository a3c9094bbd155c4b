//! etcd: one transaction and one delete, under a lease held in advance.

use std::collections::BTreeMap;

use async_trait::async_trait;
use etcd_client::{
    Client, Compare, CompareOp, ConnectOptions, EventType, GetOptions, SortOrder, SortTarget, Txn, TxnOp,
    TxnOpResponse, WatchFilterType, WatchOptions, WatchStream,
};
use lockyard_api::{LockUrl, Owner};

use super::Floor;
use crate::side::{Contender, Contenders, Outcome, Side, Trouble};

/// Longer than any trial, so that nothing has to be kept alive.
const LEASE_SECONDS: i64 = 120;

pub(super) struct EtcdFloor {
    hosts: Vec<String>,
    user: Option<(String, String)>,
    base: String,
}

impl EtcdFloor {
    pub(super) fn new(url: &LockUrl, namespace: &str) -> Self {
        let user = url.user.clone().zip(url.password.clone());
        let hosts = url.hosts.iter().map(|host| host.with_default_port(2379)).collect();
        Self { hosts, user, base: format!("{}/{namespace}/floor-", url.path.trim_matches('/')) }
    }

    async fn client(&self) -> Outcome<Client> {
        let options = self.user.as_ref().map(|(user, password)| ConnectOptions::new().with_user(user, password));
        Ok(Client::connect(&self.hosts, options).await?)
    }

    async fn session(&self, waits: bool) -> Outcome<Session> {
        let mut client = self.client().await?;
        let lease = client.lease_grant(LEASE_SECONDS, None).await?.id();
        Ok(Session { client, lease, base: self.base.clone(), key: String::new(), waits, watch: None, shares: false })
    }
}

#[async_trait]
impl Side for EtcdFloor {
    async fn one(&self) -> Outcome<Box<dyn Contender>> {
        Ok(Box::new(self.session(false).await?))
    }

    async fn shared(&self, tasks: usize) -> Outcome<Contenders> {
        let session = self.session(false).await?;
        Ok((0..tasks).map(|_| Box::new(session.sharing()) as Box<dyn Contender>).collect())
    }

    async fn own(&self, contenders: usize) -> Outcome<Contenders> {
        let mut all: Contenders = Vec::with_capacity(contenders);
        for _ in 0..contenders {
            all.push(Box::new(self.session(true).await?));
        }
        Ok(all)
    }
}

#[async_trait]
impl Floor for EtcdFloor {
    async fn settings(&self) -> Outcome<BTreeMap<String, String>> {
        let mut client = self.client().await?;
        let members = client.member_list().await?.members().len();
        Ok(BTreeMap::from([
            ("members".to_owned(), members.to_string()),
            ("durability".to_owned(), "fsync per write".to_owned()),
        ]))
    }
}

struct Session {
    client: Client,
    lease: i64,
    base: String,
    key: String,
    waits: bool,
    /// The standing watch and the range it watches.
    watch: Option<(String, WatchStream)>,
    /// Whether the lease belongs to several tasks.
    shares: bool,
}

impl Session {
    fn sharing(&self) -> Self {
        let (client, base) = (self.client.clone(), self.base.clone());
        Self { client, lease: self.lease, base, key: String::new(), waits: false, watch: None, shares: true }
    }

    async fn open_watch(&mut self, range: &str) -> Outcome<()> {
        if self.watch.as_ref().is_some_and(|(watched, _)| watched == range) {
            return Ok(());
        }
        let options = WatchOptions::new().with_prefix().with_filters([WatchFilterType::NoPut]);
        let mut stream = self.client.watch(range, Some(options)).await?;
        // The first message says that the watch stands.
        stream.message().await?;
        self.watch = Some((range.to_owned(), stream));
        Ok(())
    }

    /// Waits until a key has been deleted.
    async fn deleted(&mut self, key: &[u8]) -> Outcome<()> {
        let (_, stream) = self.watch.as_mut().ok_or_else(|| Trouble::new("this session does not wait"))?;
        while let Some(message) = stream.message().await? {
            let gone = |event: &etcd_client::Event| {
                event.event_type() == EventType::Delete && event.kv().is_some_and(|kv| kv.key() == key)
            };
            if message.events().iter().any(gone) {
                return Ok(());
            }
        }
        Err(Trouble::new("the watch has ended"))
    }
}

/// The newest key of a range that was created before a revision.
fn newest_before(revision: i64) -> GetOptions {
    newest().with_limit(1).with_max_create_revision(revision - 1)
}

fn newest() -> GetOptions {
    GetOptions::new().with_prefix().with_keys_only().with_sort(SortTarget::Create, SortOrder::Descend)
}

#[async_trait]
impl Contender for Session {
    async fn acquire(&mut self, name: &str) -> Outcome<()> {
        let range = format!("{}{name}/", self.base);
        if self.waits {
            self.open_watch(&range).await?;
        }
        self.key = format!("{range}{}", Owner::random());
        let put = etcd_client::PutOptions::new().with_lease(self.lease);
        let txn = Txn::new().when([Compare::create_revision(self.key.as_str(), CompareOp::Equal, 0)]).and_then([
            TxnOp::put(self.key.as_str(), "", Some(put)),
            TxnOp::get(range.as_str(), Some(newest().with_limit(2))),
        ]);
        let answer = self.client.txn(txn).await?;
        let revision = answer.header().map_or(0, etcd_client::ResponseHeader::revision);
        let ahead = answer.op_responses().into_iter().find_map(|answer| match answer {
            TxnOpResponse::Get(found) => found.kvs().get(1).map(|kv| kv.key().to_vec()),
            _ => None,
        });
        let mut ahead = ahead;
        while let Some(key) = ahead {
            if !self.waits {
                return Err(Trouble::new(format!("{name} is taken")));
            }
            self.deleted(&key).await?;
            let found = self.client.get(range.as_str(), Some(newest_before(revision))).await?;
            ahead = found.kvs().first().map(|kv| kv.key().to_vec());
        }
        Ok(())
    }

    async fn release(&mut self, name: &str) -> Outcome<()> {
        let deleted = self.client.delete(self.key.as_str(), None).await?.deleted();
        if deleted == 1 { Ok(()) } else { Err(Trouble::new(format!("{name} was lost while it was held"))) }
    }

    async fn close(mut self: Box<Self>) {
        self.watch = None;
        if !self.shares {
            // Otherwise the lease ends by itself.
            let _ = self.client.lease_revoke(self.lease).await;
        }
    }
}
