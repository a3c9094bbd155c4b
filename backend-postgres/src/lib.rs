//! Postgres backend: advisory locks, row locks and a lease table.
//!
//! One backend, three modes, chosen by `?lock=` in the URL:
//!
//! - `advisory` (default): session-level advisory locks. Many holds share one session, which the server ends within the ttl
//!   when its client hangs or vanishes. The server queues the waiters.
//! - `row`: `SELECT … FOR UPDATE` in a transaction of its own for each hold.
//! - `lease`: a table of leases with an expiry; works through transaction poolers and keeps its locks across a restart.
//!
//! ```no_run
//! use lockyard_postgres::{PostgresConfig, PostgresLock};
//!
//! # async fn example() -> lockyard_api::Result<()> {
//! let lock = PostgresLock::connect(PostgresConfig::from_url("postgres://app@db/app?lock=lease")?).await?;
//! # Ok(())
//! # }
//! ```

mod advisory;
mod classes;
mod config;
mod control;
mod crowd;
mod driven;
mod epoch;
mod error;
mod fleet;
mod garbage;
mod keeper;
mod key;
mod lease;
mod lines;
mod lock;
mod locking;
mod mailbox;
mod opener;
mod own;
mod register;
mod registry;
mod renewals;
mod row;
mod schema;
mod sentence;
mod session;
mod spares;
pub mod statements;
#[cfg(feature = "testing")]
pub mod testing;
mod waiter;
mod waiting;
mod wire;

pub use config::{Mode, PostgresConfig};
pub use lock::PostgresLock;
pub use register::PostgresRegister;
