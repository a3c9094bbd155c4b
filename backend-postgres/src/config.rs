//! What a client is told before it connects.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use lockyard_api::{Error, LockUrl, Options, Result};
use sqlx::ConnectOptions;
use sqlx::postgres::{PgConnectOptions, PgSslMode};

/// How a name is locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Mode {
    /// A session-level advisory lock (<https://www.postgresql.org/docs/current/explicit-locking.html#ADVISORY-LOCKS>).
    #[default]
    Advisory,
    /// A row locked `FOR UPDATE` by an open transaction.
    Row,
    /// A row with an owner and an expiry.
    Lease,
}

impl Mode {
    /// The word that stands behind `lock=` in a URL.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Advisory => "advisory",
            Self::Row => "row",
            Self::Lease => "lease",
        }
    }
}

impl FromStr for Mode {
    type Err = Error;

    fn from_str(word: &str) -> Result<Self> {
        [Self::Advisory, Self::Row, Self::Lease]
            .into_iter()
            .find(|mode| mode.as_str() == word)
            .ok_or_else(|| Error::config(format!("lock={word}: write advisory, row or lease")))
    }
}

/// What a [`PostgresLock`](crate::PostgresLock) is opened with: where the server is, which mode, and the limits.
#[derive(Clone)]
pub struct PostgresConfig {
    pub(crate) server: PgConnectOptions,
    pub(crate) shown: String,
    pub(crate) options: Options,
    pub(crate) mode: Mode,
    pub(crate) schema: String,
    pub(crate) sessions: usize,
    pub(crate) max_sessions: usize,
    pub(crate) wait_slice: Duration,
}

const KEYS: &[&str] = &["lock", "schema", "scope", "token", "sessions", "max_sessions", "wait_slice", "sslmode"];

impl PostgresConfig {
    /// Reads `postgres://[user[:password]@]host[:port]/database?lock=advisory|row|lease&…`.
    ///
    /// The password may also come from `PGPASSWORD` or the file of `PGPASSFILE`
    /// (<https://www.postgresql.org/docs/current/libpq-pgpass.html>). Besides the options of all backends:
    ///
    /// | key | default | consequence |
    /// |---|---|---|
    /// | `lock` | `advisory` | the mode |
    /// | `schema` | `lockyard` | where the token sequence and the tables live; clients of different schemas do not share tokens |
    /// | `token` | `durable` | says what holds in every mode |
    /// | `sessions` | 4 | sessions for each ttl class; more let more names be locked at the same time |
    /// | `max_sessions` | 32 | beyond it an acquire fails with `Capacity` instead of exhausting the server's `max_connections` |
    /// | `wait_slice` | `15s` | how long a waiter stays in the server's queue before it queues again; `0s` keeps the order of arrival and makes a waiter block the holder's own `CREATE INDEX CONCURRENTLY` |
    /// | `sslmode` | `prefer` | `verify-full` when `tls_ca` is given |
    ///
    /// # Errors
    /// `Config`, naming the key; `Unsupported` for more than one host and for `scope=transaction`.
    pub fn from_url(url: &str) -> Result<Self> {
        let mut url = LockUrl::parse(url)?;
        if !matches!(url.scheme.as_str(), "postgres" | "postgresql") {
            return Err(Error::config(format!("{}: is no Postgres URL: write postgres://…", url.scheme)));
        }
        let options = url.options()?;
        let server = server(&mut url, &options)?;
        let mut config = Self::new(server, options);
        config.shown = url.redacted();
        config.take_keys(&mut url)?;
        url.finish(KEYS)?;
        config.check()?;
        Ok(config)
    }

    fn new(server: PgConnectOptions, options: Options) -> Self {
        Self {
            server,
            shown: String::new(),
            options,
            mode: Mode::Advisory,
            schema: "lockyard".to_owned(),
            sessions: 4,
            max_sessions: 32,
            wait_slice: Duration::from_secs(15),
        }
    }

