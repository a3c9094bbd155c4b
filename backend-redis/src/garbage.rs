//! Removal of the counters of unused names.

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use lockyard_api::{Collected, GarbageCollect, LockName, Operation, Result, Unused};
use redis::Value;

use crate::RedisLock;
use crate::client::Client;
use crate::error;
use crate::scripts::COLLECTING;

/// How many keys the server looks at in one step of the search.
const STEP: &str = "500";

/// The counter of a name stays for 30 days after its last grant, and is what this removes; one script looks and removes. A name was
/// last used when it was last granted. Its next token is the server's time, which must be past the counter by then.
#[async_trait]
impl GarbageCollect for RedisLock {
    async fn collect(&self, unused: &Unused) -> Result<Collected> {
        self.client().collect(unused).await.map_err(|error| error.with_operation(Operation::Collect))
    }
}

impl Client {
    async fn collect(&self, unused: &Unused) -> Result<Collected> {
        let mut collected = Collected::new();
        for name in self.counted(&unused.prefix).await? {
            match self.judge(&name, unused).await? {
                0 => {}
                1 => collected.in_use += 1,
                2 => collected.recent += 1,
                3 => collected.removed.push(name.as_str().to_owned()),
                _ => return Err(error::unexpected("a collection").into()),
            }
        }
        Ok(collected)
    }

    /// The names that have a counter. A search may answer a key twice
    /// (<https://redis.io/docs/latest/commands/scan/>).
    async fn counted(&self, prefix: &str) -> Result<BTreeSet<LockName>> {
        let pattern = self.keys.counters(prefix);
        let (mut names, mut cursor) = (BTreeSet::new(), "0".to_owned());
        loop {
            let since = self.session.now();
            let connection = self.session.connection(since).await?;
            let mut scan = redis::cmd("SCAN");
            scan.arg(&cursor).arg("MATCH").arg(&pattern).arg("COUNT").arg(STEP);
            let answer = self.session.send(&connection, since, &scan).await?;
            if let Value::ServerError(refused) = &answer {
                return Err(error::refusal(refused, self.session.address()).into());
            }
            let (next, keys): (String, Vec<Vec<u8>>) =
                redis::from_redis_value(answer).map_err(|_| error::unexpected("a search for keys"))?;
            // A key that is no text is not ours.
            let texts = keys.iter().filter_map(|key| std::str::from_utf8(key).ok());
            names.extend(texts.filter_map(|key| self.keys.counted(key)));
            cursor = next;
            if cursor == "0" {
                return Ok(names);
            }
        }
    }

    async fn judge(&self, name: &LockName, unused: &Unused) -> Result<i64> {
        let since = self.session.now();
        let connection = self.session.connection(since).await?;
        let time = millis(unused.time);
        let args = [time.as_str(), if unused.dry_run { "0" } else { "1" }];
        let keys = self.keys.of(name);
        match self.session.run(&connection, since, &COLLECTING, &keys, &args).await?.value {
            Value::Int(verdict) => Ok(verdict),
            Value::ServerError(refused) => Err(error::refusal(&refused, self.session.address()).into()),
            _ => Err(error::unexpected("a collection").into()),
        }
    }
}

/// In digits that the numbers of a script carry.
fn millis(time: Duration) -> String {
    time.as_millis().min(1 << 52).to_string()
}
