//! From the driver's errors to ours.

use lockyard_api::{Error, ErrorKind};
use zookeeper_client::Error as Driver;

/// What a driver's error means; `what` names the request and the path. Says nothing about the outcome.
pub(crate) fn of_driver(error: Driver, what: &str) -> Error {
    use ErrorKind::{Auth, Capacity, Config, Protocol, SessionChanged, Unreachable, WrongServer};
    let (kind, remedy) = match &error {
        Driver::SessionExpired | Driver::ClientClosed => (SessionChanged, ": acquire again"),
        Driver::NoAuth => {
            (Auth, ": the ACL there does not let this user in, check user:password in the URL and acl= of all clients")
        }
        Driver::AuthFailed => (Auth, ": check user:password in the URL"),
        Driver::InvalidAcl => (Config, ": acl=creator needs user:password in the URL"),
        Driver::NotReadOnly => {
            (WrongServer, ": this server has lost its quorum and only reads, name the others in the URL")
        }
        Driver::Unimplemented => (WrongServer, ": locks need ZooKeeper 3.6 or later"),
        Driver::QuotaExceeded => (Capacity, ": raise the quota of the directory"),
        Driver::NoHosts => (Unreachable, ""),
        passing if is_passing(passing) => (Unreachable, ""),
        _ => (Protocol, ""),
    };
    Error::new(kind, format!("{what}: {error}{remedy}")).with_source(error)
}

/// Whether the server said no, and so did nothing.
pub(crate) fn is_refusal(error: &Driver) -> bool {
    matches!(
        error,
        Driver::NoNode
            | Driver::NoAuth
            | Driver::AuthFailed
            | Driver::InvalidAcl
            | Driver::NotReadOnly
            | Driver::Unimplemented
            | Driver::QuotaExceeded
            | Driver::NoChildrenForEphemerals
            | Driver::BadArguments(_)
    )
}

/// The request was sent, or will be, and no answer came in time.
pub(crate) fn late(what: &str, limit: std::time::Duration) -> Error {
    Error::new(ErrorKind::Unreachable, format!("{what}: no answer within {limit:?}"))
}

/// The claim belongs to a session that has ended.
pub(crate) fn session_changed() -> Error {
    Error::new(
        ErrorKind::SessionChanged,
        "the ZooKeeper session of this claim has ended, and its node with it: acquire again",
    )
}

/// Whether the same request may be answered after the driver has connected again; the fate of the first is unknown.
pub(crate) fn is_passing(error: &Driver) -> bool {
    matches!(
        error,
        Driver::ConnectionLoss | Driver::Timeout | Driver::Throttled | Driver::SessionMoved | Driver::Custom(_)
    )
}

/// Whether the session cannot be used again: it is over, or the driver's task is.
pub(crate) fn is_final(error: &Driver) -> bool {
    matches!(error, Driver::SessionExpired | Driver::ClientClosed | Driver::AuthFailed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_told_apart() {
        for (driver, kind, refused) in [
            (Driver::ConnectionLoss, ErrorKind::Unreachable, false),
            (Driver::NoHosts, ErrorKind::Unreachable, false),
            (Driver::SessionExpired, ErrorKind::SessionChanged, false),
            (Driver::NoAuth, ErrorKind::Auth, true),
            (Driver::NotReadOnly, ErrorKind::WrongServer, true),
            (Driver::Unimplemented, ErrorKind::WrongServer, true),
            (Driver::UnexpectedErrorCode(7), ErrorKind::Protocol, false),
        ] {
            assert_eq!(is_refusal(&driver), refused, "{driver}");
            let error = of_driver(driver, "create /x");
            assert_eq!(error.kind(), kind, "{error}");
            assert!(error.to_string().starts_with("create /x: "), "{error}");
        }
    }
}
