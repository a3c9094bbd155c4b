//! The report as data: JSON is the source of truth, everything else is rendered from it.
//!
//! `docs/report.schema.json` describes it; later versions add fields and change none.

use std::collections::BTreeMap;

use lockyard_api::{Capabilities, Fencing, LivenessKind, Queueing, Waking};
use serde::{Deserialize, Serialize};

use super::findings::{Connections, Failover, HoldCost, Takeover};
use crate::Target;
use crate::environment::Environment;
pub use crate::stats::Estimate;

/// Everything that a comparison found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Report {
    /// The version of this format: 1.
    pub schema: u32,
    /// What made it.
    pub tool: Tool,
    /// The command that makes it again.
    pub command: String,
    /// The seed of the order and of the intervals.
    pub seed: u64,
    /// The suite: `quick`, `standard`, `full`.
    #[serde(default)]
    pub suite: String,
    /// Whether the run was ended before all was measured.
    #[serde(default)]
    pub cancelled: bool,
    /// The machine.
    pub env: Environment,
    /// What was compared.
    pub backends: Vec<Backend>,
    /// What was not, and why.
    pub skipped: Vec<Skipped>,
    /// What of its promises each backend keeps.
    pub conformance: Vec<Conformance>,
    /// The figures.
    pub scenarios: Vec<ScenarioResults>,
}

/// What made a report.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Tool {
    /// Its version.
    pub version: String,
    /// The revision it was built from, or empty.
    pub git_sha: String,
}

impl Tool {
    /// A tool of this version and revision.
    #[must_use]
    pub fn new(version: &str, git_sha: &str) -> Self {
        Self { version: version.to_owned(), git_sha: git_sha.to_owned() }
    }
}

/// A backend that was compared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Backend {
    /// The id that the rest of the report names it by.
    pub id: String,
    /// The server.
    pub kind: String,
    /// Which of the kind's ways to lock.
    pub mode: String,
    /// The server's version, or empty.
    pub version: String,
    /// How the server stands.
    pub topology: String,
    /// The server's settings that decide about cost and durability.
    pub settings: BTreeMap<String, String>,
    /// What it promises.
    pub capabilities: BTreeMap<String, String>,
    /// How long a connection to the server takes to be accepted, in µs: one round trip of the network. None without a server.
    #[serde(default)]
    pub round_trip_us: Option<f64>,
    /// What one has to know to read its figures: of peers, how they wait and what they leave out.
    #[serde(default)]
    pub notes: Vec<String>,
}

impl Backend {
    pub(crate) fn of(target: &Target, capabilities: &Capabilities, settings: BTreeMap<String, String>) -> Self {
        Self {
            id: target.id.clone(),
            kind: target.kind.clone(),
            mode: target.mode.clone(),
            version: target.server.as_ref().map(|server| server.version().to_owned()).unwrap_or_default(),
            topology: target.topology.clone(),
            settings,
            capabilities: describe(capabilities),
            round_trip_us: None,
            notes: Vec::new(),
        }
    }

    /// Whether it is a lock of somebody else, measured beside ours: its id begins with `peer:` and its mode is `peer`.
    #[must_use]
    pub fn is_peer(&self) -> bool {
        self.id.starts_with("peer:")
    }
}

