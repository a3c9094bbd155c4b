//! Removal of the directories of unused names.

use std::time::Duration;

use lockyard_api::{Collected, Error, GarbageCollect, Operation, Result, Unused, async_trait};
use zookeeper_client::{Client, CreateMode, Error as Driver};

use crate::ZkLock;
use crate::error;
use crate::session::Live;

/// A lock's directory is a container, which the server removes by itself some time after its last node has gone; one that never had a
/// node stays. It goes by a delete that the server refuses while a contender is in it. Tokens are transaction numbers of
/// the server and rise whatever goes. A directory was last used, as far as the server tells, when it was made.
#[async_trait]
impl GarbageCollect for ZkLock {
    async fn collect(&self, unused: &Unused) -> Result<Collected> {
        let live = self.live().await?;
        self.sweep(&live, unused).await.map_err(|error| error.with_operation(Operation::Collect))
    }
}

/// What became of a directory.
enum Verdict {
    Gone,
    InUse,
    Recent,
    Unused,
}

impl ZkLock {
    async fn sweep(&self, live: &Live, unused: &Unused) -> Result<Collected> {
        let mut collected = Collected::new();
        let base = self.base();
        let now = self.timely("asking for the time", async {
            server_time(live, &base.clock(), &CreateMode::Ephemeral.with_acls(self.acls())).await
        });
        let now = now.await?;
        let listed = self.timely("listing the locks", async {
            live.client.list_children(base.path()).await.map_err(|error| failed(live, error, base.path()))
        });
        for segment in listed.await? {
            let Some(name) = base.named(&segment).filter(|name| name.as_str().starts_with(&unused.prefix)) else {
                continue;
            };
            let directory = base.directory(&name);
            let judged = self.timely("removing a directory", async {
                judge(&live.client, &directory, now, unused).await.map_err(|error| failed(live, error, &directory))
            });
            match judged.await? {
                Verdict::Gone => {}
                Verdict::InUse => collected.in_use += 1,
                Verdict::Recent => collected.recent += 1,
                Verdict::Unused => collected.removed.push(name.as_str().to_owned()),
            }
        }
        Ok(collected)
    }
}

/// The leader's clock, in ms: it writes it into every node. The node goes again, with the session at the latest.
async fn server_time(live: &Live, path: &str, mode: &zookeeper_client::CreateOptions<'_>) -> Result<i64> {
    let (made, gone) = (live.client.create(path, &[], mode), live.client.delete(path, None));
    let (made, _gone) = (made.await, gone.await);
    made.map(|(stat, _)| stat.ctime).map_err(|error| failed(live, error, path))
}

async fn judge(client: &Client, directory: &str, now: i64, unused: &Unused) -> Result<Verdict, Driver> {
    let Some(stat) = client.check_stat(directory).await? else { return Ok(Verdict::Gone) };
    if stat.num_children > 0 {
        return Ok(Verdict::InUse);
    }
    let age = Duration::from_millis(u64::try_from(now.saturating_sub(stat.ctime)).unwrap_or_default());
    if age < unused.time {
        return Ok(Verdict::Recent);
    }
    if unused.dry_run {
        return Ok(Verdict::Unused);
    }
    match client.delete(directory, None).await {
        Ok(()) => Ok(Verdict::Unused),
        Err(Driver::NotEmpty) => Ok(Verdict::InUse),
        Err(Driver::NoNode) => Ok(Verdict::Gone),
        Err(error) => Err(error),
    }
}

fn failed(live: &Live, error: Driver, path: &str) -> Error {
    live.note(&error);
    error::of_driver(error, &format!("collecting in {path}"))
}
