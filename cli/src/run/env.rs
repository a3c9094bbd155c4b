//! What the command is told in its environment.

use std::time::{Duration, SystemTime};

use lockyard::{Guard, Namespace};
use tokio::process::Command;

/// Where the backend's URL stands: not the command's business.
const SECRETS: [&str; 3] = ["LOCKYARD_URL", "LOCKYARD_URL_FILE", "LOCKYARD_CONFIG"];

/// What is known of a hold.
#[derive(Debug, Clone)]
pub(super) struct Facts {
    pub(super) name: String,
    pub(super) key: String,
    pub(super) backend: &'static str,
    pub(super) token: Option<String>,
    pub(super) holder: String,
    pub(super) run_id: String,
    pub(super) ttl: Option<Duration>,
    pub(super) acquired_at: String,
    /// The time of the slot that was claimed.
    pub(super) scheduled_at: Option<String>,
}

impl Facts {
    pub(super) fn of(guard: &Guard, backend: &'static str, namespace: &Namespace, holder: &str) -> Self {
        let name = guard.name().to_string();
        let key = if namespace.is_empty() { name.clone() } else { format!("{namespace}:{name}") };
        Self {
            name,
            key,
            backend,
            token: guard.fencing_token().map(|token| token.to_string()),
            holder: holder.to_owned(),
            run_id: guard.claim().owner.to_string(),
            ttl: guard.ttl(),
            scheduled_at: None,
            acquired_at: humantime::format_rfc3339_millis(wall_clock()).to_string(),
        }
    }

    /// Sets the variables. Those of a `lockyard run` around this one never shine through.
    pub(super) fn put_into(&self, command: &mut Command, pass_backend: bool) {
        let ttl = self.ttl.map(|ttl| ttl.as_millis().to_string());
        let variables = [
            ("LOCKYARD_NAME", Some(self.name.as_str())),
            ("LOCKYARD_KEY", Some(&self.key)),
            ("LOCKYARD_BACKEND_KIND", Some(self.backend)),
            ("LOCKYARD_FENCING_TOKEN", self.token.as_deref()),
            ("LOCKYARD_HOLDER", Some(&self.holder)),
            ("LOCKYARD_RUN_ID", Some(&self.run_id)),
            ("LOCKYARD_TTL_MS", ttl.as_deref()),
            ("LOCKYARD_ACQUIRED_AT", Some(&self.acquired_at)),
            ("LOCKYARD_SCHEDULED_AT", self.scheduled_at.as_deref()),
        ];
        for (variable, value) in variables {
            match value {
                Some(value) => command.env(variable, value),
                None => command.env_remove(variable),
            };
        }
        if !pass_backend {
            for secret in SECRETS {
                command.env_remove(secret);
            }
        }
    }
}

/// Who we are, for people who inspect the lock: host and process.
pub(super) fn holder() -> String {
    format!("{}:{}", super::jitter::host(), std::process::id())
}

#[expect(clippy::disallowed_methods, reason = "a time of day for people; nothing is decided by it")]
fn wall_clock() -> SystemTime {
    SystemTime::now()
}
