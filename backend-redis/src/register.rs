//! The fenced register: one hash a name, checked and written by one script.

use std::sync::Arc;

use async_trait::async_trait;
use lockyard_api::{Fenced, FencedRegister, FencingToken, LockName, Operation, Result, Version, Write};
use redis::Value;
use tokio::sync::mpsc;

use crate::RedisConfig;
use crate::connect;
use crate::error::{self, Failure};
use crate::keys::{Keys, LockKeys};
use crate::scripts::{Known, REGISTER_READING, REGISTER_WRITING};
use crate::session::Session;
use crate::waiters::Waiters;

/// A client of the fenced registers on one Redis server. Cheap to clone; the connection ends with the last clone.
///
/// The register of the name `n` in the namespace `s` is the hash `{s:n}:register`. It has no expiry: on a server that may
/// evict keys or loses its data in a crash, a value is lost as a lock is, and its name is then as if never written
/// (<https://redis.io/docs/latest/operate/oss_and_stack/management/persistence/>).
#[derive(Debug, Clone)]
pub struct RedisRegister {
    session: Arc<Session>,
    keys: Keys,
}

impl RedisRegister {
    /// Connects, and checks that the server is a primary that this user may use.
    ///
    /// # Errors
    /// As [`RedisLock::connect`](crate::RedisLock::connect).
    ///
    /// # Cancel safety
    /// Dropped, it leaves nothing at the server.
    pub async fn connect(config: RedisConfig) -> Result<Self> {
        let keys = Keys::new(&config.namespace);
        let driver = connect::client(&config)?;
        // Nobody waits for a register: nothing is ever handed to this client.
        let (strays, _) = mpsc::unbounded_channel();
        let session = Session::new(config, driver, Arc::new(Waiters::new(strays)));
        session.start().await?;
        Ok(Self { session, keys })
    }

    async fn run(&self, script: &Known, keys: &LockKeys, args: &[&[u8]]) -> Result<Value> {
        let since = self.session.now();
        let connection = self.session.connection(since).await?;
        match self.session.run(&connection, since, script, keys, args).await?.value {
            Value::ServerError(refused) => Err(error::refusal(&refused, self.session.address()).into()),
            value => Ok(value),
        }
    }

    async fn written(&self, keys: &LockKeys, value: &[u8], token: FencingToken, expected: Version) -> Result<Write> {
        Fenced::check(value)?;
        let (token, expected) = (digits(token.get()), digits(expected.get()));
        let answer = self.run(&REGISTER_WRITING, keys, &[value, token.as_bytes(), expected.as_bytes()]).await?;
        let Some((outcome, number)) = outcome(&answer) else { return Err(unexpected().into()) };
        match outcome {
            0 => Ok(Write::Written { version: Version::new(number) }),
            1 => Ok(Write::StaleToken { stored: FencingToken::new(number)? }),
            2 => Ok(Write::Conflict { version: Version::new(number) }),
            _ => Err(unexpected().into()),
        }
    }
}

#[async_trait]
impl FencedRegister for RedisRegister {
    async fn read(&self, name: &LockName) -> Result<Fenced> {
        let keys = self.keys.of(name);
        let found = async { fenced(self.run(&REGISTER_READING, &keys, &[]).await?) };
        found.await.map_err(|error| error.with_operation(Operation::Read).with_name(name))
    }

    async fn write(&self, name: &LockName, value: &[u8], token: FencingToken, expected: Version) -> Result<Write> {
        let keys = self.keys.of(name);
        let written = self.written(&keys, value, token, expected).await;
        written.map_err(|error| error.with_operation(Operation::Write).with_name(name))
    }
}

fn digits(number: u64) -> String {
    format!("{number:020}")
}

fn unexpected() -> Failure {
    error::unexpected("a request for a register")
}

/// The two parts of the write script's answer.
fn outcome(value: &Value) -> Option<(i64, u64)> {
    let Value::Array(parts) = value else { return None };
    match parts.as_slice() {
        [Value::Int(outcome), Value::BulkString(number)] => Some((*outcome, parsed(number)?)),
        _ => None,
    }
}

/// The read script's answer.
fn fenced(value: Value) -> Result<Fenced> {
    let parts = match value {
        Value::Nil => return Ok(Fenced::absent()),
        Value::Array(parts) => parts,
        _ => return Err(unexpected().into()),
    };
    let [Value::BulkString(value), Value::BulkString(token), Value::BulkString(version)] = parts.as_slice() else {
        return Err(unexpected().into());
    };
    match (parsed(token), parsed(version)) {
        (Some(token), Some(version)) => {
            Ok(Fenced::new(value.clone(), FencingToken::new(token)?, Version::new(version)))
        }
        _ => Err(unexpected().into()),
    }
}

fn parsed(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a damaged hash or a proxy may answer: an error, never a panic.
    #[test]
    fn answers_that_make_no_sense_are_errors() {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        for odd in [Value::Int(1), Value::Array(Vec::new()), Value::Array(vec![text("v"), text("x"), text("1")])] {
            assert!(outcome(&odd).is_none());
            assert!(fenced(odd).is_err());
        }
        let beyond = Value::Array(vec![text("v"), text(&u64::MAX.to_string()), text("1")]);
        assert!(fenced(beyond).is_err());
        assert_eq!(outcome(&Value::Array(vec![Value::Int(2), text("00000000000000000007")])), Some((2, 7)));
    }
}
