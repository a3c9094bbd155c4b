//! `lockyard chaos`: clients, faults, and the history of both, checked.

pub(crate) mod client;
pub(crate) mod puppet;
