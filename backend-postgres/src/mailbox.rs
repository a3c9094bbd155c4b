//! Where the grants of lease mode arrive: one listening connection for all waiters of a client.

use std::collections::HashMap;
use std::sync::{Arc, Mutex as SyncMutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockyard_api::{Clock, Error, FencingToken, Moment, Owner, Result};
use sqlx::pool::PoolOptions;
use sqlx::postgres::{PgConnectOptions, PgListener};
use sqlx::{Executor, Postgres};
use tokio::runtime::Handle;
use tokio::sync::{Mutex, Notify};
use tokio::time::timeout;

use crate::config::PostgresConfig;
use crate::control::{Backend, column};
use crate::error;

/// What is known of a waiter.
#[derive(Debug, Clone)]
pub(crate) enum Post {
    /// The server knows the waiter; when nothing arrives it asks again at this moment.
    Waiting { ask_again: Moment },
    /// The name was handed over, with this token.
    Granted(FencingToken),
    /// What was sent may be lost: ask again at once.
    Disturbed,
}

#[derive(Debug)]
struct Slot {
    post: Post,
    /// When the last request was sent whose answer was that the waiter does not hold the name yet.
    sent: Moment,
    /// Whose hold that answer told of. What arrives later of a smaller token was on its way for longer than its lease.
    others: Option<FencingToken>,
    arrived: Arc<Notify>,
}

type Slots = Arc<SyncMutex<HashMap<Owner, Slot>>>;

/// The mailbox of one client.
#[derive(Debug)]
pub(crate) struct Mailbox {
    server: PgConnectOptions,
    channel: Arc<str>,
    slots: Slots,
    listening: Mutex<Option<Listening>>,
    closing: Arc<Notify>,
    connect_timeout: Duration,
    op_timeout: Duration,
    clock: Clock,
    runtime: Handle,
}

#[derive(Debug, Clone)]
struct Listening {
    backend: Backend,
    alive: Arc<()>,
}

const WHO: &str = "SELECT a.pid, (extract(epoch FROM a.backend_start) * 1000000)::int8 \
    FROM pg_stat_get_activity(pg_backend_pid()) a";

impl Mailbox {
    pub(crate) fn new(config: &PostgresConfig) -> Self {
        let settings = [("idle_session_timeout", "0"), ("statement_timeout", "0")];
        Self {
            server: config.server.clone().options(settings),
            channel: format!("lockyard_{:016x}", fastrand::u64(..)).into(),
            slots: Slots::default(),
            listening: Mutex::new(None),
            closing: Arc::new(Notify::new()),
            connect_timeout: config.options.connect_timeout,
            op_timeout: config.options.op_timeout,
            clock: config.options.clock.clone(),
            runtime: Handle::current(),
        }
    }

    pub(crate) fn channel(&self) -> &Arc<str> {
        &self.channel
    }

    /// Makes sure that what is sent to the channel from now on arrives; answers which process listens.
    pub(crate) async fn listen(&self) -> Result<Backend> {
        let mut listening = self.listening.lock().await;
        // The task that listens holds the other one.
        if let Some(live) = listening.as_ref().filter(|listening| Arc::strong_count(&listening.alive) > 1) {
            return Ok(live.backend);
        }
        let opened = timeout(self.connect_timeout, Box::pin(self.open())).await;
        let (listener, backend) = opened.map_err(|_| error::no_answer("listening"))??;
        let alive = Arc::new(());
        *listening = Some(Listening { backend, alive: Arc::clone(&alive) });
        let (slots, closing, clock) = (Arc::clone(&self.slots), Arc::clone(&self.closing), self.clock.clone());
        let ping = Ping { every: Duration::from_secs(15), limit: self.op_timeout };
        self.runtime.spawn(async move {
            receive(listener, &slots, &closing, &clock, ping).await;
            drop(alive);
            disturb(&slots);
        });
        Ok(backend)
    }

    async fn open(&self) -> Result<(PgListener, Backend)> {
        let failed = |failed| error::driver(failed, "listening");
        let pool = PoolOptions::<Postgres>::new()
            .max_connections(1)
            .max_lifetime(None)
            .idle_timeout(None)
            .test_before_acquire(false)
            .acquire_timeout(self.connect_timeout)
            .connect_lazy_with(self.server.clone());
        let mut listener = PgListener::connect_with(&pool).await.map_err(failed)?;
        listener.ignore_pool_close_event(true);
        listener.eager_reconnect(false);
        listener.listen(&self.channel).await.map_err(failed)?;
        let row = listener.fetch_one(sqlx::query(WHO)).await.map_err(failed)?;
        Ok((listener, Backend { pid: column(&row, 0)?, started: column(&row, 1)? }))
    }

    fn slots(&self) -> MutexGuard<'_, HashMap<Owner, Slot>> {
        lock(&self.slots)
    }

    /// Expects post for `owner`, before the request is sent that lets the server know of it.
    pub(crate) fn expect(&self, owner: Owner, now: Moment) {
        let slot = || Slot { post: Post::Disturbed, sent: now, others: None, arrived: Arc::new(Notify::new()) };
        self.slots().entry(owner).or_insert_with(slot);
    }

    pub(crate) fn expects(&self, owner: Owner) -> bool {
        self.slots().contains_key(&owner)
    }

    /// The answer to the request of `sent` was that the owner waits while somebody holds the name with the token `others`. A
    /// grant of later that was faster than the answer stays.
    pub(crate) fn waits(&self, owner: Owner, sent: Moment, others: Option<FencingToken>, ask_again: Moment) {
        if let Some(slot) = self.slots().get_mut(&owner) {
            slot.others = slot.others.max(others);
            if !matches!(slot.post, Post::Granted(token) if Some(token) > slot.others) {
                slot.sent = sent;
                slot.post = Post::Waiting { ask_again };
            }
        }
    }

    /// Nothing more is expected for `owner`.
    pub(crate) fn forget(&self, owner: Owner) {
        self.slots().remove(&owner);
    }

    /// A grant that has arrived, and from when it counts.
    pub(crate) fn granted(&self, owner: Owner) -> Option<(FencingToken, Moment)> {
        match self.slots().get(&owner) {
            Some(Slot { post: Post::Granted(token), sent, .. }) => Some((*token, *sent)),
            _ => None,
        }
    }

    /// Ends when there is a grant (`true`) or it is time to ask again.
    ///
    /// # Cancel safety
    /// May be dropped at any time; what has arrived stays.
    pub(crate) async fn wait(&self, owner: Owner) -> bool {
        loop {
            let (post, arrived) = match self.slots().get(&owner) {
                Some(slot) => (slot.post.clone(), Arc::clone(&slot.arrived)),
                None => return false,
            };
            let ask_again = match post {
                Post::Granted(_) => return true,
                Post::Disturbed => return false,
                Post::Waiting { ask_again } => ask_again,
            };
            tokio::select! {
                biased;
                // A permit is stored: what arrives between the look and here is not lost.
                () = arrived.notified() => {}
                () = self.clock.sleep_until(ask_again) => return false,
            }
        }
    }
}

