//! What a client process is told to do: a line of JSON each.

use serde::{Deserialize, Serialize};

/// An order. All that concerns one acquisition carries its number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) op: u64,
    #[serde(flatten)]
    pub(crate) what: Do,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub(crate) enum Do {
    /// Acquire the name, waiting at most so long.
    Acquire { name: String, wait_ms: u64 },
    /// Acquire the name if it is free.
    Try { name: String },
    /// The same at this time of its clock, or at once if it has passed: all that are told the same time race.
    Race { name: String, at: u64 },
    /// Drop the running acquire.
    Cancel,
    /// Release the hold.
    Release,
    /// Drop the guard.
    Drop,
    /// Write to the register of the name under the hold's token, whatever has become of the hold.
    Write,
}
