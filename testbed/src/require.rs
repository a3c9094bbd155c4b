//! Which services must not be missing.

use crate::Service;

/// The variable that names them, separated by commas.
const VARIABLE: &str = "LOCKYARD_REQUIRE";

/// Whether the absence of `service` is a failure here: `LOCKYARD_REQUIRE` names it (`redis,postgres,etcd,zookeeper`, or `all`).
#[must_use]
pub fn required(service: Service) -> bool {
    std::env::var(VARIABLE).is_ok_and(|list| names(&list, service))
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
