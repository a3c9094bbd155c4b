//! Starts real servers on free ports, breaks them, and ends them.
//!
//! A [`Server`] is a Redis, Postgres, etcd or ZooKeeper that answers. It can be frozen, killed and restarted, and it is gone, with
//! its files, when the value is dropped or when the test process dies, however it dies. A [`Proxy`] stands between a client and
//! a server and breaks the connection in the ways a network does. An [`Ensemble`] is several servers of one service that elect a
//! leader, with proxies between them. This crate knows nothing of locks.
//!
//! ```no_run
//! use lockyard_testbed::{Server, Service};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let Some(server) = Server::start_or_skip(Service::Redis).await? else { return Ok(()) };
//! println!("{} {} at {}", server.service(), server.version(), server.url());
//! server.freeze().await?;
//! server.thaw().await?;
//! # Ok(())
//! # }
//! ```

mod clock;
#[cfg(feature = "container")]
mod container;
mod controls;
mod ensemble;
mod error;
mod faults;
mod home;
mod join;
mod launch;
mod monitor;
mod native;
mod options;
mod ports;
mod process;
mod proxy;
mod pump;
mod ready;
mod requests;
pub mod require;
mod server;
mod service;
pub mod timing;
mod wire;
mod zk_session;

pub use clock::{ClockOffset, WallClock};
pub use ensemble::Ensemble;
pub use error::{Absent, FailedStart, FaultError, StartError};
pub use options::Options;
pub use proxy::{Mode, Proxy};
pub use requests::Requests;
pub use server::Server;
pub use service::Service;
pub use zk_session::end_zookeeper_session;
