//! Postgres as a backend under test: a server of the testbed, or one that is joined by its URL.

use std::sync::Arc;
use std::time::Duration;

use lockyard_api::{Claim, Error, ErrorKind, LockName, Namespace, Owner, Result, async_trait};
use lockyard_conformance::{Client, Fault, Harness, NoHarness, RegisterClient};
use lockyard_faults::{ProxyLink, break_server, no_harness};
use lockyard_testbed::{Options, Proxy, Server, Service};
use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, ConnectOptions, PgConnection, Row};

use crate::config::{Mode, PostgresConfig};
use crate::key::Key;
use crate::schema::Schema;
use crate::{PostgresLock, PostgresRegister, error};

/// A Postgres server, a mode, and the faults that can be made.
#[derive(Debug)]
pub struct PostgresHarness {
    config: PostgresConfig,
    /// `None` when the server is somebody else's.
    server: Option<Server>,
}

impl PostgresHarness {
    /// How long a call waits for a server that is silent.
    const OP_TIMEOUT: Duration = Duration::from_secs(2);

    /// A server of this machine with every fault, or the one of `LOCKYARD_POSTGRES_URL`, joined as by
    /// [`PostgresHarness::join`].
    ///
    /// # Errors
    /// `Skip` when there is no Postgres to start, `Failed` when it does not work.
    ///
    /// # Cancel safety
    /// Dropped, it ends what it has started.
    pub async fn start(mode: Mode) -> std::result::Result<Self, NoHarness> {
        Self::start_with(mode, Options::new()).await
    }

    /// As [`PostgresHarness::start`], with options of the server; where they need an own server none is joined.
    ///
    /// # Errors
    /// As [`PostgresHarness::start`].
    ///
    /// # Cancel safety
    /// As [`PostgresHarness::start`].
    pub async fn start_with(mode: Mode, options: Options) -> std::result::Result<Self, NoHarness> {
        match Server::start_with(Service::Postgres, options).await {
            Ok(server) if server.is_joined() => Self::join(&server.lock_url(), mode).await.map_err(NoHarness::from),
            Ok(server) => {
                let mut config = PostgresConfig::from_url(&server.lock_url())?.mode(mode);
                config.options_mut().op_timeout = Self::OP_TIMEOUT;
                Ok(Self { config, server: Some(server) })
            }
            Err(error) => Err(no_harness(error)),
        }
    }

    /// The server of this URL, which belongs to somebody else: everything stays in a namespace of its own, which
    /// [`PostgresHarness::clean_up`] empties, and no fault is made.
    ///
    /// # Errors
    /// As [`PostgresLock::connect`].
    ///
    /// # Cancel safety
    /// Dropped, it leaves nothing but the schema.
    pub async fn join(url: &str, mode: Mode) -> Result<Self> {
        let mut config = PostgresConfig::from_url(url)?.mode(mode);
        config.options_mut().namespace = Namespace::new(format!("lockyard-test-{}", Owner::random()))?;
        drop(PostgresLock::connect(config.clone()).await?);
        Ok(Self { config, server: None })
    }

    /// How a client of this harness connects.
    #[must_use]
    pub fn config(&self) -> PostgresConfig {
        self.config.clone()
    }

    /// The namespace of its clients.
    #[must_use]
    pub const fn namespace(&self) -> &Namespace {
        &self.config.options.namespace
    }

    /// The server, when it is the harness's own.
    #[must_use]
    pub const fn server(&self) -> Option<&Server> {
        self.server.as_ref()
    }

    /// A client of its own name, and that name as the server shows it.
    ///
    /// # Errors
    /// As [`PostgresLock::connect`].
    ///
    /// # Cancel safety
    /// As [`PostgresLock::connect`].
    pub async fn client(&self, config: PostgresConfig) -> Result<(PostgresLock, String)> {
        let config = config.renamed();
        let name = config.application_name().to_owned();
        Ok((PostgresLock::open(config).await?, name))
    }

    /// A client of this configuration, its name, and the proxy that it goes through.
    ///
    /// # Errors
    /// `Unsupported` on a server of somebody else; otherwise as [`PostgresLock::connect`].
    ///
    /// # Cancel safety
    /// Dropped, it leaves nothing.
    pub async fn client_through_proxy(&self, config: PostgresConfig) -> Result<(PostgresLock, String, Arc<Proxy>)> {
        let (config, proxy) = self.proxied(config).await?;
        let (lock, name) = self.client(config).await?;
        Ok((lock, name, proxy))
    }

