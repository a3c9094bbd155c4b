//! A few plain connections for statements that stand alone: nothing lives on them, and a broken one is replaced.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use lockyard_api::{Clock, Error, ErrorKind, Moment, Result};
use sqlx::postgres::{PgConnectOptions, PgRow};
use sqlx::{AssertSqlSafe, ConnectOptions, PgConnection};
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::timeout;

use crate::config::PostgresConfig;
use crate::epoch::Epoch;
use crate::error::{self, code};
use crate::schema::Schema;
use crate::sentence::Sentence;

/// Whether the connections lead to one server process each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Path {
    /// They do: statements can be prepared, and notifications arrive.
    Direct,
    /// A pooler stands in between: every statement may meet another process.
    Pooled,
}

/// The connections of one client.
pub(crate) struct Lines {
    server: PgConnectOptions,
    pub(crate) path: Path,
    slots: Vec<Slot>,
    next: AtomicUsize,
    epoch: Epoch,
    connect_timeout: Duration,
    op_timeout: Duration,
    clock: Clock,
}

struct Slot {
    connection: Arc<Mutex<Option<PgConnection>>>,
    connected: AtomicBool,
}

/// An answer, and when the request was sent that it answers.
pub(crate) struct Answer<R = PgRow> {
    pub(crate) row: R,
    pub(crate) sent: Moment,
}

/// What to do when the connection breaks before the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnBreak {
    /// The statement may run twice: send it again.
    Repeat,
    /// Its answer would differ the second time: say that the outcome is unknown.
    Tell,
}

/// What a session of a direct connection is told, and a pooler does not pass on.
const MARK: (&str, &str) = ("lockyard.direct", "yes");

impl Lines {
    pub(crate) async fn connect(config: &PostgresConfig) -> Result<Self> {
        let options = &config.options;
        let slot = || Slot { connection: Arc::default(), connected: AtomicBool::new(false) };
        let mut lines = Self {
            server: config.server.clone().options(settings(options.op_timeout)),
            path: Path::Direct,
            slots: (0..config.sessions).map(|_| slot()).collect(),
            next: AtomicUsize::new(0),
            epoch: Epoch::new(&Schema::from(config)),
            connect_timeout: options.connect_timeout,
            op_timeout: options.op_timeout,
            clock: options.clock.clone(),
        };
        if !lines.keeps_its_settings().await? {
            lines.path = Path::Pooled;
            lines.server = config.server.clone();
        }
        Ok(lines)
    }

    /// Whether a session has what its start-up packet said.
    async fn keeps_its_settings(&self) -> Result<bool> {
        let mut connection = match self.open().await {
            Ok(connection) => connection,
            // How PgBouncer refuses settings that it does not know.
            Err(error) if error.kind() == ErrorKind::WrongServer => return Ok(false),
            Err(error) => return Err(error),
        };
        let query = sqlx::raw_sql("SELECT coalesce(current_setting('lockyard.direct', true), '') = 'yes'");
        let row =
            query.fetch_one(&mut connection).await.map_err(|failed| error::driver(failed, "looking at the server"))?;
        crate::control::column(&row, 0)
    }

    /// Runs a statement that stands alone and answers with a row, within the operation timeout.
    pub(crate) async fn run(&self, sentence: &Sentence, on_break: OnBreak, doing: &str) -> Result<Answer> {
        let Answer { row, sent } = self.ask(sentence, on_break, doing).await?;
        let row = row.ok_or_else(|| Error::new(ErrorKind::Protocol, format!("{doing}: the server answered no row")))?;
        Ok(Answer { row, sent })
    }

    /// The same for a statement that may answer nothing.
    pub(crate) async fn ask(
        &self,
        sentence: &Sentence,
        on_break: OnBreak,
        doing: &str,
    ) -> Result<Answer<Option<PgRow>>> {
        let mut written = false;
        match timeout(self.op_timeout, self.attempts(sentence, on_break, doing, &mut written)).await {
            Ok(answer) => answer,
            Err(_) if written => Err(error::no_answer(doing)),
            Err(_) => Err(error::no_answer(doing).not_applied()),
        }
    }

