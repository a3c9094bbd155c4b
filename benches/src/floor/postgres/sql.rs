//! What is said to Postgres.

/// The statements, on a table of this run.
pub(super) struct Sql {
    pub(super) create: String,
    pub(super) insert: String,
    pub(super) try_advisory: String,
    pub(super) try_row: String,
    pub(super) plain_row: String,
    pub(super) wait_row: String,
    pub(super) take: String,
    pub(super) give: String,
    pub(super) channel: String,
    pub(super) drop: String,
}

impl Sql {
    pub(super) fn new(namespace: &str, mode: &str) -> Self {
        // With the words around it within the 63 bytes that the server keeps of a name.
        let table: String = namespace.chars().filter(char::is_ascii_alphanumeric).take(30).collect();
        let table = format!("lockyard_floor_{mode}_{}", table.to_ascii_lowercase());
        let row = format!("SELECT 1 FROM {table} WHERE name = ");
        Self {
            create: format!(
                "CREATE TABLE IF NOT EXISTS {table} (name text PRIMARY KEY, owner text, token bigint, expires timestamptz); \
                 CREATE SEQUENCE IF NOT EXISTS {table}_token"
            ),
            insert: format!("INSERT INTO {table} (name) VALUES ($1) ON CONFLICT DO NOTHING"),
            try_advisory: format!("SELECT CASE WHEN pg_try_advisory_lock($1) THEN nextval('{table}_token') END"),
            try_row: format!("BEGIN; SELECT nextval('{table}_token') FROM ({row}'NAME' FOR UPDATE SKIP LOCKED) locked"),
            plain_row: format!("BEGIN; {row}'NAME' FOR UPDATE SKIP LOCKED"),
            wait_row: format!("BEGIN; {row}'NAME' FOR UPDATE"),
            take: format!(
                "INSERT INTO {table} AS l (name, owner, token, expires) \
                 VALUES ($1, $2, nextval('{table}_token'), clock_timestamp() + interval '30 s') \
                 ON CONFLICT (name) DO UPDATE SET owner = $2, token = nextval('{table}_token'), \
                 expires = clock_timestamp() + interval '30 s' WHERE l.expires <= clock_timestamp() RETURNING token"
            ),
            give: format!(
                "UPDATE {table} SET expires = '-infinity' WHERE name = $1 AND owner = $2 RETURNING pg_notify('{table}', $1)"
            ),
            channel: table.clone(),
            drop: format!("DROP TABLE IF EXISTS {table}; DROP SEQUENCE IF EXISTS {table}_token"),
        }
    }
}
