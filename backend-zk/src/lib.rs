//! ZooKeeper backend: ephemeral sequential nodes in the layout of Curator's `InterProcessMutex`.
//!
//! A client is one session, kept alive by a heartbeat that only the leader answers; its timeout T, as the server granted it,
//! is the lease of every hold. The queue is first in, first out; a waiter watches the contender before it and nothing else.
//! The fencing token is the transaction that created the holder's node.
//!
//! ```no_run
//! # async fn example() -> lockyard_api::Result<()> {
//! use lockyard_zk::{ZkConfig, ZkLock};
//! let lock = ZkLock::connect(ZkConfig::from_url("zk://zk1,zk2,zk3/apps?ttl=10s")?).await?;
//! # drop(lock);
//! # Ok(())
//! # }
//! ```

mod acquire;
mod check;
mod claims;
mod config;
mod error;
mod garbage;
mod inspect;
mod lock;
mod node;
mod probe;
mod register;
mod session;
#[cfg(feature = "testing")]
pub mod testing;

pub use config::{ZkAcl, ZkConfig};
pub use lock::ZkLock;
pub use register::ZkRegister;
