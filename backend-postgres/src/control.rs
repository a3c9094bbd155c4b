//! The client's side connection: checks the server, cancels waits, ends sessions, and answers inspect.

use std::sync::{Arc, Mutex as SyncMutex, PoisonError};
use std::time::Duration;

use lockyard_api::{Clock, Error, ErrorKind, Result};
use sqlx::postgres::{PgConnectOptions, PgRow};
use sqlx::{ConnectOptions, PgConnection, Row};
use tokio::runtime::Handle;
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::config::PostgresConfig;
use crate::error;
use crate::lines::Path;
use crate::sentence::Sentence;
use crate::session::LockSession;
use crate::wire::Statement;

/// A server process: its number alone could belong to another one by now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Backend {
    pub(crate) pid: i32,
    /// Microseconds since 1970.
    pub(crate) started: i64,
}

/// What the server is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ServerFacts {
    pub(crate) version: i32,
}

/// One plain connection, opened again when it is lost, that no lock lives on.
pub(crate) struct Control {
    server: PgConnectOptions,
    connection: Mutex<Option<PgConnection>>,
    ghosts: SyncMutex<Vec<Backend>>,
    connect_timeout: Duration,
    op_timeout: Duration,
    clock: Clock,
    runtime: Handle,
}

const CANCEL: &str = "SELECT pg_cancel_backend(a.pid) FROM pg_stat_get_activity($1) a \
    WHERE (extract(epoch FROM a.backend_start) * 1000000)::int8 = $2";
const TERMINATE: &str = "SELECT pg_terminate_backend(a.pid, $3) FROM pg_stat_get_activity($1) a \
    WHERE (extract(epoch FROM a.backend_start) * 1000000)::int8 = $2";
const EXISTS: &str = "SELECT 1 FROM pg_stat_get_activity($1) a \
    WHERE (extract(epoch FROM a.backend_start) * 1000000)::int8 = $2";
const FACTS: &str = "SELECT current_setting('server_version_num')::int4, pg_is_in_recovery()";
const OLDEST: i32 = 140_000;

impl Control {
    pub(crate) fn new(config: &PostgresConfig) -> Arc<Self> {
        Arc::new(Self {
            server: config.server.clone(),
            connection: Mutex::new(None),
            ghosts: SyncMutex::default(),
            connect_timeout: config.options.connect_timeout,
            op_timeout: config.options.op_timeout,
            clock: config.options.clock.clone(),
            runtime: Handle::current(),
        })
    }

    /// Refuses a server that cannot hold locks: too old, or a standby.
    pub(crate) async fn check_server(&self) -> Result<ServerFacts> {
        let row = self.simple(FACTS.to_owned(), "looking at the server").await?;
        let row = row.ok_or_else(|| Error::new(ErrorKind::Protocol, "the server does not say what it is"))?;
        let (version, standby): (i32, bool) = (column(&row, 0)?, column(&row, 1)?);
        let problem = if version < OLDEST {
            format!("the server has version {}: lockyard needs PostgreSQL 14 or later", version / 10_000)
        } else if standby {
            "the server is a standby, where nothing can be locked: connect to the primary".to_owned()
        } else {
            return Ok(ServerFacts { version });
        };
        Err(Error::new(ErrorKind::WrongServer, problem).not_applied())
    }

    /// Asks `backend` to give up the statement it runs. What becomes of the statement is told on its own connection.
    pub(crate) async fn cancel(&self, backend: Backend) -> Result<()> {
        self.row(sqlx::query(CANCEL).bind(backend.pid).bind(backend.started), "cancelling a wait").await.map(drop)
    }

    /// Ends when the server says that it has no such process any more. A server that does not answer says nothing.
    pub(crate) async fn gone(&self, backend: Backend) {
        const LOOK: Duration = Duration::from_secs(15);
        loop {
            self.clock.sleep(LOOK).await;
            let looked =
                self.row(sqlx::query(EXISTS).bind(backend.pid).bind(backend.started), "looking for a session").await;
            if let Ok(None) = looked {
                return;
            }
        }
    }

    /// Ends a session, and waits until the server has: a signal sent is a lock still held.
    async fn terminate(&self, backend: Backend) -> Result<()> {
        const DOING: &str = "ending an old session";
        // Not for long: all that goes by the side connection waits meanwhile.
        let patience = i64::try_from((self.op_timeout / 10).as_millis()).unwrap_or(i64::MAX).max(1);
        let terminate = sqlx::query(TERMINATE).bind(backend.pid).bind(backend.started).bind(patience);
        match self.row(terminate, DOING).await? {
            Some(row) if !column::<bool>(&row, 0)? => Err(error::no_answer(DOING)),
            _ => Ok(()),
        }
    }

