//! The requests, one method each. None has a time limit of its own: each operation has one for all it sends.

use std::collections::HashSet;
use std::future::Future;
use std::time::Duration;

use etcd_client::proto::{PbRangeResponse, PbTxnResponse};
use etcd_client::{
    Client, Compare, CompareOp, GetOptions, KvClient, LeaseClient, LeaseTimeToLiveOptions, PutOptions, SortOrder,
    SortTarget, Txn, TxnOp, WatchClient, WatchFilterType, WatchOptions, WatchStream,
};
use lockyard_api::Moment;

use crate::error::Failure;
use crate::keys::LockKeys;
use crate::listing::{Entered, Listing, Own};

/// How many keys one answer holds at most.
const PAGE: i64 = 256;

/// A lease that the server granted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lease {
    pub(crate) id: i64,
    pub(crate) ttl: Duration,
    pub(crate) valid_from: Moment,
}

/// The keys that hang on a lease.
#[derive(Debug)]
pub(crate) struct LeaseKeys {
    pub(crate) keys: HashSet<Vec<u8>>,
    /// The revision at which the server answered.
    pub(crate) revision: i64,
}

/// The connection, as the requests need it. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Rpc {
    client: Client,
    kv: KvClient,
    lease: LeaseClient,
    watch: WatchClient,
    members: usize,
}

impl std::fmt::Debug for Rpc {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rpc").field("members", &self.members).finish_non_exhaustive()
    }
}

impl Rpc {
    pub(crate) fn new(client: Client, members: usize) -> Self {
        let (kv, lease, watch) = (client.kv_client(), client.lease_client(), client.watch_client());
        Self { client, kv, lease, watch, members }
    }

    /// One transaction: creates the key unless it is there, and reads everybody in the range.
    pub(crate) async fn enqueue(
        &self,
        keys: &LockKeys,
        key: &str,
        value: &str,
        lease: i64,
    ) -> Result<Entered, Failure> {
        let txn = Txn::new()
            .when([Compare::create_revision(key, CompareOp::Equal, 0)])
            .and_then([put(key, value, lease), TxnOp::get(keys.range(), Some(newest()))])
            .or_else([TxnOp::get(key, None), TxnOp::get(keys.range(), Some(newest()))]);
        self.enter(keys, txn, lease).await
    }

    /// One transaction: creates the key if nothing at all is in the range, else reads who is.
    pub(crate) async fn enter_if_free(
        &self,
        keys: &LockKeys,
        key: &str,
        value: &str,
        lease: i64,
    ) -> Result<Entered, Failure> {
        let txn = Txn::new()
            .when([Compare::create_revision(keys.range(), CompareOp::Equal, 0).with_prefix()])
            .and_then([put(key, value, lease)])
            .or_else([TxnOp::get(key, None), TxnOp::get(keys.range(), Some(newest()))]);
        self.enter(keys, txn, lease).await
    }

    async fn enter(&self, keys: &LockKeys, txn: Txn, lease: i64) -> Result<Entered, Failure> {
        const WHAT: &str = "entering the queue";
        let answer = self.txn(WHAT, txn).await?;
        Entered::of(keys, lease, answer).ok_or_else(|| Failure::nonsense(WHAT))
    }

    /// Everybody in the range, newest first.
    pub(crate) async fn list(&self, keys: &LockKeys) -> Result<Listing, Failure> {
        let first = self.range("reading the queue", keys.range(), newest()).await?;
        let mut found = Listing::of(keys, revision_of(&first), first);
        self.complete(keys, &mut found).await?;
        Ok(found)
    }

    /// Reads the pages that a listing lacks.
    pub(crate) async fn complete(&self, keys: &LockKeys, found: &mut Listing) -> Result<(), Failure> {
        while let Some(below) = found.more_below.take() {
            let options = newest().with_max_create_revision(below - 1);
            let page = self.range("reading the queue", keys.range(), options).await?;
            let mut page = Listing::of(keys, found.revision, page);
            found.contenders.append(&mut page.contenders);
            found.more_below = page.more_below;
        }
        Ok(())
    }

