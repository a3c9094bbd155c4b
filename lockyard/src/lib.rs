//! Distributed locks behind one trait: the backend is chosen by a URL.
//!
//! ```
//! # async fn example() -> lockyard::Result<()> {
//! let locks = lockyard::connect("memory:").await?; // or redis:// postgres:// etcd:// zk:// file:
//! if let Some(guard) = locks.try_acquire("job:sync").await? {
//!     let done = guard.run(async { /* the work */ }).await; // dropped when the lock is lost
//!     println!("{done:?} under token {:?}", guard.fencing_token());
//!     guard.release().await?;
//! }
//! locks.shutdown().await
//! # }
//! # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
//! ```

mod connect;

pub use connect::{Scheme, connect, connect_backend, connect_garbage, connect_register, connect_with};
pub use lockyard_api::*;

#[cfg(feature = "etcd")]
pub use lockyard_etcd as etcd;
#[cfg(feature = "file")]
pub use lockyard_file as file;
#[cfg(feature = "memory")]
pub use lockyard_memory as memory;
#[cfg(feature = "postgres")]
pub use lockyard_postgres as postgres;
#[cfg(feature = "redis")]
pub use lockyard_redis as redis;
#[cfg(feature = "zookeeper")]
pub use lockyard_zk as zookeeper;
