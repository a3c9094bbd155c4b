//! Row mode: a row for each name, locked by an open transaction on a session of its own.

use std::sync::Arc;
use std::time::Duration;

use lockyard_api::{
    Attempt, Capabilities, Claim, Error, ErrorKind, Fencing, Holder, LivenessKind, LockName, Release, Renewal, Result,
    Wake, Waking,
};
use sqlx::Row as _;
use sqlx::postgres::PgRow;

use crate::advisory::origin;
use crate::classes::{RANGE, class_of};
use crate::config::PostgresConfig;
use crate::control::{Control, ServerFacts, column};
use crate::keeper::Heartbeat;
use crate::key::Target;
use crate::locking::Locking;
use crate::opener::Opener;
use crate::own::Own;
use crate::schema::Schema;
use crate::sentence::quoted;
use crate::session::Line;

/// The client in row mode.
pub(crate) struct Rows {
    config: PostgresConfig,
    schema: Schema,
    control: Arc<Control>,
    own: Own,
}

impl Rows {
    pub(crate) async fn connect(
        config: PostgresConfig,
        control: Arc<Control>,
        facts: ServerFacts,
    ) -> Result<Arc<Self>> {
        RANGE.check(config.options.ttl)?;
        let opener = Arc::new(Opener::new(&config, Arc::clone(&control), facts, config.sessions));
        let own = Own::new(&config, opener, Arc::clone(&control), Heartbeat::Row);
        own.warm(class_of(config.options.ttl)).await?;
        let schema = Schema::from(&config);
        Ok(Arc::new(Self { config, schema, control, own }))
    }

    pub(crate) fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::new("postgres-row", RANGE);
        capabilities.wake = Waking::Pushed;
        capabilities.liveness = LivenessKind::Session;
        capabilities.fencing = Fencing::Durable;
        capabilities.expires_hung = true;
        capabilities.slack = Duration::from_secs(1);
        capabilities.fixed_lease = true;
        capabilities.inspect = true;
        capabilities
    }

    fn locking(&self, name: &LockName) -> Locking {
        let namespace = self.config.options.namespace.as_str();
        Locking::Row(Arc::new(RowSql::new(&self.schema, namespace, name)))
    }

    pub(crate) async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        if let Some(claimed) = self.own.find(claim.owner)
            && let Some(answer) = Box::pin(self.own.repeat(&claimed)).await?
        {
            return Ok(answer);
        }
        self.own.start(claim, self.locking(&claim.name), true).await
    }

    pub(crate) async fn wait(&self, claim: &Claim) -> Result<Wake> {
        self.own.wait(claim.owner).await
    }

    pub(crate) async fn renew(&self, claim: &Claim) -> Result<Renewal> {
        match self.own.find(claim.owner) {
            Some(claimed) => self.own.renew(&claimed).await,
            None => Ok(Renewal::Lost),
        }
    }

    pub(crate) async fn release(&self, claim: &Claim) -> Result<Release> {
        match self.own.find(claim.owner) {
            Some(claimed) => self.own.release(&claimed).await,
            None => Ok(Release::NotHeld),
        }
    }

    pub(crate) async fn inspect(self: &Arc<Self>, name: &LockName) -> Result<Option<Holder>> {
        let (client, name) = (Arc::clone(self), name.clone());
        // On a task: the side connection must not wait for a caller who keeps this future without polling it.
        let looked = self.own.runtime().spawn(async move { client.look(&name).await }).await;
        looked.map_err(|failed| Error::new(ErrorKind::Shutdown, "the runtime is shutting down").with_source(failed))?
    }

    async fn look(&self, name: &LockName) -> Result<Option<Holder>> {
        let namespace = self.config.options.namespace.as_str().to_owned();
        let query = sqlx::query(sqlx::AssertSqlSafe(self.schema.fill(INSPECT)));
        let row = self.control.row(query.bind(namespace).bind(name.as_str().to_owned()), "inspecting").await?;
        row.map(|row| self.describe(&row)).transpose()
    }

    fn describe(&self, row: &PgRow) -> Result<Holder> {
        let pid: i32 = column(row, 0)?;
        let mut holder = Holder::new();
        holder.origin = Some(origin(pid, column(row, 1)?, column(row, 2)?));
        holder.waiters = u64::try_from(column::<i64>(row, 3)?).ok();
        if let Some((owner, held)) = self.own.held_by(Target::Row, pid) {
            held.describe(owner, self.config.options.clock.now(), &mut holder);
        }
        Ok(holder)
    }
}

