//! From the driver's errors to ours.

use lockyard_api::{Error, ErrorKind};
use sqlx::postgres::{PgDatabaseError, PgSeverity};

/// SQLSTATE codes that decide something here (<https://www.postgresql.org/docs/current/errcodes-appendix.html>).
pub(crate) mod code {
    pub(crate) const LOCK_NOT_AVAILABLE: &str = "55P03";
    pub(crate) const QUERY_CANCELED: &str = "57014";
    pub(crate) const DEADLOCK: &str = "40P01";
    pub(crate) const SERIALIZATION: &str = "40001";
    pub(crate) const NO_SUCH_TABLE: &str = "42P01";
}

/// The SQLSTATE, when the server said one.
pub(crate) fn code(error: &sqlx::Error) -> Option<&str> {
    database(error).map(PgDatabaseError::code)
}

/// Whether the statement drew a number that the domain `token` refuses: see create.sql.
pub(crate) fn epoch_is_due(error: &sqlx::Error) -> bool {
    database(error).is_some_and(|error| error.constraint() == Some("lockyard_epoch_goes_on"))
}

/// Whether the session goes on after this error: the server answered a statement with an error and nothing worse.
pub(crate) fn session_survives(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Database(_) => {
            database(error).is_some_and(|error| !matches!(error.severity(), PgSeverity::Fatal | PgSeverity::Panic))
        }
        sqlx::Error::RowNotFound | sqlx::Error::ColumnDecode { .. } | sqlx::Error::ColumnIndexOutOfBounds { .. } => {
            true
        }
        _ => false,
    }
}

/// Whether the server said that it has ended the session, and with it all that rested on it.
pub(crate) fn session_was_ended(error: &sqlx::Error) -> bool {
    database(error).is_some_and(|error| matches!(error.severity(), PgSeverity::Fatal | PgSeverity::Panic))
}

fn database(error: &sqlx::Error) -> Option<&PgDatabaseError> {
    error.as_database_error().and_then(|error| error.try_downcast_ref::<PgDatabaseError>())
}

/// What the driver reports, in our terms. The outcome is unknown unless the caller knows better.
pub(crate) fn driver(error: sqlx::Error, doing: &str) -> Error {
    let (kind, remedy) = classify(&error);
    let said = database(&error).map_or_else(|| error.to_string(), |e| format!("{} ({})", e.message(), e.code()));
    let message = if remedy.is_empty() { format!("{doing}: {said}") } else { format!("{doing}: {said}: {remedy}") };
    Error::new(kind, message).with_source(error)
}

fn classify(error: &sqlx::Error) -> (ErrorKind, &'static str) {
    match error {
        sqlx::Error::Database(_) => classify_code(code(error).unwrap_or_default()),
        sqlx::Error::Io(_) => (ErrorKind::Unreachable, "check that the server runs and that host and port are right"),
        sqlx::Error::PoolTimedOut => (ErrorKind::Unreachable, "the server did not take a connection in time"),
        sqlx::Error::Tls(_) => (ErrorKind::Config, "check sslmode, tls_ca and the certificate's name"),
        sqlx::Error::Configuration(_) => (ErrorKind::Config, "check the URL"),
        _ => (ErrorKind::Protocol, ""),
    }
}

fn classify_code(code: &str) -> (ErrorKind, &'static str) {
    match code {
        "28000" | "28P01" => (ErrorKind::Auth, "check user, password and pg_hba.conf"),
        "42501" => (ErrorKind::Auth, "grant the user this privilege, or create the schema once as its owner"),
        "3D000" => (ErrorKind::Config, "name an existing database in the URL"),
        "3F000" | code::NO_SUCH_TABLE => (ErrorKind::Config, "what lockyard created is gone: connect again"),
        "53300" => (ErrorKind::Capacity, "raise max_connections or lower max_sessions"),
        "53200" => (ErrorKind::Capacity, "raise max_locks_per_transaction or hold fewer locks"),
        "08P01" => (ErrorKind::WrongServer, "a pooler in between? connect to the server itself, or use lock=lease"),
        "25006" => (ErrorKind::WrongServer, "this is a standby: connect to the primary"),
        code::LOCK_NOT_AVAILABLE | code::QUERY_CANCELED => (ErrorKind::Unreachable, "the server gave the statement up"),
        "25P03" | "25P04" | "57P05" => (ErrorKind::Unreachable, "the server heard nothing of the session for its ttl"),
        code if code.starts_with("57P") => (ErrorKind::Unreachable, "the server is shutting down or starting"),
        code if code.starts_with("53") => (ErrorKind::Capacity, ""),
        code if code.starts_with("08") => (ErrorKind::Unreachable, ""),
        _ => (ErrorKind::Protocol, ""),
    }
}

/// No answer within the operation timeout.
pub(crate) fn no_answer(doing: &str) -> Error {
    Error::new(ErrorKind::Unreachable, format!("{doing}: the server did not answer within the operation timeout"))
}

/// The claim's session is over, and with it whatever the claim had.
pub(crate) fn session_changed() -> Error {
    Error::new(ErrorKind::SessionChanged, "the session of this claim has ended: make a new claim").not_applied()
}

/// The limit on sessions is reached.
pub(crate) fn too_many_sessions(limit: usize) -> Error {
    let message =
        format!("all {limit} sessions of this client are in use: raise max_sessions or hold and wait for fewer names");
    Error::new(ErrorKind::Capacity, message).not_applied()
}

/// A session ended between being chosen and being used.
pub(crate) fn lost_before_use() -> Error {
    Error::new(ErrorKind::Unreachable, "the session ended before it was used").not_applied()
}