    /// The keys of the range with their values, oldest first, and how many there are.
    pub(crate) async fn oldest(&self, keys: &LockKeys) -> Result<PbRangeResponse, Failure> {
        let options = GetOptions::new().with_prefix().with_sort(SortTarget::Create, SortOrder::Ascend).with_limit(PAGE);
        self.range("reading the queue", keys.range(), options).await
    }

    /// One key, if it is there.
    pub(crate) async fn own(&self, key: &str) -> Result<Option<Own>, Failure> {
        let found = self.range("reading the claim's key", key, GetOptions::new().with_keys_only()).await?;
        Ok(found.kvs.first().map(Own::of))
    }

    /// Deletes one key; tells whether it was there.
    pub(crate) async fn delete(&self, key: &str) -> Result<bool, Failure> {
        let answer = self
            .call("deleting the claim's key", || {
                let mut kv = self.kv.clone();
                async move { kv.delete(key, None).await }
            })
            .await?;
        Ok(answer.deleted() > 0)
    }

    /// Deletes every key that begins so.
    #[cfg(feature = "testing")]
    pub(crate) async fn delete_all(&self, beginning: &str) -> Result<(), Failure> {
        let options = etcd_client::DeleteOptions::new().with_prefix();
        let deleted = self.kv.clone().delete(beginning, Some(options)).await;
        deleted.map(drop).map_err(|error| Failure::new("cleaning up", error))
    }

    /// Deletes one key unless it was created after this revision.
    pub(crate) async fn sweep(&self, key: &[u8], revision: i64) -> Result<(), Failure> {
        let txn = Txn::new()
            .when([Compare::create_revision(key, CompareOp::Less, revision.saturating_add(1))])
            .and_then([TxnOp::delete(key, None)]);
        self.txn("deleting a stray key", txn).await.map(drop)
    }

    /// Moves the claim's key to another lease, if it is still the key created at this revision.
    pub(crate) async fn attach(&self, key: &str, value: &str, revision: i64, lease: i64) -> Result<bool, Failure> {
        let txn = Txn::new()
            .when([Compare::create_revision(key, CompareOp::Equal, revision)])
            .and_then([put(key, value, lease)]);
        let moved = self.txn("moving the claim to its own lease", txn).await;
        Ok(moved.map_err(Failure::of_another_lease)?.succeeded)
    }

    /// Grants a lease of at least this length.
    pub(crate) async fn grant(&self, ttl: Duration, clock: &lockyard_api::Clock) -> Result<Lease, Failure> {
        const WHAT: &str = "granting a lease";
        let seconds = i64::try_from(ttl.as_millis().div_ceil(1000)).unwrap_or(i64::MAX);
        let valid_from = clock.now();
        let answer = self
            .call(WHAT, || {
                let mut lease = self.lease.clone();
                async move { lease.grant(seconds, None).await }
            })
            .await?;
        let ttl = u64::try_from(answer.ttl()).ok().filter(|ttl| *ttl > 0).ok_or_else(|| Failure::nonsense(WHAT))?;
        Ok(Lease { id: answer.id(), ttl: Duration::from_secs(ttl), valid_from })
    }

    /// Ends a lease and deletes its keys.
    pub(crate) async fn revoke(&self, lease: i64) -> Result<(), Failure> {
        self.call("revoking a lease", || {
            let mut client = self.lease.clone();
            async move { client.revoke(lease).await }
        })
        .await
        .map(drop)
    }

    /// The keys that hang on a lease; `None` when the lease is gone.
    pub(crate) async fn lease_keys(&self, lease: i64) -> Result<Option<LeaseKeys>, Failure> {
        let answer = self.time_to_live(lease, LeaseTimeToLiveOptions::new().with_keys()).await?;
        if answer.ttl() < 0 {
            return Ok(None);
        }
        let revision = answer.header().map_or(0, etcd_client::ResponseHeader::revision);
        Ok(Some(LeaseKeys { keys: answer.keys().iter().cloned().collect(), revision }))
    }