    async fn attempts(
        &self,
        sentence: &Sentence,
        on_break: OnBreak,
        doing: &str,
        written: &mut bool,
    ) -> Result<Answer<Option<PgRow>>> {
        const MOST: u32 = 10;
        let mut attempt = 0;
        let mut fresh = false;
        // Whether a statement went without an answer: what a later one is told says nothing of it.
        let mut unsure = false;
        loop {
            attempt += 1;
            let failed = match self.attempt(sentence, fresh, written).await? {
                Ok(answer) => return Ok(answer),
                Err(failed) => failed,
            };
            let due = error::epoch_is_due(&failed);
            if due {
                self.begin_epoch().await.map_err(|error| if unsure { error } else { error.not_applied() })?;
            }
            let conflict = due || matches!(code(&failed), Some(code::SERIALIZATION | code::DEADLOCK));
            let again = conflict || (on_break == OnBreak::Repeat && !error::session_survives(&failed) && attempt < 3);
            if !again || attempt >= MOST {
                let refused = error::session_survives(&failed);
                let error = error::driver(failed, doing);
                // A statement that the server answered with an error was rolled back.
                return Err(if refused && !unsure { error.not_applied() } else { error });
            }
            fresh = !conflict;
            unsure |= fresh;
            if conflict {
                self.clock.sleep(Duration::from_millis(5).mul_f64(f64::from(attempt) * fastrand::f64())).await;
            }
        }
    }

    /// Seldom: once after a crash of the server.
    async fn begin_epoch(&self) -> Result<()> {
        let mut connection = Box::pin(self.open()).await?;
        let begun = sqlx::raw_sql(AssertSqlSafe(self.epoch.begin())).execute(&mut connection).await;
        begun.map(drop).map_err(|failed| error::driver(failed, "beginning an epoch of tokens"))
    }

    async fn attempt(
        &self,
        sentence: &Sentence,
        fresh: bool,
        written: &mut bool,
    ) -> Result<Result<Answer<Option<PgRow>>, sqlx::Error>> {
        let (slot, mut guard) = self.choose().await;
        // Taken out, so that a statement dropped half-way takes its connection along.
        let known = guard.take().filter(|_| !fresh);
        slot.connected.store(false, Ordering::Relaxed);
        let mut connection = match known {
            Some(connection) => connection,
            None => Box::pin(self.open()).await.map_err(|error| if *written { error } else { error.not_applied() })?,
        };
        let sent = self.clock.now();
        *written = true;
        let answer = sentence.fetch(self.path, &mut connection).await;
        if answer.as_ref().map_or_else(error::session_survives, |_| true) {
            *guard = Some(connection);
            slot.connected.store(true, Ordering::Relaxed);
        }
        Ok(answer.map(|row| Answer { row, sent }))
    }

    /// A free connection that is open, else a free place for one, else a turn on one.
    async fn choose(&self) -> (&Slot, OwnedMutexGuard<Option<PgConnection>>) {
        for connected in [true, false] {
            for slot in &self.slots {
                if slot.connected.load(Ordering::Relaxed) == connected
                    && let Ok(guard) = Arc::clone(&slot.connection).try_lock_owned()
                {
                    return (slot, guard);
                }
            }
        }
        let at = self.next.fetch_add(1, Ordering::Relaxed) % self.slots.len();
        let slot = &self.slots[at];
        (slot, Arc::clone(&slot.connection).lock_owned().await)
    }

    async fn open(&self) -> Result<PgConnection> {
        match timeout(self.connect_timeout, self.server.connect()).await {
            Ok(opened) => opened.map_err(|failed| error::driver(failed, "connecting")),
            Err(_) => {
                let message = format!("connecting: no answer within {:?}", self.connect_timeout);
                Err(Error::new(ErrorKind::Unreachable, message))
            }
        }
    }
}

fn settings(op_timeout: Duration) -> Vec<(&'static str, String)> {
    vec![
        (MARK.0, MARK.1.to_owned()),
        ("default_transaction_isolation", "read committed".to_owned()),
        ("default_transaction_read_only", "off".to_owned()),
        ("synchronous_commit", "on".to_owned()),
        ("statement_timeout", "0".to_owned()),
        ("idle_session_timeout", "0".to_owned()),
        ("lock_timeout", op_timeout.as_millis().to_string()),
    ]
}

impl std::fmt::Debug for Lines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lines").field("path", &self.path).finish_non_exhaustive()
    }
}
