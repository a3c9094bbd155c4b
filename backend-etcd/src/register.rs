//! The fenced register: one key a name, checked and written by one transaction.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use etcd_client::proto::{PbKeyValue, PbTxnOpResponse, PbTxnResponse};
use etcd_client::{Compare, CompareOp, GetOptions, Txn, TxnOp};
use lockyard_api::{Fenced, FencedRegister, FencingToken, LockName, Operation, Result, Version, Write, async_trait};
use tokio::time::timeout;

use crate::config::EtcdConfig;
use crate::connect;
use crate::error::Failure;
use crate::keys::KeySpace;
use crate::rpc::Rpc;

const READING: &str = "reading a register";
const WRITING: &str = "writing a register";

/// A client of the fenced registers in etcd. Cheap to clone; the connection ends with the last clone.
///
/// The register of a name is one key ([`KeySpace::register`]) without a lease; its version is the revision of its last
/// change (<https://etcd.io/docs/v3.4/learning/api/#key-value-pair>), its value the token in 20 digits, a space and the
/// bytes. Whoever has written stays written: a quorum has it on disk before it is answered.
#[derive(Clone)]
pub struct EtcdRegister {
    inner: Arc<Inner>,
}

struct Inner {
    servers: String,
    keys: KeySpace,
    rpc: Rpc,
    op_timeout: Duration,
}

impl EtcdRegister {
    /// Connects, and checks that the server is an etcd of version 3.4 or later that lets this user in.
    ///
    /// # Errors
    /// As [`EtcdLock::connect`](crate::EtcdLock::connect).
    ///
    /// # Cancel safety
    /// May be dropped at any await; nothing is left on the server.
    pub async fn connect(config: EtcdConfig) -> Result<Self> {
        let keys = KeySpace::new(&config.prefix, &config.options.namespace);
        let rpc = connect::open(&config, &keys).await?;
        let inner = Inner { servers: config.servers(), keys, rpc, op_timeout: config.options.op_timeout };
        Ok(Self { inner: Arc::new(inner) })
    }
}

impl Inner {
    async fn within<T>(&self, what: &str, sent: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        let answer = timeout(self.op_timeout, sent).await;
        answer.unwrap_or_else(|_| Err(Failure::timed_out(what, self.op_timeout)))
    }

    async fn read(&self, name: &LockName) -> Result<Fenced> {
        let key = self.keys.register(name);
        // Linearizable, as etcd reads unless asked otherwise.
        let read = self.within(READING, self.rpc.range(READING, &key, GetOptions::new())).await;
        stored(read.map_err(Failure::into_first_error)?.kvs.first())
    }

    async fn write(&self, name: &LockName, value: &[u8], token: FencingToken, expected: Version) -> Result<Write> {
        Fenced::check(value)?;
        let txn = transaction(&self.keys.register(name), value, token, expected);
        let answer = self.within(WRITING, self.rpc.txn(WRITING, txn)).await.map_err(Failure::into_first_error)?;
        let nonsense = || Failure::nonsense(WRITING).into_error();
        if answer.succeeded {
            let revision = answer.header.as_ref().and_then(|header| u64::try_from(header.revision).ok());
            return Ok(Write::Written { version: Version::new(revision.ok_or_else(nonsense)?) });
        }
        // What was read in the same step has token or version against the write.
        found(&answer)?.refusal(token, expected).ok_or_else(nonsense)
    }
}

/// Writes if the key is of the expected revision and its text is less than that of the next token, else reads the key.
///
/// Texts compare as their tokens do, since a token has 20 digits at their beginning.
fn transaction(key: &str, value: &[u8], token: FencingToken, expected: Version) -> Txn {
    // A revision is a positive i64: any other is expected in vain.
    let revision = i64::try_from(expected.get()).unwrap_or(i64::MAX);
    let mut conditions = vec![Compare::mod_revision(key, CompareOp::Equal, revision)];
    if expected != Version::ABSENT {
        // No text compares with a key that is not there.
        let next = format!("{:020}", token.get().saturating_add(1));
        conditions.push(Compare::value(key, CompareOp::Less, next));
    }
    let put = TxnOp::put(key, Fenced::encode(value, token), None);
    Txn::new().when(conditions).and_then([put]).or_else([TxnOp::get(key, None)])
}

/// What the failure branch read.
fn found(answer: &PbTxnResponse) -> Result<Fenced> {
    match answer.responses.first().and_then(|part| part.response.as_ref()) {
        Some(PbTxnOpResponse::ResponseRange(range)) => stored(range.kvs.first()),
        _ => Err(Failure::nonsense(WRITING).into_error()),
    }
}

fn stored(pair: Option<&PbKeyValue>) -> Result<Fenced> {
    let Some(pair) = pair else { return Ok(Fenced::absent()) };
    let revision = u64::try_from(pair.mod_revision).map_err(|_| Failure::nonsense(READING).into_error())?;
    Fenced::decode(&pair.value, Version::new(revision))
}

#[async_trait]
impl FencedRegister for EtcdRegister {
    async fn read(&self, name: &LockName) -> Result<Fenced> {
        self.inner.read(name).await.map_err(|error| error.with_operation(Operation::Read).with_name(name))
    }

    async fn write(&self, name: &LockName, value: &[u8], token: FencingToken, expected: Version) -> Result<Write> {
        let written = self.inner.write(name, value, token, expected).await;
        written.map_err(|error| error.with_operation(Operation::Write).with_name(name))
    }
}

impl fmt::Debug for EtcdRegister {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdRegister")
            .field("servers", &self.inner.servers)
            .field("base", &self.inner.keys.base())
            .finish_non_exhaustive()
    }
}
