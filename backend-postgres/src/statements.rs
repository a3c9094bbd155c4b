//! The SQL of this backend, and what a benchmark needs to measure it against.

/// What nobody can be faster than: the raw statements, sent by the same driver on one session.
#[doc(hidden)]
pub mod floor {
    /// Takes advisory lock `$1` if it is free.
    pub const TRY: &str = "SELECT pg_try_advisory_lock($1)";
    /// Takes advisory lock `$1`, waiting for it.
    pub const WAIT: &str = "SELECT pg_advisory_lock($1)";
    /// Gives advisory lock `$1` back.
    pub const UNLOCK: &str = "SELECT pg_advisory_unlock($1)";
    /// Creates the table of the row and lease floors.
    pub const CREATE_TABLE: &str = "CREATE TABLE IF NOT EXISTS lockyard_floor \
        (name text PRIMARY KEY, owner text, token bigint, expires_at timestamptz)";
    /// Creates the sequence of the lease floor.
    pub const CREATE_SEQUENCE: &str = "CREATE SEQUENCE IF NOT EXISTS lockyard_floor_token";
    /// Makes sure that the row `$1` is there.
    pub const INSERT_ROW: &str = "INSERT INTO lockyard_floor (name) VALUES ($1) ON CONFLICT DO NOTHING";
    /// Begins the transaction of a row lock.
    pub const BEGIN: &str = "BEGIN";
    /// Locks the row `$1` inside the transaction.
    pub const LOCK_ROW: &str = "SELECT 1 FROM lockyard_floor WHERE name = $1 FOR UPDATE";
    /// Ends the transaction, and with it the lock.
    pub const COMMIT: &str = "COMMIT";
    /// Takes the lease `$1` for owner `$2` for `$3` milliseconds.
    pub const TAKE_LEASE: &str = "INSERT INTO lockyard_floor AS l (name, owner, token, expires_at) \
        VALUES ($1, $2, 1, clock_timestamp() + $3 * interval '1 millisecond') \
        ON CONFLICT (name) DO UPDATE SET owner = $2, token = nextval('lockyard_floor_token'), \
        expires_at = clock_timestamp() + $3 * interval '1 millisecond' \
        WHERE l.expires_at <= clock_timestamp() RETURNING token";
    /// Gives the lease `$1` of owner `$2` back.
    pub const RELEASE_LEASE: &str = "UPDATE lockyard_floor SET expires_at = '-infinity' WHERE name = $1 AND owner = $2";
    /// The same, and tells the channel `lockyard_floor`.
    pub const RELEASE_LEASE_AND_NOTIFY: &str = "UPDATE lockyard_floor SET expires_at = '-infinity' \
        WHERE name = $1 AND owner = $2 RETURNING pg_notify('lockyard_floor', $1)";
}

use std::sync::Arc;

use sqlx::AssertSqlSafe;

use crate::key::Key;
use crate::schema::Schema;
use crate::wire::Statement;

/// The statements of advisory mode.
#[derive(Debug)]
pub(crate) struct Advisory {
    try_one: Arc<str>,
    try_two: Arc<str>,
    wait_one: Arc<str>,
    wait_two: Arc<str>,
    draw: String,
}

const UNLOCK_ONE: &str = "SELECT pg_advisory_unlock($1)";
const UNLOCK_TWO: &str = "SELECT pg_advisory_unlock($1, $2)";
const LIST: &str = "SELECT pg_backend_pid(), \
    coalesce(array_agg((classid::int8 << 32) | objid::int8) FILTER (WHERE objsubid = 1), '{}'), \
    coalesce(array_agg((classid::int8 << 32) | objid::int8) FILTER (WHERE objsubid = 2), '{}') \
    FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory' AND granted";
/// Whether the server has process `$1` waiting for a lock.
pub(crate) const IS_WAITING: &str = "SELECT EXISTS (SELECT FROM pg_locks WHERE pid = $1 AND NOT granted)";
const INSPECT: &str = "SELECT l.granted, l.pid, a.application_name, a.client_addr::text, a.client_port \
    FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid \
    WHERE l.locktype = 'advisory' AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()) \
    AND (l.classid::int8 << 32) | l.objid::int8 = $1 AND l.objsubid = $2";

impl Advisory {
    pub(crate) fn new(schema: &Schema) -> Self {
        // CASE evaluates the branch only when the condition holds: a busy try and a waiter draw no token.
        let fill = |template| Arc::from(schema.fill(template));
        Self {
            try_one: fill("SELECT CASE WHEN pg_try_advisory_lock($1) THEN nextval({draw}) END"),
            try_two: fill("SELECT CASE WHEN pg_try_advisory_lock($1, $2) THEN nextval({draw}) END"),
            wait_one: fill("SELECT CASE WHEN pg_advisory_lock($1) IS NOT NULL THEN nextval({draw}) END"),
            wait_two: fill("SELECT CASE WHEN pg_advisory_lock($1, $2) IS NOT NULL THEN nextval({draw}) END"),
            draw: schema.fill("nextval({draw})"),
        }
    }

    /// What a session that tries prepares ahead.
    pub(crate) fn for_tries(&self) -> [&str; 2] {
        [&self.try_one, UNLOCK_ONE]
    }

    /// What a session that waits prepares ahead: for this key, so that the wait itself is written in one go.
    pub(crate) fn for_waits(&self, key: Key) -> [&str; 1] {
        match key {
            Key::One(_) => [&self.wait_one],
            Key::Two(..) => [&self.wait_two],
        }
    }

    /// The token when the lock was free, else null.
    pub(crate) fn try_lock(&self, key: Key) -> Statement {
        keyed(&self.try_one, &self.try_two, key)
    }

    /// Waits for the lock and then draws the token.
    pub(crate) fn wait_for(&self, key: Key) -> Statement {
        keyed(&self.wait_one, &self.wait_two, key)
    }

    /// Gives back what a wait that failed may have taken, and waits anew: a statement of the simple protocol, so that a session
    /// needs to prepare nothing for it.
    pub(crate) fn wait_again(&self, key: Key) -> Arc<str> {
        let (Self { draw, .. }, key) = (self, key.arguments());
        format!(
            "SELECT CASE WHEN pg_advisory_unlock({key}) IS NOT NULL \
             THEN CASE WHEN pg_advisory_lock({key}) IS NOT NULL THEN {draw} END END"
        )
        .into()
    }

    /// Whether the session held the lock.
    pub(crate) fn unlock(&self, key: Key) -> Statement {
        match key {
            Key::One(key) => sqlx::query(UNLOCK_ONE).bind(key),
            Key::Two(first, second) => sqlx::query(UNLOCK_TWO).bind(first).bind(second),
        }
    }

    /// The process, and the advisory locks that it holds.
    pub(crate) fn list(&self) -> Statement {
        sqlx::query(LIST)
    }

    /// Who holds and who waits.
    pub(crate) fn inspect(&self, key: Key) -> Statement {
        let (packed, objsubid) = key.to_lock_table();
        sqlx::query(INSPECT).bind(packed).bind(objsubid)
    }
}

fn keyed(one: &Arc<str>, two: &Arc<str>, key: Key) -> Statement {
    match key {
        Key::One(key) => sqlx::query(AssertSqlSafe(Arc::clone(one))).bind(key),
        Key::Two(first, second) => sqlx::query(AssertSqlSafe(Arc::clone(two))).bind(first).bind(second),
    }
}