impl Drop for Mailbox {
    fn drop(&mut self) {
        self.closing.notify_one();
    }
}

struct Ping {
    every: Duration,
    limit: Duration,
}

/// Passes on what arrives until the connection ends or the client goes.
async fn receive(mut listener: PgListener, slots: &Slots, closing: &Notify, clock: &Clock, ping: Ping) {
    loop {
        tokio::select! {
            biased;
            () = closing.notified() => return,
            received = listener.try_recv() => match received {
                Ok(Some(notification)) => deliver(slots, notification.payload()),
                // The next statement on this listener would go to a new session that listens to nothing yet.
                Ok(None) | Err(_) => return,
            },
            // A connection that died silently would cost every hand-over a re-check.
            () = clock.sleep(ping.every) => {
                let answer = timeout(ping.limit, listener.execute("SELECT 1")).await;
                if !matches!(answer, Ok(Ok(_))) {
                    return;
                }
            }
        }
    }
}

fn deliver(slots: &Slots, payload: &str) {
    let Some((owner, number)) = payload.split_once(' ') else { return };
    let (Some(owner), Ok(number)) = (Owner::parse(owner), number.parse::<u64>()) else { return };
    let token: std::result::Result<FencingToken, Error> = FencingToken::from_server(number);
    if let (Some(slot), Ok(token)) = (lock(slots).get_mut(&owner), token)
        && Some(token) > slot.others
    {
        slot.post = Post::Granted(token);
        slot.arrived.notify_one();
    }
}

fn disturb(slots: &Slots) {
    for slot in lock(slots).values_mut() {
        if !matches!(slot.post, Post::Granted(_)) {
            slot.post = Post::Disturbed;
            slot.arrived.notify_one();
        }
    }
}

fn lock(slots: &Slots) -> MutexGuard<'_, HashMap<Owner, Slot>> {
    slots.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_what_is_later_than_the_answer_is_a_grant() {
        let config = PostgresConfig::from_url("postgres://u@127.0.0.1:1/x?lock=lease").expect("a URL");
        let (mailbox, owner, now) = (Mailbox::new(&config), Owner::random(), Clock::system().now());
        let token = |number| FencingToken::from_server(number).expect("a number");
        let granted = || mailbox.granted(owner).map(|(token, _)| token);
        mailbox.expect(owner, now);
        deliver(&mailbox.slots, &format!("{owner} 5"));
        assert_eq!(granted(), Some(token(5)), "nothing is known that speaks against it");
        mailbox.waits(owner, now, Some(token(7)), now);
        assert_eq!(granted(), None, "others have had the name since");
        deliver(&mailbox.slots, &format!("{owner} 6"));
        assert_eq!(granted(), None, "it was on its way for longer");
        deliver(&mailbox.slots, &format!("{owner} 8"));
        mailbox.waits(owner, now, Some(token(7)), now);
        assert_eq!(granted(), Some(token(8)), "it was faster than the answer");
    }
}