    fn take_keys(&mut self, url: &mut LockUrl) -> Result<()> {
        if let Some(word) = url.take("lock") {
            self.mode = word.parse()?;
        }
        if let Some(schema) = url.take("schema") {
            self.schema = schema;
        }
        match url.take("scope").as_deref() {
            None | Some("session") => {}
            Some("transaction") => {
                return Err(Error::unsupported(
                    "scope=transaction is not built yet: use lock=row, whose locks live in a transaction, or lock=lease behind a pooler",
                ));
            }
            Some(other) => return Err(Error::config(format!("scope={other}: write session"))),
        }
        match url.take("token").as_deref() {
            None | Some("durable") => {}
            Some(other) => {
                return Err(Error::config(format!(
                    "token={other}: tokens are durable here: write that, or leave it out"
                )));
            }
        }
        self.sessions = url.take_number("sessions")?.unwrap_or(self.sessions);
        self.max_sessions = url.take_number("max_sessions")?.unwrap_or(self.max_sessions);
        self.wait_slice = url.take_duration("wait_slice")?.unwrap_or(self.wait_slice);
        Ok(())
    }

    fn check(&self) -> Result<()> {
        let unfit = |c: char| c.is_control() || c == '$';
        let problem = if self.schema.is_empty() || self.schema.len() > 63 || self.schema.contains(unfit) {
            format!("schema {:?}: write 1 to 63 bytes, without '$' and control characters", self.schema)
        } else if !(1..=64).contains(&self.sessions) {
            format!("sessions={}: write 1 to 64", self.sessions)
        } else if self.max_sessions < 2 {
            format!("max_sessions={}: write 2 or more, one to hold and one to wait", self.max_sessions)
        } else if !self.wait_slice.is_zero() && self.wait_slice < Duration::from_millis(100) {
            format!("wait_slice={:?}: write 0s or at least 100ms", self.wait_slice)
        } else {
            return Ok(());
        };
        Err(Error::config(problem))
    }

    /// The same with this mode.
    #[must_use]
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// The same with these options of all backends.
    #[must_use]
    pub fn options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// The options of all backends, to be changed in place.
    pub fn options_mut(&mut self) -> &mut Options {
        &mut self.options
    }

    /// Which mode it is.
    #[must_use]
    pub fn lock_mode(&self) -> Mode {
        self.mode
    }

    /// What all connections of this client call themselves in `pg_stat_activity`; unique, so that an operator can tell and end
    /// exactly this client.
    #[must_use]
    pub fn application_name(&self) -> &str {
        self.server.get_application_name().unwrap_or_default()
    }

    /// Gives the next client a name of its own.
    pub(crate) fn renamed(mut self) -> Self {
        self.server = self.server.application_name(&fresh_name());
        self
    }
}

/// `lockyard`, the process, and what tells this client from others of the process.
fn fresh_name() -> String {
    format!("lockyard {} {:016x}", std::process::id(), fastrand::u64(..))
}

