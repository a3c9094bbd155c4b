//! Postgres backend: advisory locks, row locks and a lease table.