    /// How long a lease still runs; `None` when it is gone.
    pub(crate) async fn remaining(&self, lease: i64) -> Result<Option<Duration>, Failure> {
        let answer = self.time_to_live(lease, LeaseTimeToLiveOptions::new()).await?;
        Ok(u64::try_from(answer.ttl()).ok().map(Duration::from_secs))
    }

    async fn time_to_live(
        &self,
        lease: i64,
        options: LeaseTimeToLiveOptions,
    ) -> Result<etcd_client::LeaseTimeToLiveResponse, Failure> {
        self.call("asking for a lease", || {
            let (mut client, options) = (self.lease.clone(), options.clone());
            async move { client.time_to_live(lease, Some(options)).await }
        })
        .await
    }

    /// A stream of keep-alives, of which the first was answered.
    pub(crate) async fn keep_alive(
        &self,
        lease: i64,
    ) -> Result<(etcd_client::LeaseKeeper, etcd_client::LeaseKeepAliveStream), etcd_client::Error> {
        self.lease.clone().keep_alive(lease).await
    }

    /// A watch of the deletes in the range, from now on: one whose start revision is not in the future is served by the
    /// server's loop for laggards, which comes round every 100 ms.
    pub(crate) async fn watch_deletes(&self, keys: &LockKeys) -> Result<WatchStream, etcd_client::Error> {
        let options = WatchOptions::new().with_prefix().with_filters([WatchFilterType::NoPut]);
        self.watch.clone().watch(keys.range(), Some(options)).await
    }

    /// Logs in again, after the server refused the token.
    pub(crate) async fn log_in(&self) -> Result<(), Failure> {
        self.client.refresh_token().await.map_err(|error| Failure::new("logging in", error))
    }

    /// What the server says of itself.
    pub(crate) async fn status(&self) -> Result<etcd_client::StatusResponse, Failure> {
        self.call("asking for the server's version", || {
            let mut client = self.client.maintenance_client();
            async move { client.status().await }
        })
        .await
    }

    /// Reads one key below this base: nothing but the permission matters.
    pub(crate) async fn probe(&self, base: &str) -> Result<(), Failure> {
        let options = GetOptions::new().with_prefix().with_keys_only().with_limit(1);
        self.range("reading below the prefix", base, options).await.map(drop)
    }

    pub(crate) async fn range(&self, what: &str, key: &str, options: GetOptions) -> Result<PbRangeResponse, Failure> {
        self.call(what, || {
            let (mut kv, options) = (self.kv.clone(), options.clone());
            async move { kv.get(key, Some(options)).await }
        })
        .await
        .map(|answer| answer.0)
    }

    pub(crate) async fn txn(&self, what: &str, txn: Txn) -> Result<PbTxnResponse, Failure> {
        if self.members == 1 {
            return self.kv.clone().txn(txn).await.map(|answer| answer.0).map_err(|error| Failure::new(what, error));
        }
        self.call(what, || {
            let (mut kv, txn) = (self.kv.clone(), txn.clone());
            async move { kv.txn(txn).await }
        })
        .await
        .map(|answer| answer.0)
    }

    /// Sends a request, and again while the member that was picked refuses the connection and there are others: such a
    /// request never left.
    async fn call<T, F>(&self, what: &str, mut request: impl FnMut() -> F) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, etcd_client::Error>>,
    {
        let mut tries = 1;
        loop {
            let failure = match request().await {
                Ok(answer) => return Ok(answer),
                Err(error) => Failure::new(what, error),
            };
            if self.members == 1 || tries >= 4 * self.members || !failure.never_connected() {
                return Err(failure);
            }
            tries += 1;
            // The client picks members at random; a dead one is dialled anew at its next turn.
            tokio::task::yield_now().await;
        }
    }
}

fn put(key: &str, value: &str, lease: i64) -> TxnOp {
    TxnOp::put(key, value, Some(PutOptions::new().with_lease(lease)))
}

fn newest() -> GetOptions {
    GetOptions::new().with_prefix().with_keys_only().with_sort(SortTarget::Create, SortOrder::Descend).with_limit(PAGE)
}

fn revision_of(range: &PbRangeResponse) -> i64 {
    range.header.as_ref().map_or(0, |header| header.revision)
}
