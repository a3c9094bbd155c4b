//! The etcd backend of lockyard: session leases, one transaction an acquisition, one standing watch a name waited for.
//!
//! ```no_run
//! use lockyard_etcd::{EtcdConfig, EtcdLock};
//!
//! # async fn example() -> lockyard_api::Result<()> {
//! let lock = EtcdLock::connect(EtcdConfig::from_url("etcd://127.0.0.1:2379/apps?namespace=shop")?).await?;
//! # Ok(())
//! # }
//! ```
//!
//! The server's own Lock service is never used: clients that vanish while blocked in it wedge it for every name
//! (<https://github.com/etcd-io/etcd/issues/13336>).

mod backoff;
mod claims;
mod classes;
mod config;
mod connect;
mod error;
mod keys;
mod listing;
mod lists;
mod lock;
mod operations;
mod picture;
mod register;
mod rpc;
mod session;
mod surroundings;
#[cfg(feature = "testing")]
pub mod testing;
mod watch;
mod watcher;

pub use config::EtcdConfig;
pub use keys::{KeySpace, LockKeys};
pub use lock::EtcdLock;
pub use register::EtcdRegister;
