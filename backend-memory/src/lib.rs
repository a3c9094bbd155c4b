//! In-process backend: the reference for every check of the conformance suite.
//!
//! A [`MemoryServer`] lives in the memory of the process; each [`MemoryLock`] is a client of it with a session of its own.
//! It queues first in, first out or not at all, keeps holds by leases or by sessions ([`MemoryOptions`]), and runs on the
//! machine's clock or on one that only a test moves. Fencing is [`Volatile`](lockyard_api::Fencing::Volatile): the server
//! ends with the process. Exclusive claims only.
//!
//! ```
//! use lockyard_api::{Attempt, Claim, DistributedLock, LockName, Namespace};
//! use lockyard_memory::{MemoryOptions, MemoryServer};
//! use std::time::Duration;
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> lockyard_api::Result<()> {
//! let server = MemoryServer::new(MemoryOptions::default());
//! let locks = server.connect(Namespace::default());
//! let claim = Claim::new(LockName::new("report:daily")?, Duration::from_secs(30));
//! assert!(matches!(locks.try_acquire(&claim).await?, Attempt::Granted(_)));
//! # Ok(()) }
//! ```

mod config;
mod link;
mod lock;
mod options;
mod register;
mod server;
mod session;
mod table;
#[cfg(feature = "testing")]
pub mod testing;

pub use config::MemoryConfig;
pub use link::MemoryLink;
pub use lock::MemoryLock;
pub use options::{MemoryLiveness, MemoryOptions};
pub use register::MemoryRegister;
pub use server::MemoryServer;
