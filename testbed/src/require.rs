//! Which services must not be missing.

use crate::{Service, StartError};

/// The variable that names them, separated by commas.
const VARIABLE: &str = "LOCKYARD_REQUIRE";

/// Whether the absence of `service` is a failure here: `LOCKYARD_REQUIRE` names it (`redis,postgres,etcd,zookeeper`, or `all`).
#[must_use]
pub fn required(service: Service) -> bool {
    std::env::var(VARIABLE).is_ok_and(|list| names(&list, service))
}

/// What was started, or `None` after saying on stderr why it is absent, unless it is required.
///
/// # Errors
///
/// As the start, but [`StartError::Absent`] only for a required service.
pub fn or_skip<T>(service: Service, started: Result<T, StartError>) -> Result<Option<T>, StartError> {
    match started {
        Ok(started) => Ok(Some(started)),
        Err(StartError::Absent(absent)) if !required(service) => {
            eprintln!("SKIPPED: {absent}");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn names(list: &str, service: Service) -> bool {
    list.split(',').map(str::trim).any(|name| name == service.id() || name == "all")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_names_whole_services() {
        assert!(names("redis, etcd", Service::Etcd));
        assert!(names("all", Service::Zookeeper));
        assert!(!names("", Service::Redis));
        assert!(!names("redis2", Service::Redis));
    }
}