fn describe(capabilities: &Capabilities) -> BTreeMap<String, String> {
    let yes = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
    let queue = match capabilities.queue {
        Queueing::Fifo => "fifo",
        _ => "unordered",
    };
    let wake = match capabilities.wake {
        Waking::Pushed => "pushed",
        _ => "polled",
    };
    let liveness = match capabilities.liveness {
        LivenessKind::Lease => "lease",
        LivenessKind::Session => "session",
        _ => "process",
    };
    let fencing = match capabilities.fencing {
        Fencing::Durable => "durable",
        Fencing::Volatile => "volatile",
        _ => "none",
    };
    let entries = [
        ("queue", queue.to_owned()),
        ("wake", wake.to_owned()),
        ("liveness", liveness.to_owned()),
        ("fencing", fencing.to_owned()),
        ("expires_hung", yes(capabilities.expires_hung)),
        ("failover_safe", yes(capabilities.failover_safe)),
        ("restart_safe", yes(capabilities.restart_safe)),
        ("ttl_min", humantime::format_duration(capabilities.ttl.min).to_string()),
        ("slack", humantime::format_duration(capabilities.slack).to_string()),
        ("recheck", humantime::format_duration(capabilities.recheck).to_string()),
        ("kinds", capabilities.kinds.join(", ")),
        ("fixed_lease", yes(capabilities.fixed_lease)),
        ("inspect", yes(capabilities.inspect)),
    ];
    entries.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// A backend that was not compared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Skipped {
    /// Its id.
    pub id: String,
    /// Why.
    pub reason: String,
    /// What would help, such as the line that installs it; or empty.
    pub hint: String,
}

impl Skipped {
    /// A backend that was not compared.
    #[must_use]
    pub fn new(id: &str, reason: &str, hint: &str) -> Self {
        Self { id: id.to_owned(), reason: reason.to_owned(), hint: hint.to_owned() }
    }
}

/// The conformance suite on one backend.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Conformance {
    /// The backend's id.
    pub backend: String,
    /// How many checks passed.
    pub passed: u64,
    /// How many failed.
    pub failed: u64,
    /// How many were not applicable, each with its reason.
    pub ignored: u64,
    /// All checks.
    pub checks: Vec<Check>,
}

impl Conformance {
    /// The checks of a backend, counted.
    #[must_use]
    pub fn new(backend: &str, checks: Vec<Check>) -> Self {
        let count = |outcome: &str| checks.iter().filter(|check| check.outcome == outcome).count() as u64;
        let (passed, failed, ignored) = (count("passed"), count("failed"), count("ignored"));
        Self { backend: backend.to_owned(), passed, failed, ignored, checks }
    }
}

/// One check of the conformance suite.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Check {
    /// `clause::name`.
    pub name: String,
    /// `passed`, `failed` or `ignored`.
    pub outcome: String,
    /// Why, unless it passed.
    pub reason: Option<String>,
    /// How long it took.
    pub seconds: f64,
}

impl Check {
    /// A check that has run; `outcome` is `passed`, `failed` or `ignored`.
    #[must_use]
    pub fn new(name: &str, outcome: &str, reason: Option<String>, seconds: f64) -> Self {
        let seconds = crate::stats::round(seconds);
        Self { name: name.to_owned(), outcome: outcome.to_owned(), reason, seconds }
    }
}

/// One scenario with its parameters, on all backends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ScenarioResults {
    /// One of [`Scenario::IDS`](crate::Scenario::IDS).
    pub id: String,
    /// The parameters.
    pub parameters: Parameters,
    /// One for each backend.
    pub results: Vec<ScenarioResult>,
}

/// The parameters of a scenario.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Parameters {
    /// How many contend, or work side by side; of `hold_cost` and `connections`, how many names.
    pub contenders: u64,
    /// `own`: a client each; `one`: all of one client, of several processes one each.
    pub clients: String,
    /// `same`: one name again and again; `fresh`: a new one each time; `each`: one for each task.
    pub name: String,
    /// `idle`, or `awake`: kept from halting.
    pub machine: String,
    /// Over how many processes the contenders are spread.
    #[serde(default = "one_process")]
    pub processes: u64,
    /// `on`: the tasks of one client queue in their process; `off`: each of them asks the server.
    #[serde(default = "queue_on")]
    pub local_queue: String,
    /// What breaks: `killed`, `frozen`, `cut_off` (`takeover`), `restart` (`failover`).
    #[serde(default)]
    pub fault: Option<String>,
    /// How many cycles are due a second (`open_loop`).
    #[serde(default)]
    pub rate: Option<u64>,
}

