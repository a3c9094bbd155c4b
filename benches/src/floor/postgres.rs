//! Postgres: prepared statements on bare sessions.

mod sql;

use std::collections::{BTreeMap, HashSet};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lockyard_api::{LockUrl, Owner};
use sqlx::postgres::{PgConnectOptions, PgConnection, PgListener, PgPoolOptions};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection};
use tokio::sync::Mutex;

use self::sql::Sql;
use super::Floor;
use crate::side::{Contender, Contenders, Outcome, Side, Trouble};

/// How many sessions the advisory mode spreads its names over.
const SESSIONS: usize = 4;
/// A notification that is lost is made good by asking again.
const RECHECK: Duration = Duration::from_secs(1);
/// The names of the plain pairs, which draw no token.
const PLAIN_ADVISORY: &str = "pg_try_advisory_lock and pg_advisory_unlock, without a token";
const PLAIN_ROW: &str = "FOR UPDATE and COMMIT, without a token";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Advisory,
    Row,
    Lease,
}

pub(super) struct PostgresFloor {
    options: PgConnectOptions,
    mode: Mode,
    sql: Arc<Sql>,
}

impl PostgresFloor {
    pub(super) fn new(url: &LockUrl, namespace: &str, mode: &str) -> Outcome<Self> {
        let host = url.hosts.first().ok_or_else(|| Trouble::new("the URL names no host"))?;
        let mut options = PgConnectOptions::new().host(&host.name).port(host.port.unwrap_or(5432));
        if let Some(user) = &url.user {
            options = options.username(user);
        }
        if let Some(password) = &url.password {
            options = options.password(password);
        }
        let database = url.path.trim_start_matches('/');
        if !database.is_empty() {
            options = options.database(database);
        }
        let (mode, word) = match mode {
            "row" => (Mode::Row, "row"),
            "lease" => (Mode::Lease, "lease"),
            "advisory" => (Mode::Advisory, "advisory"),
            other => return Err(Trouble::new(format!("there is no floor for postgres {other}"))),
        };
        Ok(Self { options, mode, sql: Arc::new(Sql::new(namespace, word)) })
    }

    async fn open(&self) -> Outcome<Wire> {
        let mut connection = self.options.connect().await?;
        sqlx::raw_sql(AssertSqlSafe(self.sql.create.as_str())).execute(&mut connection).await?;
        Ok(Arc::new(Mutex::new(connection)))
    }

    fn session(&self, wire: Wire, way: Way) -> Session {
        let owner = Owner::random().to_string();
        Session {
            wire,
            mode: self.mode,
            sql: Arc::clone(&self.sql),
            way,
            rows: HashSet::new(),
            locked: false,
            owner,
            listener: None,
        }
    }

    async fn waiting(&self) -> Outcome<Session> {
        let mut session = self.session(self.open().await?, Way::Waits);
        if self.mode == Mode::Lease {
            let pool = PgPoolOptions::new().max_connections(1).connect_with(self.options.clone()).await?;
            let mut listener = PgListener::connect_with(&pool).await?;
            listener.listen(&self.sql.channel).await?;
            session.listener = Some(listener);
        }
        Ok(session)
    }
}

#[async_trait]
impl Side for PostgresFloor {
    async fn one(&self) -> Outcome<Box<dyn Contender>> {
        Ok(Box::new(self.session(self.open().await?, Way::Tries)))
    }

    async fn shared(&self, tasks: usize) -> Outcome<Contenders> {
        // A row lock needs a session each, as ours does; the others share as many as the backend opens.
        let sessions = if self.mode == Mode::Row { tasks } else { SESSIONS.min(tasks) };
        let mut wires = Vec::with_capacity(sessions);
        for _ in 0..sessions {
            wires.push(self.open().await?);
        }
        Ok((0..tasks)
            .map(|i| Box::new(self.session(Arc::clone(&wires[i % sessions]), Way::Tries)) as Box<dyn Contender>)
            .collect())
    }

    async fn own(&self, contenders: usize) -> Outcome<Contenders> {
        let mut all: Contenders = Vec::with_capacity(contenders);
        for _ in 0..contenders {
            all.push(Box::new(self.waiting().await?));
        }
        Ok(all)
    }
}

#[async_trait]
impl Floor for PostgresFloor {
    async fn settings(&self) -> Outcome<BTreeMap<String, String>> {
        let mut connection = self.options.connect().await?;
        let names = ["fsync", "synchronous_commit", "wal_level", "max_connections", "client_connection_check_interval"];
        let mut settings = BTreeMap::new();
        for name in names {
            let sql = "SELECT current_setting($1, true)";
            let value: Option<String> = sqlx::query_scalar(sql).bind(name).fetch_one(&mut connection).await?;
            settings.extend(value.map(|value| (name.to_owned(), value)));
        }
        Ok(settings)
    }

    async fn beside(&self) -> Outcome<Option<(&'static str, Box<dyn Contender>)>> {
        let name = match self.mode {
            Mode::Advisory => PLAIN_ADVISORY,
            Mode::Row => PLAIN_ROW,
            Mode::Lease => return Ok(None),
        };
        Ok(Some((name, Box::new(self.session(self.open().await?, Way::Plain)))))
    }

