//! etcd backend: leases, one transaction, one standing watch.