    /// A new proxy before the server, and this configuration through it.
    async fn proxied(&self, mut config: PostgresConfig) -> Result<(PostgresConfig, Arc<Proxy>)> {
        let Some(server) = &self.server else {
            return Err(Error::unsupported("a server of somebody else is reached directly"));
        };
        let proxy = Proxy::start(server.addr())
            .await
            .map_err(|e| Error::new(ErrorKind::Capacity, "no port for a proxy").with_source(e).not_applied())?;
        config.server = config.server.host(&proxy.addr().ip().to_string()).port(proxy.addr().port());
        Ok((config, Arc::new(proxy)))
    }

    /// How a client in another namespace connects.
    fn config_in(&self, namespace: &str) -> Result<PostgresConfig> {
        // On a server of somebody else everything stays below the harness's namespace, which is a prefix of this one.
        let namespace = match self.server {
            Some(_) => namespace.to_owned(),
            None => format!("{}-{namespace}", self.config.options.namespace),
        };
        let mut config = self.config();
        config.options_mut().namespace = Namespace::new(namespace)?;
        Ok(config)
    }

    /// A connection beside those of the clients.
    ///
    /// # Errors
    /// When the server cannot be reached.
    ///
    /// # Cancel safety
    /// Dropped, it leaves nothing.
    pub async fn side(&self) -> Result<PgConnection> {
        let server = self.config.server.clone().application_name("lockyard harness");
        server.connect().await.map_err(|failed| error::driver(failed, "connecting the harness"))
    }

    /// Removes what the harness's namespaces left in the tables.
    ///
    /// # Errors
    /// When the server cannot be reached or refuses.
    ///
    /// # Cancel safety
    /// Dropped, some rows may be left.
    pub async fn clean_up(&self) -> Result<()> {
        for table in ["lease", "waiter", "row", "register"] {
            let sql = format!("DELETE FROM {{schema}}.{table} WHERE starts_with(namespace, $1)");
            let sql = Schema::from(&self.config).fill(&sql);
            let delete = sqlx::query(AssertSqlSafe(sql)).bind(self.config.options.namespace.as_str());
            match delete.execute(&mut self.side().await?).await {
                Ok(_) => {}
                Err(failed) if error::code(&failed) == Some(error::code::NO_SUCH_TABLE) => {}
                Err(failed) => return Err(error::driver(failed, "cleaning up")),
            }
        }
        Ok(())
    }

    /// Ends all sessions of the clients in this process, as an administrator would.
    ///
    /// # Cancel safety
    /// Dropped, they may have been ended.
    pub async fn end_sessions_of(&self, pid: u32) {
        let end =
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE starts_with(application_name, $1)";
        // A server that does not answer has no sessions to end, or will say so to the clients.
        let _answer = self.ask(sqlx::query(end).bind(format!("lockyard {pid} "))).await;
    }

    /// The first row that a statement on a connection of its own answers; `None` when that fails.
    async fn ask(&self, statement: crate::wire::Statement) -> Option<PgRow> {
        statement.fetch_optional(&mut self.side().await.ok()?).await.ok()?
    }

    fn sql(&self, template: &str) -> AssertSqlSafe<String> {
        AssertSqlSafe(Schema::from(&self.config).fill(template))
    }

    async fn advisory_entries(&self, name: &LockName) -> Option<usize> {
        let (packed, objsubid) = Key::of(&self.config.options.namespace, name).to_lock_table();
        let sql = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' \
            AND (classid::int8 << 32) | objid::int8 = $1 AND objsubid = $2";
        let row = self.ask(sqlx::query(sql).bind(packed).bind(objsubid)).await?;
        usize::try_from(row.try_get::<i64, _>(0).ok()?).ok()
    }

    async fn row_entries(&self, name: &LockName) -> Option<usize> {
        let namespace = self.config.options.namespace.as_str().to_owned();
        let mut side = self.side().await.ok()?;
        let look = sqlx::query(self.sql(crate::row::INSPECT)).bind(namespace).bind(name.as_str().to_owned());
        match look.fetch_optional(&mut side).await.ok()? {
            Some(row) => usize::try_from(row.try_get::<i64, _>(3).ok()? + 1).ok(),
            None => Some(0),
        }
    }

    async fn lease_entries(&self, name: &LockName) -> Option<usize> {
        let sql = self.sql(
            "SELECT (SELECT count(*) FROM {schema}.lease WHERE namespace = $1 AND name = $2 \
             AND expires_at > clock_timestamp()) + (SELECT count(*) FROM {schema}.waiter WHERE namespace = $1 \
             AND name = $2 AND expires_at > clock_timestamp())",
        );
        let namespace = self.config.options.namespace.as_str().to_owned();
        let row = self.ask(sqlx::query(sql).bind(namespace).bind(name.as_str().to_owned())).await?;
        usize::try_from(row.try_get::<i64, _>(0).ok()?).ok()
    }
}