impl Parameters {
    /// The parameters by name; those that few scenarios have only where they say something.
    pub(super) fn pairs(&self) -> Vec<(&'static str, String)> {
        let mut pairs = vec![
            ("contenders", self.contenders.to_string()),
            ("clients", self.clients.clone()),
            ("name", self.name.clone()),
            ("machine", self.machine.clone()),
        ];
        if self.processes != 1 {
            pairs.push(("processes", self.processes.to_string()));
        }
        if self.local_queue != "on" {
            pairs.push(("local_queue", self.local_queue.clone()));
        }
        pairs.extend(self.fault.clone().map(|fault| ("fault", fault)));
        pairs.extend(self.rate.map(|rate| ("rate", rate.to_string())));
        pairs
    }

    /// Whether a parameter has this value; one that says nothing has the value it has elsewhere.
    pub(super) fn is(&self, name: &str, value: &str) -> bool {
        match self.pairs().into_iter().find(|(known, _)| *known == name) {
            Some((_, own)) => own == value,
            None => matches!((name, value), ("processes", "1") | ("local_queue", "on")),
        }
    }
}

const fn one_process() -> u64 {
    1
}

fn queue_on() -> String {
    "on".to_owned()
}

/// One scenario on one backend. What was not measured, or makes no sense there, is null.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ScenarioResult {
    /// The backend's id.
    pub backend: String,
    /// How many trials stand behind the figures.
    pub trials: u64,
    /// Of a cycle (`uncontended`, `parallel`), a wait (`contended`), a hand-off, or from when a cycle was due to its end
    /// (`open_loop`): the median in µs.
    pub p50_us: Option<Estimate>,
    /// The 99th percentile in µs.
    pub p99_us: Option<Estimate>,
    /// The 90th percentile in µs, of `uncontended` and `handoff`: the median over the trials.
    pub p90_us: Option<f64>,
    /// The same of the 99.9th.
    pub p999_us: Option<f64>,
    /// Cycles, or of several contenders hand-overs, a second.
    pub per_second: Option<Estimate>,
    /// The bare driver.
    pub floor: Option<FloorFigures>,
    /// Ours over the floor: of p50 for `uncontended`, `handoff` and `open_loop`, of `per_second` for `parallel` and `contended`.
    pub floor_ratio: Option<Estimate>,
    /// The floor over itself: how far from 1 this goes is noise.
    pub aa_ratio: Option<Estimate>,
    /// Fairness: 1 when all had the same share.
    pub jain: Option<f64>,
    /// The longest wait of all trials, in ms.
    pub max_wait_ms: Option<f64>,
    /// How long it takes until every contender had its turn once, in ms: contenders over acquisitions a second.
    pub mean_round_ms: Option<f64>,
    /// Requests a second that the server executed, without what keeps sessions alive.
    pub server_commands_per_second: Option<f64>,
    /// Pings, keep-alives and heartbeats a second.
    pub housekeeping_per_second: Option<f64>,
    /// Processor time of the process for one cycle, in ns.
    pub cpu_ns: Option<Estimate>,
    /// The coefficient of variation of the headline figure over the trials.
    pub variation: Option<f64>,
    /// How often two held the name at once.
    pub overlaps: u64,
    /// Of `hold_cost`.
    pub hold_cost: Option<HoldCost>,
    /// Of `takeover`.
    pub takeover: Option<Takeover>,
    /// Of `failover`.
    pub failover: Option<Failover>,
    /// Of `connections`.
    pub connections: Option<Connections>,
    /// Other ways to lock the same server.
    pub beside: Vec<Beside>,
    /// Why figures are missing.
    pub missing: Option<String>,
}

/// The bare driver: medians over the trials.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FloorFigures {
    /// In µs.
    pub p50_us: f64,
    /// As ours.
    pub per_second: f64,
}

/// Another way to lock the same server, in the same trials.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Beside {
    /// What it is.
    pub what: String,
    /// In µs.
    pub p50_us: f64,
    /// Ours over it.
    pub ratio: Estimate,
}
