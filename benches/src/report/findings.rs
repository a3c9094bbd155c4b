//! What single scenarios find beside latencies and rates.

use serde::{Deserialize, Serialize};

use crate::stats::Estimate;

/// What held locks cost the client that holds them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct HoldCost {
    /// How many were held.
    pub held: u64,
    /// Their ttl in seconds.
    pub ttl_seconds: f64,
    /// Renewals a second that the front end asked the backend for; none where a session keeps all holds.
    pub renewals_per_second: f64,
    /// Processor time of the client, as a share of one core.
    pub client_cpu: f64,
    /// Memory of the client for one lock: what its resident set grew by, over the locks.
    pub bytes_per_lock: f64,
    /// Holds that were lost, or whose deadline passed.
    pub missed_deadlines: u64,
}

/// How long a name stays closed when its holder is gone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Takeover {
    /// `killed`, `frozen` or `cut_off`.
    pub fault: String,
    /// From the fault to the next grant.
    pub seconds: Estimate,
    /// What is promised: the granted ttl and the slack of the backend.
    pub bound_seconds: f64,
}

/// What a crash and restart of the server does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Failover {
    /// `restart`: a single server is killed and started again with its data.
    pub fault: String,
    /// From the crash to the next grant of a name that nobody holds: the longest of the trials.
    pub gap_seconds: f64,
    /// Whether another got the name in any trial while its holder believed to hold it.
    pub overlap: bool,
    /// Whether the hold outlived the restart in all trials.
    pub kept: bool,
    /// The token of the next grant of the name against that of the hold: `rise`, `fall` (also: the same again) or `none`.
    pub tokens: String,
}

/// How many connections to the server one client has.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Connections {
    /// The names that one client holds.
    pub held: u64,
    /// The names that another client waits for.
    pub waited: u64,
    /// Connections of the client that holds.
    pub held_connections: u64,
    /// Connections of the client that waits.
    pub waited_connections: u64,
    /// Why fewer names than asked for, or empty.
    pub note: String,
}