fn server(url: &mut LockUrl, options: &Options) -> Result<PgConnectOptions> {
    let host = match url.hosts.as_slice() {
        [] => None,
        [host] => Some(host),
        _ => {
            return Err(Error::unsupported(
                "a Postgres URL names one host: put the primary, or a proxy that follows it",
            ));
        }
    };
    let mut standard = url::Url::parse("postgres://localhost/").map_err(config_error)?;
    if let Some(host) = host {
        let name = if host.name.contains(':') { format!("[{}]", host.name) } else { host.name.clone() };
        if name.starts_with('/') {
            standard.query_pairs_mut().append_pair("host", &name);
        } else {
            standard.set_host(Some(&name)).map_err(config_error)?;
        }
        standard.set_port(host.port).map_err(|()| Error::config("the port does not fit the host"))?;
    }
    standard
        .set_username(url.user.as_deref().unwrap_or(""))
        .map_err(|()| Error::config("the user does not fit the host"))?;
    standard.set_password(url.password.as_deref()).map_err(|()| Error::config("the password does not fit the host"))?;
    standard.set_path(&url.path);
    let mut server = PgConnectOptions::from_url(&standard).map_err(config_error)?;
    if let Some(ca) = &options.tls.ca {
        server = server.ssl_root_cert(ca).ssl_mode(PgSslMode::VerifyFull);
    }
    if let Some(cert) = &options.tls.cert {
        server = server.ssl_client_cert(cert);
    }
    if let Some(key) = &options.tls.key {
        server = server.ssl_client_key(key);
    }
    if let Some(word) = url.take("sslmode") {
        let wrong = |_| {
            Error::config(format!("sslmode={word}: write disable, allow, prefer, require, verify-ca or verify-full"))
        };
        server = server.ssl_mode(word.parse::<PgSslMode>().map_err(wrong)?);
    }
    // Poolers refuse settings that they do not know, and no floating-point number is read here.
    let server = server.extra_float_digits(None);
    Ok(server.disable_statement_logging().application_name(&fresh_name()))
}

/// Without the text of the cause, which may quote the URL and its password.
fn config_error<E>(_cause: E) -> Error {
    Error::config("the URL does not fit the form postgres://user:password@host:port/database")
}

impl fmt::Debug for PostgresConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresConfig")
            .field("url", &self.shown)
            .field("options", &self.options)
            .field("mode", &self.mode)
            .field("schema", &self.schema)
            .field("sessions", &self.sessions)
            .field("max_sessions", &self.max_sessions)
            .field("wait_slice", &self.wait_slice)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockyard_api::ErrorKind;

    #[test]
    fn urls_say_mode_and_limits() {
        let config = PostgresConfig::from_url(
            "postgresql://app@db:5433/x?lock=row&sessions=2&wait_slice=0s&ttl=10s&token=durable",
        )
        .expect("a good url");
        assert_eq!((config.mode, config.sessions, config.wait_slice), (Mode::Row, 2, Duration::ZERO));
        assert_eq!((config.server.get_host(), config.server.get_port()), ("db", 5433));
        assert_eq!((config.server.get_username(), config.server.get_database()), ("app", Some("x")));
        assert!(config.options.ttl == Duration::from_secs(10));
        let socket = PostgresConfig::from_url("postgres://%2Fvar%2Frun%2Fpostgresql/x").expect("a socket");
        assert_eq!(
            socket.server.get_socket().map(|path| path.display().to_string()).as_deref(),
            Some("/var/run/postgresql")
        );
        let name = config.application_name().to_owned();
        assert_ne!(config.renamed().application_name(), name);
    }

    #[test]
    fn wrong_urls_say_what_to_write() {
        for (url, word) in [
            ("redis://h", "postgres://"),
            ("postgres://h?lock=table", "advisory, row or lease"),
            ("postgres://h?lokc=row", "\"lock\""),
            ("postgres://h?sessions=0", "1 to 64"),
            ("postgres://h?max_sessions=1", "2 or more"),
            ("postgres://h?wait_slice=5ms", "100ms"),
            ("postgres://h?schema=", "schema"),
            ("postgres://h?sslmode=maybe", "verify-full"),
            ("postgres://h?scope=statement", "session"),
            ("postgres://h?token=strong", "durable"),
        ] {
            let error = PostgresConfig::from_url(url).expect_err(url);
            assert!(error.kind() == ErrorKind::Config && error.message().contains(word), "{url}: {error}");
        }
        // B92
        for url in ["postgres://a,b/x", "postgres://h?scope=transaction"] {
            assert_eq!(PostgresConfig::from_url(url).expect_err(url).kind(), ErrorKind::Unsupported);
        }
    }

    #[test]
    fn no_text_holds_the_password() {
        let config = PostgresConfig::from_url("postgres://u:geheim%40@h/x").expect("a good url");
        assert!(!format!("{config:?}").contains("geheim"), "{config:?}");
    }
}
