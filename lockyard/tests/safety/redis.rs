//! Redis: a script compares and writes in one step.

use lockyard::FencingToken;
use lockyard_testbed::Service;
use redis::aio::MultiplexedConnection;

use crate::support::{Checked, paused_and_next, server, token};

/// Tokens as text of 20 digits: numbers of Lua are exact up to 2^53 only.
const SAVE: &str = "
    if (redis.call('HGET', KEYS[1], 'fence') or '') > ARGV[2] then return 0 end
    redis.call('HSET', KEYS[1], 'body', ARGV[1], 'fence', ARGV[2])
    return 1";

/// Whether the report was saved: what a later holder has written stays as it is.
async fn save(db: &mut MultiplexedConnection, key: &str, body: &str, token: FencingToken) -> redis::RedisResult<bool> {
    let fence = format!("{:020}", token.get());
    redis::Script::new(SAVE).key(key).arg(body).arg(fence).invoke_async(db).await
}

#[tokio::test]
async fn a_late_holder_changes_no_hash() -> Checked {
    let Some(server) = server(Service::Redis).await? else { return Ok(()) };
    let (paused, next) = paused_and_next(&server.lock_url(), "report").await?;
    let (old, new) = (token(&paused)?, token(&next)?);
    let mut db = redis::Client::open(server.url())?.get_multiplexed_async_connection().await?;

    assert!(save(&mut db, "report:monday", "next", new).await?);
    assert!(save(&mut db, "report:monday", "next, again", new).await?);
    assert!(!save(&mut db, "report:monday", "late", old).await?);
    let body: String = redis::cmd("HGET").arg("report:monday").arg("body").query_async(&mut db).await?;
    assert_eq!(body, "next, again");
    Ok(())
}
