//! What worker processes are told and what they tell: a line of JSON each.

use serde::{Deserialize, Serialize};

use crate::report::HoldCost;

/// What a worker has to do. The first line; what belongs to it follows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub(crate) enum Order {
    /// Open so many clients that contend for a name: ready, then from [`Order::Start`] on.
    Contend { name: String, contenders: usize, first: usize },
    /// Contend from this time of the boot clock on, for so long.
    Start { at_nanos: u64, for_nanos: u64 },
    /// Let so many tasks of one client wait for a name: ready, then until [`Order::End`].
    Wait { name: String, tasks: usize },
    /// Hold so many names for a time and tell what it cost.
    Hold { name: String, count: usize, ttl_millis: u64, for_millis: u64 },
    /// Take one name, with this ttl or the shortest that the backend takes: ready when it is held, then until [`Order::End`].
    Keep { name: String, ttl_millis: u64 },
    /// That was all.
    End,
}

/// What a worker answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub(crate) enum Answer {
    /// It stands where it was told to. Of a hold with what the backend promises, the granted ttl and the slack; of contenders
    /// with how long a turn each took.
    Ready { millis: Option<u64> },
    /// The turns of its contenders.
    Contended { turns: Vec<Turn> },
    /// It waited; `early` when a task got the name.
    Waited { early: bool },
    /// What its holds cost.
    Held { cost: HoldCost },
    /// It could not.
    Failed { reason: String },
}

/// One turn of a contender at a name; times of the boot clock in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Turn {
    /// Who.
    #[serde(rename = "c")]
    pub(crate) contender: usize,
    /// When it asked for the name.
    #[serde(rename = "a")]
    pub(crate) asked: u64,
    /// When it was told that it holds it.
    #[serde(rename = "e")]
    pub(crate) entered: u64,
    /// When it began to give it back.
    #[serde(rename = "l")]
    pub(crate) left: u64,
}