/// The transaction that has locked the row stands in its header; it is looked up among those that run. Locks nothing.
pub(crate) const INSPECT: &str = "SELECT h.pid, a.application_name, a.client_addr::text, \
    (SELECT count(*) FROM pg_locks w WHERE NOT w.granted AND ((w.locktype = 'transactionid' AND w.transactionid = r.xmax) \
     OR (w.locktype = 'tuple' AND w.relation = r.tableoid AND w.database = h_database.oid \
         AND w.page = (r.ctid::text::point)[0]::int AND w.tuple = (r.ctid::text::point)[1]::int))) \
    FROM {schema}.row r \
    JOIN pg_database h_database ON h_database.datname = current_database() \
    JOIN pg_locks h ON h.locktype = 'transactionid' AND h.transactionid = r.xmax AND h.granted AND h.mode = 'ExclusiveLock' \
    LEFT JOIN pg_stat_activity a ON a.pid = h.pid \
    WHERE r.namespace = $1 AND r.name = $2";

/// The statements for one row. The simple protocol takes several in one flight, and no parameters.
#[derive(Debug)]
pub(crate) struct RowSql {
    try_it: Arc<str>,
    wait_for: Arc<str>,
    wait_again: Arc<str>,
    give_up: Arc<str>,
    insert: Arc<str>,
}

impl RowSql {
    fn new(schema: &Schema, namespace: &str, name: &LockName) -> Self {
        let (namespace, text) = (quoted(namespace), quoted(name.as_str()));
        // The number is drawn after the row is locked: the sub-select returns only then.
        let lock = |how: &str| -> Arc<str> {
            let row = "SELECT 1 FROM {schema}.row WHERE namespace = ";
            let sql = schema.fill(&format!("BEGIN; SELECT nextval({{draw}}) FROM ({row}"));
            format!("{sql}{namespace} AND name = {text} {how}) locked").into()
        };
        let look = schema.fill("SELECT 1 FROM {schema}.row WHERE namespace = ");
        let insert = schema.fill("INSERT INTO {schema}.row (namespace, name) VALUES (");
        let wait_for = lock("FOR UPDATE");
        Self {
            try_it: lock("FOR UPDATE SKIP LOCKED"),
            wait_again: format!("ROLLBACK; {wait_for}").into(),
            wait_for,
            give_up: format!("ROLLBACK; {look}{namespace} AND name = {text}").into(),
            insert: format!("{insert}{namespace}, {text}) ON CONFLICT DO NOTHING").into(),
        }
    }

    pub(crate) async fn attempt(&self, line: &mut Line) -> Result<Option<i64>, sqlx::Error> {
        if let Some(row) = line.raw(Arc::clone(&self.try_it)).await? {
            return row.try_get(0).map(Some);
        }
        // Busy or absent: looked at in the same flight.
        if line.raw(Arc::clone(&self.give_up)).await?.is_some() {
            return Ok(None);
        }
        // It is committed before anybody locks it.
        line.raw(Arc::clone(&self.insert)).await?;
        match line.raw(Arc::clone(&self.try_it)).await? {
            Some(row) => row.try_get(0).map(Some),
            None => line.raw("ROLLBACK".into()).await.map(|_| None),
        }
    }

    /// How a wait begins.
    pub(crate) fn first(&self) -> Arc<str> {
        Arc::clone(&self.wait_for)
    }

    /// How it goes on in a transaction that has failed.
    pub(crate) fn again(&self) -> Arc<str> {
        Arc::clone(&self.wait_again)
    }

    pub(crate) async fn wait(&self, line: &mut Line, first: Arc<str>) -> Result<i64, sqlx::Error> {
        let mut sql = first;
        loop {
            if let Some(row) = line.raw(sql).await? {
                return row.try_get(0);
            }
            // Deleted while it was waited for: no row is never a grant.
            line.raw("ROLLBACK".into()).await?;
            line.raw(Arc::clone(&self.insert)).await?;
            sql = self.first();
        }
    }

    pub(crate) async fn give_back(&self, line: &mut Line) -> Result<bool, sqlx::Error> {
        line.raw("COMMIT".into()).await.map(|_| true)
    }
}
