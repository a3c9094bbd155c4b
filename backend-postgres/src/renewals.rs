//! Renewals that are asked for at about the same time go to the server together, in one statement.
//!
//! None waits for company: one that is asked for alone goes at once, and what is asked for while a statement is under way goes in
//! the next. A task of the runtime sends them, so that none depends on who asked for another one going on to listen. The
//! statement waits for no row: what somebody else has locked at the moment is asked for alone.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockyard_api::{Error, ErrorKind, LockName, Moment, Outcome, Owner, Result};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::time::timeout;

use crate::config::PostgresConfig;
use crate::control::column;
use crate::error;
use crate::lines::{Answer, Lines, OnBreak};
use crate::schema::Schema;
use crate::sentence::{Sentence, Value};

/// How many go in one statement: so long may others wait for one of its rows.
const MOST: usize = 500;
/// How long what is asked for waits for the statement under way. A connection that is silent then holds up its own alone.
const PATIENCE: Duration = Duration::from_millis(50);
const DOING: &str = "renewing a lease";

/// Answers for each: 1 renewed, 0 not held, 2 held but locked by somebody else. The clock is read after the row is locked.
const TOGETHER: &str = "WITH asked AS (SELECT a.name, a.owner, a.ttl, a.at \
        FROM unnest($2::text[], $3::text[], $4::int8[]) WITH ORDINALITY AS a (name, owner, ttl, at)), \
    locked AS (SELECT a.name, a.ttl, a.at FROM asked a JOIN {schema}.lease l ON l.namespace = $1 AND l.name = a.name \
        AND l.owner = a.owner AND l.expires_at > clock_timestamp() FOR NO KEY UPDATE OF l SKIP LOCKED), \
    renewed AS (UPDATE {schema}.lease l SET expires_at = clock_timestamp() + k.ttl * interval '1 millisecond' \
        FROM locked k WHERE l.namespace = $1 AND l.name = k.name AND l.expires_at > clock_timestamp() RETURNING k.at) \
    SELECT array_agg(CASE WHEN r.at IS NOT NULL THEN 1 WHEN EXISTS (SELECT FROM {schema}.lease l \
        WHERE l.namespace = $1 AND l.name = a.name AND l.owner = a.owner AND l.expires_at > clock_timestamp()) \
        THEN 2 ELSE 0 END ORDER BY a.at) FROM asked a LEFT JOIN renewed r ON r.at = a.at";
const ALONE: &str = "WITH renewed AS (UPDATE {schema}.lease SET expires_at = clock_timestamp() + $4 * interval '1 millisecond' \
    WHERE namespace = $1 AND name = $2 AND owner = $3 AND expires_at > clock_timestamp() RETURNING 1) \
    SELECT EXISTS (SELECT FROM renewed)";

/// The renewals of one client.
pub(crate) struct Renewals {
    inner: Arc<Inner>,
    /// Goes with the client, and ends what is under way.
    open: watch::Sender<()>,
}

struct Inner {
    lines: Arc<Lines>,
    namespace: Arc<str>,
    together: Arc<str>,
    alone: Arc<str>,
    /// Who waits for locked rows leaves connections to the others.
    may_wait: Semaphore,
    op_timeout: Duration,
    runtime: Handle,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    asked: VecDeque<Asked>,
    /// Whether there is a [`Turn`].
    is_taken: bool,
}

struct Asked {
    name: String,
    owner: String,
    ttl: i64,
    answer: oneshot::Sender<Result<Told>>,
}

enum Told {
    /// By a statement that was sent at this time.
    Renewed(Moment),
    Lost,
    AskAlone,
}

impl Renewals {
    pub(crate) fn new(config: &PostgresConfig, lines: Arc<Lines>) -> Self {
        let schema = Schema::from(config);
        let inner = Inner {
            lines,
            namespace: config.options.namespace.as_str().into(),
            together: schema.fill(TOGETHER).into(),
            alone: schema.fill(ALONE).into(),
            may_wait: Semaphore::new((config.sessions / 2).max(1)),
            op_timeout: config.options.op_timeout,
            runtime: Handle::current(),
            state: Mutex::default(),
        };
        Self { inner: Arc::new(inner), open: watch::Sender::new(()) }
    }

    /// Renews a lease by `ttl` milliseconds; when the statement was sent that did it, or `None` when the owner does not hold the
    /// name.
    ///
    /// # Cancel safety
    /// Dropped, the lease may be renewed all the same.
    pub(crate) async fn renew(&self, name: &LockName, owner: Owner, ttl: i64) -> Result<Option<Moment>> {
        let (name, owner) = (name.as_str().to_owned(), owner.to_string());
        let renewing = async {
            // Without an answer when the task that had it is dropped.
            let gone = || Error::new(ErrorKind::Shutdown, "the runtime is shutting down");
            match self.ask(name.clone(), owner.clone(), ttl).await.map_err(|_| gone())?? {
                Told::Renewed(sent) => Ok(Some(sent)),
                Told::Lost => Ok(None),
                Told::AskAlone => self.inner.ask_alone(&name, &owner, ttl).await,
            }
        };
        timeout(self.inner.op_timeout, renewing).await.map_err(|_| error::no_answer(DOING))?
    }