#[async_trait]
impl Harness for PostgresHarness {
    async fn connect(&self) -> Result<Client> {
        if self.server.is_none() {
            let (lock, name) = self.client(self.config()).await?;
            return Ok(Client::new(lock).with_own(name));
        }
        let (lock, name, proxy) = self.client_through_proxy(self.config()).await?;
        Ok(Client::new(lock).with_own(name).with_link(Arc::new(ProxyLink::new(proxy).with_pushes_after(b"LISTEN "))))
    }

    async fn connect_in(&self, namespace: &str) -> Result<Option<Client>> {
        let (lock, name) = self.client(self.config_in(namespace)?).await?;
        Ok(Some(Client::new(lock).with_own(name)))
    }

    async fn register(&self) -> Result<Option<RegisterClient>> {
        if self.server.is_none() {
            return Ok(Some(RegisterClient::new(PostgresRegister::connect(self.config()).await?)));
        }
        let (config, proxy) = self.proxied(self.config()).await?;
        let register = PostgresRegister::connect(config).await?;
        Ok(Some(RegisterClient::new(register).with_link(Arc::new(ProxyLink::new(proxy)))))
    }

    async fn register_in(&self, namespace: &str) -> Result<Option<RegisterClient>> {
        Ok(Some(RegisterClient::new(PostgresRegister::connect(self.config_in(namespace)?).await?)))
    }

    fn op_timeout(&self) -> Duration {
        self.config.options.op_timeout
    }

    async fn revoke(&self, claim: &Claim) -> Fault {
        if self.config.mode != Mode::Lease {
            return Fault::not_offered("nobody but its own session can give a lock of a session back");
        }
        let sql = self.sql("DELETE FROM {schema}.lease WHERE namespace = $1 AND name = $2 AND owner = $3 RETURNING 1");
        let namespace = self.config.options.namespace.as_str().to_owned();
        let delete = sqlx::query(sql).bind(namespace).bind(claim.name.as_str().to_owned());
        match self.ask(delete.bind(claim.owner.to_string())).await {
            Some(_) => Fault::Done,
            None => Fault::not_offered("there is no such row"),
        }
    }

    async fn end_session(&self, client: &Client) -> Fault {
        let Some(name) = client.own::<String>() else { return Fault::not_offered("the client's name is not known") };
        let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = $1";
        match self.ask(sqlx::query(end).bind(name.clone())).await {
            Some(_) => Fault::Done,
            None => Fault::not_offered("the server did not answer"),
        }
    }

    fn tells_the_end_of_sessions(&self) -> bool {
        true
    }

    async fn entries(&self, name: &LockName) -> Option<usize> {
        match self.config.mode {
            Mode::Advisory => self.advisory_entries(name).await,
            Mode::Lease => self.lease_entries(name).await,
            Mode::Row => self.row_entries(name).await,
        }
    }

    async fn work_while_waited_for(&self) -> Fault {
        let Ok(mut side) = self.side().await else { return Fault::not_offered("the server did not answer") };
        let table = format!("lockyard_work_{:016x}", fastrand::u64(..));
        for sql in ["CREATE TABLE {t} (n int)", "CREATE INDEX CONCURRENTLY ON {t} (n)", "DROP TABLE {t}"] {
            let statement = sqlx::raw_sql(AssertSqlSafe(sql.replace("{t}", &table)));
            if let Err(error) = statement.execute(&mut side).await {
                return Fault::not_offered(format!("the server refused: {error}"));
            }
        }
        Fault::Done
    }

    async fn last_token(&self, _name: &LockName) -> Option<u64> {
        let sql = self.sql("SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM {schema}.draw");
        let row = self.ask(sqlx::query(sql)).await?;
        u64::try_from(row.try_get::<i64, _>(0).ok()?).ok()
    }

    async fn freeze_server(&self) -> Fault {
        break_server(self.server.as_ref(), Server::freeze).await
    }

    async fn thaw_server(&self) -> Fault {
        break_server(self.server.as_ref(), Server::thaw).await
    }

    async fn kill_server(&self) -> Fault {
        break_server(self.server.as_ref(), Server::kill).await
    }

    async fn restart_server(&self) -> Fault {
        break_server(self.server.as_ref(), Server::restart).await
    }
}
