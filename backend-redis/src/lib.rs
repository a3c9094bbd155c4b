//! Redis backend: SET NX PX in Lua, a FIFO queue with hand-over, pub/sub wake-up.
//!
//! One connection a client carries everything: requests, and the messages that wake waiters (RESP3). A lock is one string
//! key that holds its owner and has an expiry, as every client knows it that uses `SET NX PX`; who waits stands in a list
//! beside it, and whoever releases hands the lock to the first of them.
//!
//! The server must be a primary of version 6.2 or later. What a lock on a single Redis guarantees and what it does not is
//! said in `docs/safety.md`: a crash without its append-only file, and a failover, can lose a lock; only fencing tokens help then.

mod client;
mod config;
mod connect;
mod error;
mod garbage;
mod keys;
mod lock;
mod register;
mod reply;
pub mod scripts;
mod server;
mod session;
mod waiters;

#[cfg(feature = "testing")]
pub mod testing;

pub use config::RedisConfig;
pub use lock::RedisLock;
pub use register::RedisRegister;
