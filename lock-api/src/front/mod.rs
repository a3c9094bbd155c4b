//! The front end: what is hard about locks, written once for all backends.

mod acquire;
mod backoff;
mod circuit;
mod cohort;
mod core;
mod events;
pub(crate) mod hold;
mod keeper;
mod queue;
pub(crate) mod release;
pub(crate) mod spans;
mod trouble;
pub(crate) mod turn;
mod watchdog;
mod write;

pub(crate) use acquire::Acquire;
pub(crate) use cohort::{Cohort, Course, Relay};
pub(crate) use core::Core;
pub(crate) use events::Events;
pub(crate) use keeper::Keeper;
pub(crate) use queue::LocalQueue;
pub(crate) use release::Releases;
pub(crate) use watchdog::{WatchId, Watchdog};
