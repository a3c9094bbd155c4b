//! Faults seen in the field and what the server does to locks, one test each.

#[path = "../common/mod.rs"]
mod common;

mod faults;
mod input;
mod queue;
mod session;
