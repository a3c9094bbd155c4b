//! Whether the server at the other end can hold locks.

use lockyard_api::ErrorKind;
use redis::Value;
use redis::aio::MultiplexedConnection;

use crate::error::{Failure, refusal, unconnected, unexpected};

/// The oldest server: it has `LPOS` and hands over what the scripts do, not the scripts, to its replicas.
const OLDEST: (u32, u32) = (6, 2);

/// Refuses a server that cannot hold locks; answers whether it keeps them across a crash.
pub(crate) async fn check(wire: &MultiplexedConnection, address: &str) -> Result<bool, Failure> {
    let mut wire = wire.clone();
    let mut questions = redis::pipe();
    questions.cmd("HELLO").cmd("CONFIG").arg("GET").arg("append*").cmd("CONFIG").arg("GET").arg("maxmemory*");
    let answers = wire.send_packed_commands(&questions, 0, 3).await.map_err(|error| unconnected(error, address))?;
    let [hello, files, memory] = answers.as_slice() else { return Err(unexpected("HELLO")) };
    match hello {
        Value::ServerError(error) => return Err(refusal(error, address)),
        _ => suitable(hello, address)?,
    }
    // CONFIG is often not allowed to users: then nothing is promised and nothing is warned of.
    if let Some(policy) = evicting(memory) {
        tracing::warn!(address, policy, "this server may evict locks when its memory is full: set noeviction");
    }
    Ok(field(files, "appendonly") == Some("yes") && field(files, "appendfsync") == Some("always"))
}

/// The policy by which a server with a limit on its memory throws keys away.
fn evicting(memory: &Value) -> Option<&str> {
    let policy = field(memory, "maxmemory-policy")?;
    let limited = field(memory, "maxmemory").is_some_and(|limit| limit != "0");
    (limited && policy != "noeviction").then_some(policy)
}

fn suitable(hello: &Value, address: &str) -> Result<(), Failure> {
    let wrong = |message: String| Err(Failure::refused(ErrorKind::WrongServer, message));
    let Some(version) = field(hello, "version") else { return Err(unexpected("HELLO")) };
    let mut numbers = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    if (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) < OLDEST {
        return wrong(format!("{address} is Redis {version}; lockyard needs {}.{} or later", OLDEST.0, OLDEST.1));
    }
    match field(hello, "mode") {
        Some("cluster") => return wrong(format!("{address} is a node of a cluster: name one primary that is in none")),
        Some("sentinel") => return wrong(format!("{address} is a Sentinel: name the primary that it watches")),
        _ => {}
    }
    match field(hello, "role") {
        Some("master") | None => Ok(()),
        Some(_) => wrong(format!("{address} is a replica and takes no writes: name its primary (INFO replication)")),
    }
}

fn field<'a>(map: &'a Value, key: &str) -> Option<&'a str> {
    let Value::Map(pairs) = map else { return None };
    pairs.iter().find(|(name, _)| plain(name) == Some(key)).and_then(|(_, value)| plain(value))
}

fn plain(value: &Value) -> Option<&str> {
    match value {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok(),
        Value::SimpleString(text) => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use lockyard_api::Error;

    use super::*;

    fn map(pairs: &[(&str, &str)]) -> Value {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        Value::Map(pairs.iter().map(|(name, value)| (text(name), text(value))).collect())
    }

    fn hello(version: &str, mode: &str, role: &str) -> Value {
        map(&[("server", "redis"), ("version", version), ("mode", mode), ("role", role)])
    }

    /// B79: a cache that also holds locks loses them when its memory is full.
    #[test]
    fn a_server_that_evicts_is_noticed() {
        let memory = |limit, policy| map(&[("maxmemory", limit), ("maxmemory-policy", policy)]);
        assert_eq!(evicting(&memory("1000000", "allkeys-lru")), Some("allkeys-lru"));
        assert_eq!(evicting(&memory("0", "allkeys-lru")), None);
        assert_eq!(evicting(&memory("1000000", "noeviction")), None);
        assert_eq!(evicting(&Value::Nil), None);
    }

    #[test]
    fn servers_that_cannot_hold_locks_are_refused_with_the_remedy() {
        for good in ["6.2.0", "7.0.15", "10.1", "7.9.240-rc1"] {
            assert!(suitable(&hello(good, "standalone", "master"), "h:1").is_ok(), "{good}");
        }
        for (answer, word) in [
            (hello("6.0.16", "standalone", "master"), "6.2 or later"),
            (hello("5.0", "standalone", "master"), "6.2 or later"),
            (hello("7.0.0", "cluster", "master"), "cluster"),
            (hello("7.0.0", "sentinel", "master"), "Sentinel"),
            (hello("7.0.0", "standalone", "replica"), "primary"),
        ] {
            let error = Error::from(suitable(&answer, "h:1").expect_err(word));
            assert_eq!(error.kind(), ErrorKind::WrongServer);
            assert!(error.message().contains(word) && error.message().contains("h:1"), "{error}");
        }
        assert!(suitable(&Value::Nil, "h:1").is_err());
    }
}
