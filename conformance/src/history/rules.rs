//! What a backend promises, and what it is allowed under which fault.

use std::collections::BTreeMap;
use std::time::Duration;

use lockyard_api::{Capabilities, Fencing, LivenessKind};
use serde::{Deserialize, Serialize};

use super::FaultKind;

/// The promises that a history is held to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Rules {
    /// The backend, for the reader.
    pub backend: String,
    /// Whether tokens rise strictly.
    pub fencing: bool,
    /// Whether they also rise across a restart of the server.
    pub fencing_survives_restart: bool,
    /// The faults that may take a hold away before its holder is told, with how many milliseconds after the end of the
    /// fault it may still believe in it. Without an entry D protects: no overlap at all.
    pub allowed_ms: BTreeMap<FaultKind, u64>,
}

impl Rules {
    /// One holder at a time and rising tokens, whatever happens.
    #[must_use]
    pub fn strict() -> Self {
        Self { fencing: true, fencing_survives_restart: true, ..Self::default() }
    }

    /// What follows from a backend's capabilities, for holds of this ttl over clients with this limit for a call.
    ///
    /// Leases and sessions with a life of their own never overlap by D; a record that an operator removes is noticed at
    /// the next renewal. Where the session is its connection, the server frees its holds with the connection, and the
    /// client is told as soon as it hears of it, at the next heartbeat at the latest. Where a restart keeps no locks, the
    /// same holds for a restart.
    #[must_use]
    pub fn of(promises: &Capabilities, ttl: Duration, op_timeout: Duration) -> Self {
        let mut rules = Self {
            backend: promises.backend.to_owned(),
            fencing: promises.fencing != Fencing::None,
            fencing_survives_restart: promises.fencing == Fencing::Durable,
            allowed_ms: BTreeMap::new(),
        };
        let told = ttl / 3 + op_timeout;
        rules.allow(FaultKind::Revoked, told);
        if promises.liveness == LivenessKind::Session {
            rules.allow(FaultKind::SessionEnded, told);
        }
        if !promises.restart_safe {
            rules.allow(FaultKind::ServerRestarted, told);
        }
        if promises.liveness == LivenessKind::Session && !promises.restart_safe {
            rules.allow(FaultKind::LinkCut, told);
            rules.allow(FaultKind::RepliesSwallowed, told);
            rules.allow(FaultKind::RequestsDropped, told);
            rules.allow(FaultKind::RepliesDropped, told);
        }
        rules
    }

    /// The rules with holds that this fault may take away, noticed within `told` of its end.
    pub fn allow(&mut self, fault: FaultKind, told: Duration) {
        self.allowed_ms.insert(fault, u64::try_from(told.as_millis()).unwrap_or(u64::MAX));
    }

    /// The rules for a server whose restart keeps locks and counters, whatever the backend can promise of others.
    pub fn keep_over_restart(&mut self) {
        self.fencing_survives_restart = true;
        self.allowed_ms.remove(&FaultKind::ServerRestarted);
    }

    pub(super) fn allowed(&self, fault: FaultKind) -> Option<u64> {
        self.allowed_ms.get(&fault).map(|ms| ms.saturating_mul(1_000_000))
    }
}