    async fn finish(&self) -> Outcome<()> {
        let mut connection = self.options.connect().await?;
        sqlx::raw_sql(AssertSqlSafe(self.sql.drop.as_str())).execute(&mut connection).await?;
        Ok(())
    }
}

type Wire = Arc<Mutex<PgConnection>>;

/// How a session asks for a name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Gives up when it is taken; draws a token, as ours does.
    Tries,
    /// The same without a token.
    Plain,
    /// Waits while it is taken.
    Waits,
}

struct Session {
    wire: Wire,
    mode: Mode,
    sql: Arc<Sql>,
    way: Way,
    /// The names whose rows are known to exist.
    rows: HashSet<String>,
    /// Whether its transaction has locked a row.
    locked: bool,
    owner: String,
    listener: Option<PgListener>,
}

fn key(name: &str) -> i64 {
    i64::from_ne_bytes(BuildHasherDefault::<DefaultHasher>::default().hash_one(name).to_ne_bytes())
}

impl Session {
    async fn lock_row(&mut self, name: &str) -> Outcome<()> {
        let mut wire = self.wire.lock().await;
        if !self.rows.contains(name) {
            sqlx::query(AssertSqlSafe(self.sql.insert.as_str())).bind(name).execute(&mut *wire).await?;
            self.rows.insert(name.to_owned());
        }
        // The simple protocol has no parameters; the names are this crate's own, without quotes.
        let sql = match self.way {
            Way::Tries => &self.sql.try_row,
            Way::Plain => &self.sql.plain_row,
            Way::Waits => &self.sql.wait_row,
        };
        let rows = sqlx::raw_sql(AssertSqlSafe(sql.replace("NAME", name))).fetch_all(&mut *wire).await?;
        self.locked = !rows.is_empty();
        if self.locked { Ok(()) } else { Err(Trouble::new(format!("{name} is taken"))) }
    }

    async fn lock_advisory(&mut self, name: &str) -> Outcome<()> {
        let mut wire = self.wire.lock().await;
        let taken = match self.way {
            Way::Tries => {
                let sql = AssertSqlSafe(self.sql.try_advisory.as_str());
                let token: Option<i64> = sqlx::query_scalar(sql).bind(key(name)).fetch_one(&mut *wire).await?;
                token.is_some()
            }
            Way::Plain => {
                let sql = "SELECT pg_try_advisory_lock($1)";
                sqlx::query_scalar(sql).bind(key(name)).fetch_one(&mut *wire).await?
            }
            Way::Waits => {
                sqlx::query("SELECT pg_advisory_lock($1)").bind(key(name)).execute(&mut *wire).await?;
                true
            }
        };
        if taken { Ok(()) } else { Err(Trouble::new(format!("{name} is taken"))) }
    }

    async fn take_lease(&mut self, name: &str) -> Outcome<()> {
        loop {
            let taken: Option<i64> = {
                let mut wire = self.wire.lock().await;
                let take = sqlx::query_scalar(AssertSqlSafe(self.sql.take.as_str())).bind(name).bind(&self.owner);
                take.fetch_optional(&mut *wire).await?
            };
            if taken.is_some() {
                return Ok(());
            }
            let Some(listener) = &mut self.listener else { return Err(Trouble::new(format!("{name} is taken"))) };
            // A notification of any name of this run will do: there is only one.
            if let Ok(told) = tokio::time::timeout(RECHECK, listener.recv()).await {
                told?;
                while listener.next_buffered().is_some() {}
            }
        }
    }
}

#[async_trait]
impl Contender for Session {
    async fn acquire(&mut self, name: &str) -> Outcome<()> {
        match self.mode {
            Mode::Row => self.lock_row(name).await,
            Mode::Lease => self.take_lease(name).await,
            Mode::Advisory => self.lock_advisory(name).await,
        }
    }

    async fn release(&mut self, name: &str) -> Outcome<()> {
        let mut wire = self.wire.lock().await;
        let held = match self.mode {
            Mode::Row => {
                sqlx::raw_sql("COMMIT").execute(&mut *wire).await?;
                std::mem::take(&mut self.locked)
            }
            Mode::Lease => {
                let give = sqlx::query(AssertSqlSafe(self.sql.give.as_str())).bind(name).bind(&self.owner);
                give.fetch_optional(&mut *wire).await?.is_some()
            }
            Mode::Advisory => {
                sqlx::query_scalar("SELECT pg_advisory_unlock($1)").bind(key(name)).fetch_one(&mut *wire).await?
            }
        };
        if held { Ok(()) } else { Err(Trouble::new(format!("{name} was lost while it was held"))) }
    }

    async fn close(self: Box<Self>) {
        // Shared ones are closed by the last; one that cannot say goodbye is just dropped.
        if let Some(wire) = Arc::into_inner(self.wire) {
            let _ = wire.into_inner().close().await;
        }
    }
}
