//! The client's way to its server: one connection, opened again when it breaks.
//!
//! Locks on Redis are leases and belong to no connection, so a new one changes nothing about them; only waiters have to ask
//! again, since the wake-ups of the old one are lost.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockyard_api::{ErrorKind, Moment};
use redis::{Client, Cmd, ToRedisArgs, Value};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::RedisConfig;
use crate::connect::{self, Connection};
use crate::error::{self, Failure};
use crate::keys::LockKeys;
use crate::scripts::{Known, Of};
use crate::waiters::Waiters;

/// The first and the longest pause before a connection is tried again; it doubles in between.
const PAUSE: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(500));
/// A connection that lived shorter counts as a failed attempt.
const SHORT_LIFE: Duration = Duration::from_secs(1);

/// An open connection, or the work on one.
#[derive(Debug)]
pub(crate) struct Session {
    config: RedisConfig,
    client: Client,
    waiters: Arc<Waiters>,
    address: String,
    next: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    /// How many attempts have failed one after the other.
    Down(u32),
    Opening(watch::Receiver<Opened>),
    Up {
        connection: Arc<Connection>,
        since: Moment,
        failures: u32,
    },
}

type Opened = Option<Result<Arc<Connection>, Failure>>;

/// A server's answer, and the clock just before the request was sent that it answers.
pub(crate) struct Answer {
    pub(crate) value: Value,
    pub(crate) sent: Moment,
}

impl Session {
    /// Nothing is opened yet.
    pub(crate) fn new(config: RedisConfig, client: Client, waiters: Arc<Waiters>) -> Arc<Self> {
        let address = config.address();
        let state = Mutex::new(State::Down(0));
        Arc::new(Self { config, client, waiters, address, next: AtomicU64::new(1), state })
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// The clock that moments of this client are read from.
    pub(crate) fn now(&self) -> Moment {
        self.config.clock.now()
    }

    /// Opens the first connection: one attempt, whose failure is told as it is.
    pub(crate) async fn start(self: &Arc<Self>) -> Result<Arc<Connection>, Failure> {
        let opening = self.opening();
        self.wait_for(opening, self.config.connect_timeout).await
    }

    /// The open connection, or a new one: tried until `since` is one op_timeout ago.
    ///
    /// # Errors
    /// Nothing was sent.
    pub(crate) async fn connection(self: &Arc<Self>, since: Moment) -> Result<Arc<Connection>, Failure> {
        if let Some(connection) = self.up() {
            return Ok(connection);
        }
        loop {
            let opened = self.wait_for(self.opening(), self.left(since)).await;
            match opened {
                Err(failure) if failure.kind == ErrorKind::Unreachable && !self.left(since).is_zero() => {}
                _ => return opened,
            }
        }
    }

    /// Runs a script, by its digest or, where the server does not know it, by its text.
    ///
    /// # Errors
    /// As the server or the network has it; an error that the server answered is in the value.
    pub(crate) async fn run<A: ToRedisArgs + Sync>(
        &self,
        connection: &Connection,
        since: Moment,
        script: &Known,
        keys: &LockKeys,
        args: &[A],
    ) -> Result<Answer, Failure> {
        let mut sent = self.now();
        let mut value = self.send(connection, since, &command("EVALSHA", script.digest(), script, keys, args)).await?;
        if matches!(&value, Value::ServerError(error) if error::is_no_script(error)) {
            sent = self.now();
            value = self.send(connection, since, &command("EVAL", script.text, script, keys, args)).await?;
        }
        if matches!(&value, Value::ServerError(error) if error.code() == "READONLY") {
            // The primary that was connected to is a replica now; its address may lead to the new one.
            self.broken(connection);
        }
        Ok(Answer { value, sent })
    }

    /// Makes sure that wake-ups arrive: the server has confirmed the subscription when this answers.
    pub(crate) async fn subscribe(&self, connection: &Connection, since: Moment, channel: &str) -> Result<(), Failure> {
        if connection.subscribed.load(Ordering::SeqCst) {
            return Ok(());
        }
        let mut wire = connection.wire.clone();
        wire.set_response_timeout(self.left(since));
        match wire.subscribe(channel).await {
            Ok(()) => {
                connection.subscribed.store(true, Ordering::SeqCst);
                Ok(())
            }
            Err(refused) if matches!(refused.kind(), redis::ErrorKind::Server(_) | redis::ErrorKind::Extension) => {
                let message = format!(
                    "{} does not let this user listen to {channel:?}: allow it by ACL SETUSER … &{}*",
                    self.address,
                    crate::scripts::CHANNEL_PREFIX
                );
                Err(Failure::refused(ErrorKind::Auth, message).with_source(refused))
            }
            Err(silence) => {
                self.broken(connection);
                // What was sent is no request for a lock.
                let message = format!("the connection to {} broke", self.address);
                Err(Failure::refused(ErrorKind::Unreachable, message).with_source(silence))
            }
        }
    }

    /// Sends a command and waits for its answer, for what is left of the time since then.
    ///
    /// # Errors
    /// As [`Session::run`].
    pub(crate) async fn send(&self, connection: &Connection, since: Moment, command: &Cmd) -> Result<Value, Failure> {
        let mut wire = connection.wire.clone();
        let left = self.left(since);
        if left < self.config.op_timeout {
            wire.set_response_timeout(left);
        }
        wire.send_packed_command(command).await.map_err(|silence| {
            self.broken(connection);
            error::unanswered(silence, &self.address)
        })
    }

    /// What is left of the time for one call.
    fn left(&self, since: Moment) -> Duration {
        self.config.op_timeout.saturating_sub(self.now().since(since))
    }

    fn up(&self) -> Option<Arc<Connection>> {
        match &*self.lock() {
            State::Up { connection, .. } if !connection.broken.load(Ordering::SeqCst) => Some(Arc::clone(connection)),
            _ => None,
        }
    }

    /// The connection does not answer, or has ended: the next call opens another. Calls that wait for its answers go on.
    fn broken(&self, connection: &Connection) {
        connection.broken.store(true, Ordering::SeqCst);
        self.waiters.disconnected(connection.id);
    }

    /// The attempt that is under way, or a new one on a task of its own: a caller that is not polled keeps nobody waiting.
    fn opening(self: &Arc<Self>) -> watch::Receiver<Opened> {
        let mut state = self.lock();
        let failures = match &*state {
            // An attempt whose task is gone without a result went with its runtime.
            State::Opening(opening) if opening.has_changed().is_ok() => return opening.clone(),
            State::Opening(_) => 0,
            State::Up { connection, .. } if !connection.broken.load(Ordering::SeqCst) => {
                return watch::channel(Some(Ok(Arc::clone(connection)))).1;
            }
            State::Up { since, failures, .. } if self.now().since(*since) < SHORT_LIFE => failures + 1,
            State::Up { .. } => 0,
            State::Down(failures) => *failures,
        };
        let (result, opening) = watch::channel(None);
        *state = State::Opening(opening.clone());
        drop(state);
        // Without a runtime the result is dropped here, which is how the attempt is told to have ended.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(Arc::clone(self).open(failures, result));
        }
        opening
    }

