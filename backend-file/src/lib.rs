//! Kernel file locks on one host: no server needed.
//!
//! One file a name in one directory, locked with `flock(2)`. The kernel frees the lock when its holder's process ends,
//! however it ends; a process that is only stopped keeps it (`expires_hung` is false). Fencing tokens stand in the files and
//! survive a crash of the host.

mod config;
mod garbage;
mod lock;
mod record;
mod register;
mod store;
#[cfg(feature = "testing")]
pub mod testing;
mod waiters;

pub use config::FileConfig;
pub use lock::FileLock;
pub use register::FileRegister;
