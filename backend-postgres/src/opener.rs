//! Opens lock sessions: their settings, and the proof that it is one server process that answers.

use std::sync::Arc;
use std::time::Duration;

use lockyard_api::{Clock, Error, ErrorKind, Moment, Result};
use sqlx::postgres::PgConnectOptions;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::config::PostgresConfig;
use crate::control::{Backend, Control, ServerFacts, column};
use crate::epoch::Epoch;
use crate::error;
use crate::schema::Schema;
use crate::session::{LockSession, Opened};
use crate::spares::Spares;
use crate::wire::Wire;

/// What a session is for; decides how long a statement may wait for a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Statements that never wait for a name.
    Try,
    /// One statement that waits for a name.
    Wait,
}

/// Opens the lock sessions of one client and counts them.
pub(crate) struct Opener {
    server: PgConnectOptions,
    control: Arc<Control>,
    permits: Arc<Semaphore>,
    pub(crate) spares: Arc<Spares>,
    facts: ServerFacts,
    epoch: Epoch,
    max_sessions: usize,
    wait_slice: Duration,
    open_timeout: Duration,
    op_timeout: Duration,
    clock: Clock,
}

const WHO: &str = "SELECT a.pid, (extract(epoch FROM a.backend_start) * 1000000)::int8, \
    (extract(epoch FROM current_setting('idle_session_timeout')::interval) * 1000)::int8, \
    (extract(epoch FROM current_setting('idle_in_transaction_session_timeout')::interval) * 1000)::int8 \
    FROM pg_stat_get_activity(pg_backend_pid()) a";

impl Opener {
    /// `most_spares`: how many sessions without a claim are kept for the next one.
    pub(crate) fn new(config: &PostgresConfig, control: Arc<Control>, facts: ServerFacts, most_spares: usize) -> Self {
        Self {
            server: config.server.clone(),
            control,
            permits: Arc::new(Semaphore::new(config.max_sessions)),
            spares: Spares::new(most_spares, config.options.clock.clone()),
            facts,
            epoch: Epoch::new(&Schema::from(config)),
            max_sessions: config.max_sessions,
            wait_slice: config.wait_slice,
            // It happens inside operations, which end in their own time.
            open_timeout: config.options.connect_timeout.min(config.options.op_timeout.max(Duration::from_secs(1))),
            op_timeout: config.options.op_timeout,
            clock: config.options.clock.clone(),
        }
    }

    /// Opens a session whose timeout is `class`, with `prepared` parsed ahead.
    pub(crate) async fn open(&self, class: Duration, purpose: Purpose, prepared: &[&str]) -> Result<Arc<LockSession>> {
        let permit = self.permit().await?;
        self.control.end_ghosts().await.map_err(Error::not_applied)?;
        // Boxed: large and seldom, and every acquire would carry it about.
        match timeout(self.open_timeout, Box::pin(self.open_now(class, purpose, prepared, permit))).await {
            Ok(opened) => opened.map_err(Error::not_applied),
            Err(_) => {
                let message = format!("opening a session: no answer within {:?}", self.open_timeout);
                Err(Error::new(ErrorKind::Unreachable, message).not_applied())
            }
        }
    }

    async fn permit(&self) -> Result<OwnedSemaphorePermit> {
        if let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() {
            return Ok(permit);
        }
        // A session that nobody uses keeps nobody out.
        let room = async { Arc::clone(&self.permits).acquire_owned().await.ok() };
        let permit = if self.spares.close_one() { timeout(self.open_timeout, room).await.ok().flatten() } else { None };
        permit.ok_or_else(|| error::too_many_sessions(self.max_sessions))
    }

    async fn open_now(
        &self,
        class: Duration,
        purpose: Purpose,
        prepared: &[&str],
        permit: OwnedSemaphorePermit,
    ) -> Result<Arc<LockSession>> {
        let failed = |failed| error::driver(failed, "opening a session");
        let server = self.server.clone().options(self.settings(class, purpose));
        let mut wire = Wire::open(&server, self.open_timeout, permit).await.map_err(failed)?;
        let backend = prove(&mut wire, class).await?;
        for statement in prepared {
            wire.prepare(statement).await.map_err(failed)?;
        }
        let valid_from: Moment = self.clock.now();
        let again = wire.raw(self.epoch.look()).await.map_err(failed)?.ok_or_else(no_tokens)?;
        if column::<i32>(&again, 0)? != backend.pid {
            return Err(pooler("its process number changes between two statements"));
        }
        self.epoch.ensure(&self.control, column(&again, 1)?).await?;
        let (clock, control) = (self.clock.clone(), Arc::clone(&self.control));
        Ok(LockSession::new(Opened { wire, backend, class, valid_from, clock, control }))
    }

    /// The settings of the start-up packet; they win over what role or database set
    /// (<https://www.postgresql.org/docs/current/runtime-config-client.html>).
    fn settings(&self, class: Duration, purpose: Purpose) -> Vec<(&'static str, String)> {
        let lock_timeout = match purpose {
            Purpose::Try => self.op_timeout,
            // Spread, so that waiters that queued together do not queue again together.
            Purpose::Wait => self.wait_slice.mul_f64(0.8 + 0.4 * fastrand::f64()),
        };
        let ttl = millis(class);
        let mut settings = vec![
            ("idle_session_timeout", ttl.clone()),
            ("idle_in_transaction_session_timeout", ttl.clone()),
            // Without it a client whose socket is full is never timed out: the server is busy sending to it.
            ("tcp_user_timeout", ttl),
            ("lock_timeout", millis(lock_timeout)),
            ("statement_timeout", "0".to_owned()),
            ("default_transaction_isolation", "read committed".to_owned()),
            ("default_transaction_read_only", "off".to_owned()),
            ("synchronous_commit", "on".to_owned()),
            // A client that is gone leaves the queue without its turn having come.
            ("client_connection_check_interval", "500".to_owned()),
            ("tcp_keepalives_idle", keepalive(class)),
            ("tcp_keepalives_interval", keepalive(class)),
            ("tcp_keepalives_count", "3".to_owned()),
        ];
        if self.facts.version >= 170_000 {
            settings.push(("transaction_timeout", "0".to_owned()));
        }
        settings
    }
}

/// The session is one process of the server, and took the settings.
async fn prove(wire: &mut Wire, class: Duration) -> Result<Backend> {
    // Nothing is prepared before it is clear that no pooler stands in between.
    let row = wire.raw(WHO.into()).await.map_err(|failed| error::driver(failed, "opening a session"))?;
    let row = row.ok_or_else(|| Error::new(ErrorKind::Protocol, "the server does not know its own session"))?;
    let backend = Backend { pid: column(&row, 0)?, started: column(&row, 1)? };
    let asked = i64::try_from(class.as_millis()).unwrap_or(i64::MAX);
    if column::<i64>(&row, 2)? != asked || column::<i64>(&row, 3)? != asked {
        return Err(pooler("it does not take the settings of the start-up packet"));
    }
    Ok(backend)
}

fn no_tokens() -> Error {
    Error::new(ErrorKind::Protocol, "the sequence of tokens is empty")
}

fn pooler(sign: &str) -> Error {
    let message = format!(
        "there is a pooler in front of the server ({sign}): locks bound to a session need a connection to the server itself; use lock=lease behind a pooler"
    );
    Error::new(ErrorKind::WrongServer, message)
}

fn millis(time: Duration) -> String {
    time.as_millis().to_string()
}

/// In whole seconds: three unanswered probes fit into the ttl where it has that many seconds.
fn keepalive(class: Duration) -> String {
    (class.as_secs() / 4).max(1).to_string()
}
