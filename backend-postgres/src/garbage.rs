//! Removal of the rows of unused names.
//!
//! Tokens of all names come from one sequence, which stays: they rise whatever rows go.

use std::sync::Arc;

use lockyard_api::{Collected, Error, GarbageCollect, Operation, Result, Unused, async_trait};
use sqlx::AssertSqlSafe;

use crate::PostgresLock;
use crate::config::{Mode, PostgresConfig};
use crate::control::{Control, column};
use crate::schema::Schema;

/// How many rows go in one statement: so long may an acquire of one of them wait.
const STEP: i64 = 500;

/// Rows of lease mode: of namespace $1, with names that begin with $2, unused for $3 ms. The time is that at which the statement came:
/// a row that was free by then and has not been written since has no waiter but those that the statement sees.
const LEASE_IS_FREE: &str = "l.namespace = $1 AND starts_with(l.name, $2) AND l.expires_at <= statement_timestamp() \
    AND NOT EXISTS (SELECT FROM {schema}.waiter w WHERE w.namespace = l.namespace AND w.name = l.name \
        AND w.expires_at > statement_timestamp())";
const LEASE_IS_OLD: &str = "l.since <= statement_timestamp() - $3 * interval '1 millisecond' \
    AND l.expires_at <= statement_timestamp() - $3 * interval '1 millisecond'";
/// Who waits by an entry that has run out has gone.
const REMOVE_LEASES: &str = "WITH doomed AS (SELECT l.namespace, l.name FROM {schema}.lease l WHERE {free} AND {old} \
        LIMIT $4 FOR UPDATE SKIP LOCKED), \
    entries AS (DELETE FROM {schema}.waiter w USING doomed d WHERE w.namespace = d.namespace AND w.name = d.name), \
    gone AS (DELETE FROM {schema}.lease l USING doomed d WHERE l.namespace = d.namespace AND l.name = d.name \
        RETURNING l.name) \
    SELECT coalesce(array_agg(name), '{}') FROM gone";
const LOOK_AT_LEASES: &str =
    "SELECT coalesce(array_agg(l.name), '{}') FROM {schema}.lease l WHERE {free} AND {old} AND $4 > 0";
const COUNT_LEASES: &str = "SELECT count(*) FILTER (WHERE NOT ({free})), count(*) FILTER (WHERE {free} AND NOT ({old})), 0::int8 \
    FROM {schema}.lease l WHERE l.namespace = $1 AND starts_with(l.name, $2)";

/// A row of row mode is locked as long as it is in use, and bears no time.
const REMOVE_ROWS: &str = "WITH doomed AS (SELECT r.namespace, r.name FROM {schema}.row r \
        WHERE r.namespace = $1 AND starts_with(r.name, $2) AND $3 = 0 LIMIT $4 FOR UPDATE SKIP LOCKED), \
    gone AS (DELETE FROM {schema}.row r USING doomed d WHERE r.namespace = d.namespace AND r.name = d.name \
        RETURNING r.name) \
    SELECT coalesce(array_agg(name), '{}') FROM gone";
const ROW_IS_LOCKED: &str =
    "EXISTS (SELECT FROM pg_locks h WHERE h.locktype = 'transactionid' AND h.transactionid = r.xmax AND h.granted)";
const LOOK_AT_ROWS: &str = "SELECT coalesce(array_agg(r.name), '{}') FROM {schema}.row r \
    WHERE r.namespace = $1 AND starts_with(r.name, $2) AND $3 = 0 AND $4 > 0 AND NOT {locked}";
const COUNT_ROWS: &str = "SELECT count(*) FILTER (WHERE {locked}), 0::int8, count(*) FILTER (WHERE NOT {locked} AND $3 > 0) \
    FROM {schema}.row r WHERE r.namespace = $1 AND starts_with(r.name, $2)";

/// What collects for a client, over its side connection.
pub(crate) struct Collector {
    control: Arc<Control>,
    namespace: String,
    statements: Option<Statements>,
}

struct Statements {
    remove: String,
    look: String,
    count: String,
}

impl Collector {
    pub(crate) fn new(config: &PostgresConfig, control: Arc<Control>) -> Self {
        let schema = Schema::from(config);
        let fill = |template: &str| {
            let parts = template.replace("{free}", LEASE_IS_FREE).replace("{old}", LEASE_IS_OLD);
            schema.fill(&parts.replace("{locked}", ROW_IS_LOCKED))
        };
        let of = |remove, look, count| Some(Statements { remove: fill(remove), look: fill(look), count: fill(count) });
        let statements = match config.mode {
            // A lock in the server's memory leaves nothing.
            Mode::Advisory => None,
            Mode::Row => of(REMOVE_ROWS, LOOK_AT_ROWS, COUNT_ROWS),
            Mode::Lease => of(REMOVE_LEASES, LOOK_AT_LEASES, COUNT_LEASES),
        };
        Self { control, namespace: config.options.namespace.as_str().to_owned(), statements }
    }

    async fn collect(&self, unused: &Unused) -> Result<Collected> {
        let mut collected = Collected::new();
        let Some(statements) = &self.statements else { return Ok(collected) };
        let time = i64::try_from(unused.time.as_millis()).unwrap_or(i64::MAX).min(LONGEST);
        loop {
            let sql = if unused.dry_run { &statements.look } else { &statements.remove };
            let query = sqlx::query(AssertSqlSafe(sql.clone()));
            let query = query.bind(self.namespace.clone()).bind(unused.prefix.clone()).bind(time).bind(STEP);
            let row = self.control.row(query, "removing unused names").await?;
            let names: Vec<String> = row.map(|row| column(&row, 0)).transpose()?.unwrap_or_default();
            let is_last = unused.dry_run || names.len() < usize::try_from(STEP).unwrap_or(usize::MAX);
            collected.removed.extend(names);
            if is_last {
                break;
            }
        }
        let query = sqlx::query(AssertSqlSafe(statements.count.clone()));
        let query = query.bind(self.namespace.clone()).bind(unused.prefix.clone()).bind(time);
        if let Some(row) = self.control.row(query, "counting names").await? {
            let number = |at| column::<i64>(&row, at).map(i64::unsigned_abs);
            (collected.in_use, collected.recent, collected.undated) = (number(0)?, number(1)?, number(2)?);
        }
        Ok(collected)
    }
}

/// A thousand years in ms: what the server's calendar takes.
const LONGEST: i64 = 1000 * 365 * 24 * 3600 * 1000;

/// In lease mode a name was last used when its lease began or ran out, and its row goes with what is left of its queue. In row mode the
/// database keeps no time of use: rows go when the time asked for is zero, and a try that meets a row on its way out answers busy. In
/// advisory mode nothing is kept.
#[async_trait]
impl GarbageCollect for PostgresLock {
    async fn collect(&self, unused: &Unused) -> Result<Collected> {
        let (collector, unused) = (Arc::clone(self.collector()), unused.clone());
        // On a task: the side connection must not wait for a caller who keeps this future without polling it.
        let collected = self.runtime().spawn(async move { collector.collect(&unused).await }).await;
        let collected = collected.unwrap_or_else(|failed| {
            Err(Error::new(lockyard_api::ErrorKind::Shutdown, "the runtime is shutting down").with_source(failed))
        });
        collected.map_err(|error| error.with_operation(Operation::Collect))
    }
}