    fn ask(&self, name: String, owner: String, ttl: i64) -> oneshot::Receiver<Result<Told>> {
        let (answer, told) = oneshot::channel();
        let was_taken = {
            let mut state = self.inner.state();
            state.asked.push_back(Asked { name, owner, ttl, answer });
            std::mem::replace(&mut state.is_taken, true)
        };
        if !was_taken {
            Turn { inner: Arc::clone(&self.inner), client: self.open.subscribe(), done: false }.begin();
        }
        told
    }
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn send(&self, batch: Vec<Asked>) {
        let column_of = |of: fn(&Asked) -> &String| Value::Texts(batch.iter().map(of).cloned().collect());
        let ttls = Value::Bigs(batch.iter().map(|asked| asked.ttl).collect());
        let namespace = Value::Text(Arc::clone(&self.namespace));
        let values = vec![namespace, column_of(|asked| &asked.name), column_of(|asked| &asked.owner), ttls];
        let sentence = Sentence { sql: Arc::clone(&self.together), values };
        let ran = self.lines.run(&sentence, OnBreak::Repeat, DOING).await;
        tell(batch, ran.and_then(|Answer { row, sent }| Ok((column(&row, 0)?, sent))));
    }

    /// Waits for the row, should somebody have locked it.
    async fn ask_alone(&self, name: &str, owner: &str, ttl: i64) -> Result<Option<Moment>> {
        // It is never closed.
        let _permit = self.may_wait.acquire().await.ok();
        let namespace = Value::Text(Arc::clone(&self.namespace));
        let values = vec![namespace, Value::Text(name.into()), Value::Text(owner.into()), Value::Big(ttl)];
        let sentence = Sentence { sql: Arc::clone(&self.alone), values };
        let Answer { row, sent } = self.lines.run(&sentence, OnBreak::Repeat, DOING).await?;
        Ok(column::<bool>(&row, 0)?.then_some(sent))
    }
}

/// Tells each of them what the server answered. Who has gone is not told.
fn tell(batch: Vec<Asked>, answer: Result<(Vec<i32>, Moment)>) {
    let number = batch.len();
    let answer = answer.and_then(|(codes, sent)| {
        let fits = codes.len() == number;
        fits.then_some((codes, sent))
            .ok_or_else(|| Error::new(ErrorKind::Protocol, format!("{DOING}: answers are missing")))
    });
    match answer {
        Ok((codes, sent)) => {
            for (asked, code) in batch.into_iter().zip(codes) {
                let told = match code {
                    1 => Told::Renewed(sent),
                    0 => Told::Lost,
                    _ => Told::AskAlone,
                };
                let _gone = asked.answer.send(Ok(told));
            }
        }
        // What the server refuses may be the fault of one.
        Err(error) if number > 1 && error.kind() == ErrorKind::Protocol && error.outcome() == Outcome::NotApplied => {
            for asked in batch {
                let _gone = asked.answer.send(Ok(Told::AskAlone));
            }
        }
        Err(error) => {
            let error = Arc::new(error);
            for asked in batch {
                let each = Error::new(error.kind(), error.message()).with_source(Arc::clone(&error));
                let certain = error.outcome() == Outcome::NotApplied;
                let _gone = asked.answer.send(Err(if certain { each.not_applied() } else { each }));
            }
        }
    }
}

/// The right to send the next statement. Only one has it.
struct Turn {
    inner: Arc<Inner>,
    client: watch::Receiver<()>,
    /// Whether nobody has it any more, or somebody else.
    done: bool,
}

impl Turn {
    /// Uses it, on a task that ends when there is nothing left to send, or with the client.
    fn begin(self) {
        let (runtime, mut client) = (self.inner.runtime.clone(), self.client.clone());
        runtime.spawn(async move {
            tokio::select! {
                biased;
                // Never sent to: it ends when the client goes. What is dropped then takes its connection along.
                _ = client.changed() => {}
                () = send_all(self) => {}
            }
        });
    }

    /// What goes in the next statement. `None`: nothing is asked for, and the turn is over.
    fn next(&mut self) -> Option<Vec<Asked>> {
        let mut state = self.inner.state();
        let asked = std::iter::from_fn(|| state.asked.pop_front());
        let batch: Vec<Asked> = asked.filter(|asked| !asked.answer.is_closed()).take(MOST).collect();
        if batch.is_empty() {
            (state.is_taken, self.done) = (false, true);
            return None;
        }
        Some(batch)
    }

    fn pass_on(mut self) {
        self.done = true;
        Self { inner: Arc::clone(&self.inner), client: self.client.clone(), done: false }.begin();
    }
}

impl Drop for Turn {
    /// Its task was dropped: who has asked would wait for nothing.
    fn drop(&mut self) {
        if !self.done {
            let State { asked, .. } = std::mem::take(&mut *self.inner.state());
            drop(asked);
        }
    }
}

async fn send_all(mut turn: Turn) {
    let inner = Arc::clone(&turn.inner);
    while let Some(batch) = turn.next() {
        let mut sending = pin!(inner.send(batch));
        if timeout(PATIENCE, &mut sending).await.is_err() {
            turn.pass_on();
            return sending.await;
        }
    }
}