    /// Remembers a session that this client gave up without the server having said that it ended, and sees it ended.
    pub(crate) fn bury(self: &Arc<Self>, backend: Backend) {
        self.ghosts().push(backend);
        let control = Arc::clone(self);
        self.runtime.spawn(async move {
            const ATTEMPTS: u32 = 12;
            for attempt in 0..ATTEMPTS {
                if control.end_ghosts().await.is_ok() {
                    return;
                }
                control.clock.sleep(Duration::from_millis(100 << attempt.min(8))).await;
            }
            // By now the server's own timeouts have ended it.
            control.ghosts().retain(|ghost| *ghost != backend);
        });
    }

    /// Ends what [`Control::bury`] was told: before a new session takes locks, no old one may still hold them.
    pub(crate) async fn end_ghosts(&self) -> Result<()> {
        let all = async {
            loop {
                let Some(ghost) = self.ghosts().last().copied() else { return Ok(()) };
                self.terminate(ghost).await?;
                self.ghosts().retain(|other| *other != ghost);
            }
        };
        timeout(self.op_timeout, all).await.map_err(|_| error::no_answer("ending an old session"))?
    }

    /// A session that was given up for want of an answer may live on at the server, with what was sent on it: nothing of it
    /// is released until the server has ended it.
    pub(crate) async fn surely_over(&self, session: &LockSession) -> Result<()> {
        if session.is_over() && self.ghosts().contains(&session.backend) {
            self.end_ghosts().await?;
        }
        Ok(())
    }

    fn ghosts(&self) -> std::sync::MutexGuard<'_, Vec<Backend>> {
        self.ghosts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first row of a statement.
    pub(crate) async fn row(&self, statement: Statement, doing: &str) -> Result<Option<PgRow>> {
        Ok(self.rows(statement, doing).await?.into_iter().next())
    }

    /// The rows of a statement, within the operation timeout, connecting and the turn on the connection included.
    pub(crate) async fn rows(&self, statement: Statement, doing: &str) -> Result<Vec<PgRow>> {
        // Boxed: seldom, and those who may need it should not carry it about.
        let answer = timeout(self.op_timeout, Box::pin(self.rows_at_leisure(statement, doing))).await;
        answer.map_err(|_| error::no_answer(doing))?
    }

    async fn rows_at_leisure(&self, statement: Statement, doing: &str) -> Result<Vec<PgRow>> {
        let mut slot = self.connection.lock().await;
        // Taken out, so that a future dropped half-way takes its connection along.
        let mut connection = match slot.take() {
            Some(connection) => connection,
            None => self.connect().await?,
        };
        let answer = statement.fetch_all(&mut connection).await;
        if answer.as_ref().map_or_else(error::session_survives, |_| true) {
            *slot = Some(connection);
        }
        answer.map_err(|failed| error::driver(failed, doing))
    }

    /// The row of a statement that only looks, by way of a connection of its own behind a pooler.
    pub(crate) async fn look(&self, sentence: &Sentence, path: Path, doing: &str) -> Result<Option<PgRow>> {
        let looking = async {
            let mut connection = self.connect().await?;
            sentence.fetch(path, &mut connection).await.map_err(|failed| error::driver(failed, doing))
        };
        timeout(self.op_timeout, looking).await.map_err(|_| error::no_answer(doing))?
    }

    /// Runs statements in the simple protocol, which a pooler passes on as well, on a connection of their own; the first row
    /// of them.
    pub(crate) async fn simple(&self, script: String, doing: &str) -> Result<Option<PgRow>> {
        let mut connection = self.connect().await?;
        let script = sqlx::raw_sql(sqlx::AssertSqlSafe(script));
        match timeout(self.op_timeout, script.fetch_optional(&mut connection)).await {
            Ok(answer) => answer.map_err(|failed| error::driver(failed, doing)),
            Err(_) => Err(error::no_answer(doing)),
        }
    }

    async fn connect(&self) -> Result<PgConnection> {
        let at = || format!("connecting to {}:{}", self.server.get_host(), self.server.get_port());
        match timeout(self.connect_timeout, self.server.connect()).await {
            Ok(Ok(connection)) => Ok(connection),
            Ok(Err(failed)) => Err(error::driver(failed, &at()).not_applied()),
            Err(_) => {
                let message =
                    format!("{}: no answer within {:?}: check host, port and firewall", at(), self.connect_timeout);
                Err(Error::new(ErrorKind::Unreachable, message).not_applied())
            }
        }
    }
}

impl std::fmt::Debug for Control {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Control").finish_non_exhaustive()
    }
}

/// A column of a row that this crate asked for.
pub(crate) fn column<'r, T>(row: &'r PgRow, index: usize) -> Result<T>
where
    T: sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres>,
{
    row.try_get(index).map_err(|failed| error::driver(failed, "reading an answer"))
}