    /// One attempt, after a pause when others failed before. It ends within the connect timeout and that pause.
    async fn open(self: Arc<Self>, failures: u32, result: watch::Sender<Opened>) {
        if failures > 0 {
            self.config.clock.sleep(pause(failures)).await;
        }
        if result.receiver_count() <= 1 {
            // Only the state itself is left to hear of it: the client may be gone.
            *self.lock() = State::Down(failures);
            return;
        }
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let opened = timeout(self.config.connect_timeout, connect::open(&self.client, &self.config, id, &self.waiters))
            .await
            .unwrap_or_else(|_| {
                let message =
                    format!("cannot connect to {}: no answer in {:?}", self.address, self.config.connect_timeout);
                Err(Failure::refused(ErrorKind::Unreachable, message))
            })
            .map(Arc::new);
        match &opened {
            Ok(connection) => {
                self.waiters.connected(id);
                let connection = Arc::clone(connection);
                *self.lock() = State::Up { connection, since: self.now(), failures };
            }
            Err(_) => *self.lock() = State::Down(failures.saturating_add(1)),
        }
        result.send_replace(Some(opened));
    }

    async fn wait_for(
        &self,
        mut opening: watch::Receiver<Opened>,
        limit: Duration,
    ) -> Result<Arc<Connection>, Failure> {
        let unreachable = |why: &str| {
            let message = format!("cannot connect to {}: {why}", self.address);
            Err(Failure::refused(ErrorKind::Unreachable, message))
        };
        match timeout(limit, opening.wait_for(Option::is_some)).await {
            Err(_) => unreachable("no answer in time"),
            Ok(Err(_)) => unreachable("the attempt ended with its runtime"),
            Ok(Ok(opened)) => opened.clone().unwrap_or_else(|| unreachable("no result")),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The pause before attempt `failures` + 1: doubled each time, and drawn from its upper half.
fn pause(failures: u32) -> Duration {
    let longest = PAUSE.0.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(PAUSE.1);
    longest.mul_f64(fastrand::f64().mul_add(0.5, 0.5))
}

fn command<A: ToRedisArgs>(verb: &str, text: &str, script: &Known, keys: &LockKeys, args: &[A]) -> Cmd {
    let mut command = Cmd::with_capacity(8 + args.len(), 512 + text.len());
    command.arg(verb).arg(text);
    match script.keys {
        Of::All => {
            command.arg("4");
            keys.for_each(|key| {
                command.arg(key);
            });
        }
        Of::Lock => {
            command.arg("1").arg(keys.lock());
        }
        Of::Register => {
            command.arg("1").arg(keys.register());
        }
    }
    for arg in args {
        command.arg(arg);
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_end() {
        for failures in 1..100 {
            let pause = pause(failures);
            assert!(pause >= PAUSE.0 / 2 && pause <= PAUSE.1, "{failures}: {pause:?}");
        }
        assert!(pause(50) >= PAUSE.1 / 2);
    }
}
