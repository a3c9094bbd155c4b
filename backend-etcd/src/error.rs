//! What etcd's errors mean for a claim.

use std::error::Error as StdError;
use std::io;

use lockyard_api::{Error, ErrorKind};

/// Status codes of gRPC (<https://grpc.github.io/grpc/core/md_doc_statuscodes.html>).
mod code {
    pub(super) const INVALID_ARGUMENT: i32 = 3;
    pub(super) const NOT_FOUND: i32 = 5;
    pub(super) const PERMISSION_DENIED: i32 = 7;
    pub(super) const RESOURCE_EXHAUSTED: i32 = 8;
    pub(super) const FAILED_PRECONDITION: i32 = 9;
    pub(super) const OUT_OF_RANGE: i32 = 11;
    pub(super) const UNIMPLEMENTED: i32 = 12;
    pub(super) const UNAUTHENTICATED: i32 = 16;
}

/// A request that failed: what it was, and whether the server may have acted all the same.
#[derive(Debug)]
pub(crate) struct Failure {
    kind: ErrorKind,
    message: String,
    refused: bool,
    lease_gone: bool,
    source: Option<etcd_client::Error>,
}

impl Failure {
    /// The request was sent, and no answer came in time.
    pub(crate) fn timed_out(what: &str, limit: std::time::Duration) -> Self {
        Self {
            kind: ErrorKind::Unreachable,
            message: format!("{what}: no answer within {limit:?}"),
            refused: false,
            lease_gone: false,
            source: None,
        }
    }

    /// The server answered something that makes no sense here.
    pub(crate) fn nonsense(what: &str) -> Self {
        Self {
            kind: ErrorKind::Protocol,
            message: format!("{what}: the answer lacks a part"),
            refused: false,
            lease_gone: false,
            source: None,
        }
    }

    /// The claim's key belongs to another session, or went while it was granted.
    pub(crate) fn session_changed() -> Self {
        let message = "the claim's key belongs to a session that is not this one".to_owned();
        Self { kind: ErrorKind::SessionChanged, message, refused: true, lease_gone: false, source: None }
    }

    /// An error that is finished already.
    pub(crate) fn from_api(error: Error) -> Self {
        Self {
            kind: error.kind(),
            message: error.message().to_owned(),
            refused: false,
            lease_gone: false,
            source: None,
        }
    }

    /// The server refused for lack of permission.
    pub(crate) fn refused(what: &str, reason: String) -> Self {
        let message = format!("{what}: {reason}: check the user's role on the prefix");
        Self { kind: ErrorKind::Auth, message, refused: true, lease_gone: false, source: None }
    }

    pub(crate) fn new(what: &str, error: etcd_client::Error) -> Self {
        let (kind, refused) = meaning(&error);
        let hint = match kind {
            ErrorKind::Auth => ": check the user, its password and its role's permission on the prefix",
            ErrorKind::WrongServer => ": is this the client port of an etcd 3.4 or later?",
            ErrorKind::SessionChanged => ": the session's lease has ended at the server",
            ErrorKind::Capacity => ": the server is at one of its limits",
            _ => "",
        };
        let lease_gone = kind == ErrorKind::SessionChanged;
        Self { kind, message: format!("{what}: {}{hint}", text(&error)), refused, lease_gone, source: Some(error) }
    }

    pub(crate) fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The same failure, of a request that did not name the session's lease.
    pub(crate) fn of_another_lease(mut self) -> Self {
        self.lease_gone = false;
        self
    }

    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// Whether it is certain that the server did nothing.
    pub(crate) fn is_refused(&self) -> bool {
        self.refused
    }

    /// Whether the lease that the request named is gone.
    pub(crate) fn lease_is_gone(&self) -> bool {
        self.lease_gone
    }

    /// Whether nothing was sent because no connection came about.
    pub(crate) fn never_connected(&self) -> bool {
        self.source.as_ref().is_some_and(never_connected)
    }

    /// The error; its outcome is unknown.
    pub(crate) fn into_error(self) -> Error {
        let error = Error::new(self.kind, self.message);
        match self.source {
            Some(source) => error.with_source(source),
            None => error,
        }
    }

    /// The error without its cause, for one of several whom the same request failed.
    pub(crate) fn to_first_error(&self) -> Error {
        let error = Error::new(self.kind, self.message.as_str());
        if self.refused { error.not_applied() } else { error }
    }

    /// The error; not applied if the server certainly did nothing.
    pub(crate) fn into_first_error(self) -> Error {
        let refused = self.refused;
        let error = self.into_error();
        if refused { error.not_applied() } else { error }
    }
}

/// The kind, and whether the server certainly did nothing.
fn meaning(error: &etcd_client::Error) -> (ErrorKind, bool) {
    let etcd_client::Error::GRpcStatus(status) = error else {
        return match error {
            etcd_client::Error::InvalidArgs(_) | etcd_client::Error::InvalidUri(_) => (ErrorKind::Config, true),
            etcd_client::Error::TransportError(_) | etcd_client::Error::IoError(_) => (ErrorKind::Unreachable, false),
            etcd_client::Error::LeaseKeepAliveError(_) | etcd_client::Error::WatchError(_) => {
                (ErrorKind::Unreachable, false)
            }
            _ => (ErrorKind::Protocol, false),
        };
    };
    let message = status.message();
    match i32::from(status.code()) {
        code::PERMISSION_DENIED | code::UNAUTHENTICATED => (ErrorKind::Auth, true),
        // The messages are part of the interface (etcd's rpctypes); the codes alone do not tell these apart.
        code::INVALID_ARGUMENT if message.contains("authentication") || message.contains("user name") => {
            (ErrorKind::Auth, true)
        }
        code::FAILED_PRECONDITION if message.contains("authentication") => (ErrorKind::Auth, true),
        code::NOT_FOUND if message.contains("lease not found") => (ErrorKind::SessionChanged, true),
        // Refused before the proposal or while it is applied; a limit never lets half a transaction through.
        code::RESOURCE_EXHAUSTED => (ErrorKind::Capacity, true),
        code::INVALID_ARGUMENT => (ErrorKind::Protocol, true),
        code::FAILED_PRECONDITION | code::OUT_OF_RANGE | code::NOT_FOUND => (ErrorKind::Protocol, false),
        code::UNIMPLEMENTED => (ErrorKind::WrongServer, true),
        // Asked before the request is looked at: every request says that it wants a leader.
        _ if message == "etcdserver: no leader" => (ErrorKind::Unreachable, true),
        _ if never_connected(error) => (ErrorKind::Unreachable, true),
        _ => (ErrorKind::Unreachable, false),
    }
}

/// A refused connection cannot have carried a request; one that broke can.
fn never_connected(error: &etcd_client::Error) -> bool {
    let etcd_client::Error::GRpcStatus(status) = error else { return false };
    causes(status).any(|cause| {
        cause.downcast_ref::<io::Error>().is_some_and(|io| io.kind() == io::ErrorKind::ConnectionRefused)
            || cause.to_string().contains("dns error")
    })
}

fn causes<'a>(error: &'a (dyn StdError + 'static)) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(error.source(), |cause: &&(dyn StdError + 'static)| (*cause).source())
}

/// The message of the server, or the innermost cause: "transport error" alone helps nobody.
fn text(error: &etcd_client::Error) -> String {
    let etcd_client::Error::GRpcStatus(status) = error else { return error.to_string() };
    match causes(status).last() {
        Some(cause) => cause.to_string(),
        None => status.message().to_owned(),
    }
}
