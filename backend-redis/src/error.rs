//! From the driver's errors to ours: the kind, and whether the server may have acted.

use lockyard_api::{Error, ErrorKind};
use redis::{ErrorKind as DriverKind, RedisError, ServerError};

/// An error that several callers can be told: what went wrong, whether the server may have acted, and the cause.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    pub(crate) kind: ErrorKind,
    not_applied: bool,
    message: String,
    source: Option<RedisError>,
}

impl Failure {
    /// Nothing was sent, or the server refused before it did anything.
    pub(crate) fn refused(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, not_applied: true, message: message.into(), source: None }
    }

    /// The server may have acted.
    pub(crate) fn unknown(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { not_applied: false, ..Self::refused(kind, message) }
    }

    pub(crate) fn with_source(mut self, source: RedisError) -> Self {
        self.source = Some(source);
        self
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        let mut error = Self::new(failure.kind, failure.message);
        if failure.not_applied {
            error = error.not_applied();
        }
        match failure.source {
            Some(source) => error.with_source(source),
            None => error,
        }
    }
}

/// Why a request on an open connection has no answer. The request may have reached the server.
pub(crate) fn unanswered(error: RedisError, address: &str) -> Failure {
    let message = if error.is_timeout() {
        format!("{address} did not answer in time")
    } else {
        format!("the connection to {address} broke")
    };
    Failure::unknown(ErrorKind::Unreachable, message).with_source(error)
}

/// What the server's refusal of a request means. A refusal by a word of this table comes before the first write of a
/// script; any other may come in the middle of one.
pub(crate) fn refusal(error: &ServerError, address: &str) -> Failure {
    let text = error.details().unwrap_or_default();
    let code = code(error.code(), text);
    let (kind, what) = match code {
        "NOAUTH" | "WRONGPASS" => (ErrorKind::Auth, "wants other credentials: check user and password of the URL"),
        "NOPERM" => (ErrorKind::Auth, "does not let this user do that: see its access control list (ACL SETUSER)"),
        "READONLY" => (ErrorKind::Unreachable, "has become a replica and takes no writes: connecting again"),
        "LOADING" => (ErrorKind::Unreachable, "is still loading its data"),
        "MASTERDOWN" | "NOREPLICAS" => (ErrorKind::Unreachable, "takes no writes while its replicas are away"),
        "BUSY" => (ErrorKind::Unreachable, "is busy with a long script"),
        "MISCONF" => (ErrorKind::Capacity, "takes no writes since it cannot save: see its log and disk"),
        "OOM" => (ErrorKind::Capacity, "is out of memory: raise maxmemory or remove keys"),
        "MOVED" | "ASK" | "CLUSTERDOWN" | "CROSSSLOT" | "TRYAGAIN" => {
            (ErrorKind::WrongServer, "is a node of a cluster: name one primary that is in none")
        }
        "ERR" if text.contains("ACL failure") || text.contains("user executing the script") => {
            let message = format!("{address} does not let this user do all that the scripts do: see its ACL ({text})");
            return Failure::unknown(ErrorKind::Auth, message);
        }
        "WRONGTYPE" => {
            let message =
                format!("a key beside the lock is not ours ({text}): another program uses it, choose another name");
            return Failure::unknown(ErrorKind::Protocol, message);
        }
        _ => return Failure::unknown(ErrorKind::Protocol, format!("{address} refused: {code} {text}")),
    };
    Failure::refused(kind, format!("{address} {what} ({code} {text})"))
}

/// The lock key is no string: another program keeps something else there.
pub(crate) fn foreign_key(key: &str) -> Failure {
    Failure::refused(
        ErrorKind::Protocol,
        format!(
            "the key {key:?} holds no string: another program (Redisson keeps a hash) uses it, choose another name or \
             namespace"
        ),
    )
}

/// An answer that no script of ours gives.
pub(crate) fn unexpected(what: &str) -> Failure {
    Failure::unknown(ErrorKind::Protocol, format!("the server's answer to {what} is none that this version knows"))
}

/// Why there is no connection. Nothing of a lock was sent.
pub(crate) fn unconnected(error: RedisError, address: &str) -> Failure {
    let failure = match error.kind() {
        DriverKind::AuthenticationFailed => auth(address),
        DriverKind::RESP3NotSupported => no_resp3(address),
        DriverKind::InvalidClientConfig => {
            Failure::refused(ErrorKind::Config, format!("cannot connect to {address}: {error}"))
        }
        DriverKind::Parse => Failure::refused(
            ErrorKind::WrongServer,
            format!("what listens at {address} does not speak the protocol of Redis: check host, port and TLS"),
        ),
        DriverKind::Server(_) | DriverKind::Extension => from_code(&error, address),
        _ => {
            let why = if error.is_timeout() { "no answer in time".to_owned() } else { error.to_string() };
            let hint = if why.contains("certificate") {
                "the server's certificate is not trusted: name its authority by tls_ca"
            } else {
                "check host and port, and that the server runs"
            };
            Failure::refused(ErrorKind::Unreachable, format!("cannot connect to {address}: {why}; {hint}"))
        }
    };
    failure.with_source(error)
}

/// Whether the acquire script found something else than a lock under the lock's key, and did nothing.
pub(crate) fn is_foreign(error: &ServerError) -> bool {
    error.code() == "FOREIGN"
}

/// Whether the server does not know the script yet.
pub(crate) fn is_no_script(error: &ServerError) -> bool {
    error.code() == "NOSCRIPT"
}

fn from_code(error: &RedisError, address: &str) -> Failure {
    let text = error.detail().unwrap_or_default();
    match error.code().map_or("", |own| code(own, text)) {
        "WRONGPASS" | "NOAUTH" => auth(address),
        "NOPERM" => Failure::refused(
            ErrorKind::Auth,
            format!("the user may not log in at {address} as lockyard does (HELLO 3, SELECT): {error}"),
        ),
        "NOPROTO" => no_resp3(address),
        "LOADING" | "MASTERDOWN" | "BUSY" => {
            Failure::refused(ErrorKind::Unreachable, format!("{address} is not ready: {error}"))
        }
        _ if text.contains("DB index") => Failure::refused(
            ErrorKind::Config,
            format!("{address} has no such database: {text}; see its setting databases"),
        ),
        _ if text.contains("unknown command") => no_resp3(address),
        _ if text.contains("max number of clients") => Failure::refused(
            ErrorKind::Capacity,
            format!("{address} takes no more clients: {text}; see its setting maxclients"),
        ),
        _ => Failure::refused(ErrorKind::Protocol, format!("{address} refused the connection: {error}")),
    }
}

fn auth(address: &str) -> Failure {
    Failure::refused(
        ErrorKind::Auth,
        format!("{address} refused the credentials: write them as redis://user:password@host, or :password@ alone"),
    )
}

fn no_resp3(address: &str) -> Failure {
    Failure::refused(
        ErrorKind::WrongServer,
        format!(
            "{address} does not speak RESP3 (HELLO 3): lockyard needs Redis 6.2 or later, without a proxy before it"
        ),
    )
}

/// The word that an error begins with; servers before 7.0 wrap the one of a command inside a script.
fn code<'a>(code: &'a str, text: &'a str) -> &'a str {
    const INSIDE: [&str; 7] = ["WRONGTYPE", "READONLY", "OOM", "MISCONF", "NOREPLICAS", "MASTERDOWN", "NOPERM"];
    if code != "ERR" {
        return code;
    }
    INSIDE.into_iter().find(|word| text.split([' ', '-']).any(|part| part == *word)).unwrap_or(code)
}
