//! The fenced register: one row a name, checked and written by one statement.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lockyard_api::{
    Error, ErrorKind, Fenced, FencedRegister, FencingToken, LockName, Operation, Result, Version, Write, async_trait,
};
use sqlx::postgres::PgRow;

use crate::config::PostgresConfig;
use crate::control::{Control, column};
use crate::lines::{Lines, OnBreak};
use crate::schema::Schema;
use crate::sentence::{Sentence, Value};

/// A client of the fenced registers in a Postgres database: the same in all three modes of locks, and behind a transaction
/// pooler. Cheap to clone; its connections end with the last clone.
///
/// The values are rows of the table `register` in the schema of the locks. A write that was answered is on the server's
/// disk (`synchronous_commit`); a standby may lack the last ones
/// (<https://www.postgresql.org/docs/current/wal-async-commit.html>).
#[derive(Clone)]
pub struct PostgresRegister {
    inner: Arc<Inner>,
}

struct Inner {
    lines: Lines,
    namespace: Arc<str>,
    shown: String,
    read: Arc<str>,
    write: Arc<str>,
    age: Arc<str>,
}

impl PostgresRegister {
    /// Connects, checks that the server is a primary, and creates the schema unless it is there. The mode of the
    /// configuration does not matter.
    ///
    /// # Errors
    /// `Unreachable`, `Auth`, `Config` (no such database), `WrongServer` (a standby, too old), `Capacity`; each says what
    /// to do.
    ///
    /// # Cancel safety
    /// Dropping the future closes what was opened. The schema may have been created.
    pub async fn connect(config: PostgresConfig) -> Result<Self> {
        Self::open(config.renamed()).await.map_err(|error| error.with_operation(Operation::Connect))
    }

    async fn open(config: PostgresConfig) -> Result<Self> {
        let (control, schema) = (Control::new(&config), Schema::from(&config));
        let facts = control.check_server().await?;
        schema.create_register(&control, facts).await?;
        let lines = Lines::connect(&config).await?;
        let inner = Inner {
            lines,
            namespace: config.options.namespace.as_str().into(),
            shown: config.shown,
            // One row in any case.
            read: schema
                .fill(
                    "SELECT r.value, r.token, r.version FROM (SELECT) one \
                 LEFT JOIN {schema}.register r ON r.namespace = $1 AND r.name = $2",
                )
                .into(),
            age: schema
                .fill(
                    "SELECT (extract(epoch FROM clock_timestamp() - r.written_at) * 1000)::bigint FROM (SELECT) one \
                 LEFT JOIN {schema}.register r ON r.namespace = $1 AND r.name = $2",
                )
                .into(),
            write: schema.fill("SELECT outcome, number FROM {schema}.write_register_2($1, $2, $3, $4, $5)").into(),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    fn about(&self, name: &LockName) -> Vec<Value> {
        vec![Value::Text(Arc::clone(&self.inner.namespace)), Value::Text(name.as_str().into())]
    }

    async fn found(&self, name: &LockName) -> Result<Fenced> {
        let sentence = Sentence { sql: Arc::clone(&self.inner.read), values: self.about(name) };
        let row = self.inner.lines.run(&sentence, OnBreak::Repeat, "reading a register").await?.row;
        match (column(&row, 0)?, column::<Option<i64>>(&row, 1)?, column::<Option<i64>>(&row, 2)?) {
            (Some(value), Some(token), Some(version)) => {
                Ok(Fenced::new(value, self::token(token)?, Version::new(unsigned(version)?)))
            }
            _ => Ok(Fenced::absent()),
        }
    }

    async fn aged(&self, name: &LockName) -> Result<Option<Duration>> {
        let sentence = Sentence { sql: Arc::clone(&self.inner.age), values: self.about(name) };
        let row = self.inner.lines.run(&sentence, OnBreak::Repeat, "reading a register").await?.row;
        // Less than none: the clock was set back.
        let millis = column::<Option<i64>>(&row, 0)?.map(|millis| u64::try_from(millis).unwrap_or(0));
        Ok(millis.map(Duration::from_millis))
    }

    async fn written(&self, name: &LockName, value: &[u8], token: FencingToken, expected: Version) -> Result<Write> {
        Fenced::check(value)?;
        let mut values = self.about(name);
        // Tokens are below 2^63, and so are versions that the server gave: any other is none of its own.
        let expected = i64::try_from(expected.get()).unwrap_or(i64::MAX);
        let token = i64::try_from(token.get()).unwrap_or(i64::MAX);
        values.extend([Value::Bytes(value.into()), Value::Big(token), Value::Big(expected)]);
        let sentence = Sentence { sql: Arc::clone(&self.inner.write), values };
        // Sent twice, it would find its own write and take it for somebody else's.
        let answer = self.inner.lines.run(&sentence, OnBreak::Tell, "writing a register").await?;
        told(&answer.row)
    }
}

#[async_trait]
impl FencedRegister for PostgresRegister {
    async fn read(&self, name: &LockName) -> Result<Fenced> {
        self.found(name).await.map_err(|error| error.with_operation(Operation::Read).with_name(name))
    }

    async fn write(&self, name: &LockName, value: &[u8], token: FencingToken, expected: Version) -> Result<Write> {
        let written = self.written(name, value, token, expected).await;
        written.map_err(|error| error.with_operation(Operation::Write).with_name(name))
    }

    fn tells_age(&self) -> bool {
        true
    }

    async fn age(&self, name: &LockName) -> Result<Option<Duration>> {
        self.aged(name).await.map_err(|error| error.with_operation(Operation::Read).with_name(name))
    }
}

fn told(row: &PgRow) -> Result<Write> {
    let number: i64 = column(row, 1)?;
    match column::<i32>(row, 0)? {
        0 => Ok(Write::Written { version: Version::new(unsigned(number)?) }),
        1 => Ok(Write::StaleToken { stored: token(number)? }),
        2 => Ok(Write::Conflict { version: Version::new(unsigned(number)?) }),
        _ => Err(Error::new(ErrorKind::Protocol, "the server's answer to a write is none that this version knows")),
    }
}

fn token(number: i64) -> Result<FencingToken> {
    FencingToken::new(unsigned(number)?)
}

fn unsigned(number: i64) -> Result<u64> {
    u64::try_from(number)
        .map_err(|e| Error::new(ErrorKind::Protocol, "a register's token or version is negative").with_source(e))
}

impl fmt::Debug for PostgresRegister {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PostgresRegister").field(&self.inner.shown).finish()
    }
}
