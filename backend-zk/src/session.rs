//! One session at the server: its claims, its heartbeat, its end.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use lockyard_api::{Clock, Error, ErrorKind, Moment, Result, Session};
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use zookeeper_client::{Client, Error as Driver, SessionState, StateWatcher};

use crate::claims::Claims;
use crate::config::ZkConfig;
use crate::error;

/// Heartbeats in T, every third of which lists the session's nodes. A hold is granted without asking again while less than half of T is gone since the session was last
/// confirmed, which three in T would make the exception: what is confirmed is then one to two thirds of T old.
const BEATS: u32 = 9;
/// After how many heartbeats one is proved to have reached the leader: T/3.
const PROOF: u32 = 3;

/// A session and everything that lives and dies with it. Dropping the last reference closes it at the server.
pub(crate) struct Live {
    pub(crate) client: Client,
    pub(crate) session: Session,
    pub(crate) claims: Claims,
    /// T: the timeout that the server granted.
    pub(crate) timeout: Duration,
    clock: Clock,
    base: String,
    beats: AtomicU64,
    /// When the heartbeats were sent that were answered and may still be proved to have reached the leader, oldest first.
    answered: Mutex<VecDeque<Moment>>,
    kick: Arc<Notify>,
}

/// Ends a heartbeat task, and with it the session unless somebody still uses it.
#[derive(Debug)]
pub(crate) struct Heartbeat(AbortHandle);

impl Drop for Heartbeat {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Live {
    /// Opens a session within `limit` and starts its heartbeat.
    pub(crate) async fn open(config: &ZkConfig, limit: Duration) -> Result<(Arc<Self>, Heartbeat)> {
        let clock = config.options.clock.clone();
        let what = format!("opening a session at {}", config.addresses().join(","));
        let sent = clock.now();
        let client = match timeout(limit, config.open()).await {
            Ok(Ok(client)) => client,
            Ok(Err(Driver::NoHosts)) => {
                return Err(
                    Error::new(ErrorKind::Unreachable, format!("{what}: no server there grants one")).not_applied()
                );
            }
            Ok(Err(refused)) => return Err(error::of_driver(refused, &what).not_applied()),
            Err(_) => return Err(error::late(&what, limit).not_applied()),
        };
        let timeout = client.session_timeout();
        let live = Arc::new(Self {
            session: Session::new(sent, timeout),
            claims: Claims::default(),
            timeout,
            clock,
            base: config.base().path().to_owned(),
            beats: AtomicU64::new(0),
            answered: Mutex::new(VecDeque::from([sent])),
            kick: Arc::new(Notify::new()),
            client,
        });
        let heartbeat = tokio::spawn(run(
            Arc::downgrade(&live),
            live.client.state_watcher(),
            Arc::clone(&live.kick),
            live.clock.clone(),
            live.interval(),
        ));
        Ok((live, Heartbeat(heartbeat.abort_handle())))
    }

    /// The number of the last heartbeat sent.
    pub(crate) fn beats(&self) -> u64 {
        self.beats.load(Ordering::SeqCst)
    }

    /// Has the session's nodes listed and the strays deleted soon.
    pub(crate) fn sweep_soon(&self) {
        self.kick.notify_one();
    }

    /// Takes note of an error that only an ended session gives.
    pub(crate) fn note(&self, error: &Driver) {
        let over = error::is_final(error) || self.client.state().is_terminated();
        // The driver's task answers every request; an answer that never comes is the end of the task.
        let silent = matches!(error, Driver::UnexpectedError(why) if why.starts_with("BUG") || why.starts_with("expect error state"));
        if over || silent {
            self.session.end();
        }
    }

    /// Ends when the driver is connected again.
    ///
    /// # Errors
    /// `SessionChanged` when the session has ended instead.
    ///
    /// # Cancel safety
    /// May be dropped at any time.
    pub(crate) async fn online(&self) -> Result<()> {
        let mut states = self.client.state_watcher();
        loop {
            match states.peek_state() {
                SessionState::SyncConnected if !self.session.is_ended() => return Ok(()),
                SessionState::Disconnected if !self.session.is_ended() => {
                    states.changed().await;
                }
                _ => {
                    self.session.end();
                    return Err(error::session_changed());
                }
            }
        }
    }

    /// Sends a heartbeat: a `sync`, which only the leader answers, and behind it, if `listing`, the request for the list of
    /// what this session has.
    ///
    /// Holds that are missing in the list are revoked, nodes that belong to no claim are deleted.
    ///
    /// # Cancel safety
    /// May be dropped; what was deleted is deleted.
    pub(crate) async fn beat(&self, listing: bool) -> Result<(), Driver> {
        let number = self.beats.fetch_add(1, Ordering::SeqCst) + 1;
        let sent = self.clock.now();
        let sync = self.client.sync(&self.base);
        let list = listing.then(|| self.client.list_ephemerals("/"));
        sync.await?;
        self.confirm(sent);
        match list {
            Some(list) => self.compare(&list.await?, number).await,
            None => Ok(()),
        }
    }

    /// Compares what is known with the list that heartbeat number `beat` asked for.
    async fn compare(&self, nodes: &[String], beat: u64) -> Result<(), Driver> {
        let audit = self.claims.audit(nodes, beat);
        for hold in audit.lost {
            hold.revoke();
        }
        // All are sent before the first is awaited.
        let deletes: Vec<_> = audit.strays.iter().map(|path| self.client.delete(path, None)).collect();
        for (delete, path) in deletes.into_iter().zip(&audit.strays) {
            match delete.await {
                Ok(()) => tracing::debug!(path, "deleted a node that belongs to no claim"),
                Err(Driver::NoNode) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// From one heartbeat to the next.
    fn interval(&self) -> Duration {
        self.timeout / BEATS
    }

    /// A heartbeat sent at `sent` was answered by the leader. That proves nothing about itself: the server its client is
    /// connected to tells the leader of it later. It does so twice a tick, and T is two ticks at least, so that the leader
    /// had heard of every heartbeat sent T/3 before this one.
    fn confirm(&self, sent: Moment) {
        let mut answered = self.answered.lock().unwrap_or_else(PoisonError::into_inner);
        if answered.back().is_none_or(|last| sent >= last.plus(self.interval() / 2)) {
            answered.push_back(sent);
        }
        let proof = self.interval() * PROOF;
        while answered.get(1).is_some_and(|next| sent >= next.plus(proof)) {
            answered.pop_front();
        }
        if let Some(oldest) = answered.front().filter(|oldest| sent >= oldest.plus(proof)) {
            self.session.confirm(*oldest, self.timeout);
        }
    }
}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Live")
            .field("session", &self.client.session_id())
            .field("timeout", &self.timeout)
            .field("state", &self.client.state())
            .finish_non_exhaustive()
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        // Wakes the heartbeat, which finds nothing left to keep alive.
        self.kick.notify_one();
    }
}

/// The heartbeat task: holds no strong reference while it sleeps.
async fn run(live: Weak<Live>, mut states: StateWatcher, kick: Arc<Notify>, clock: Clock, interval: Duration) {
    let (mut due, mut count) = (clock.now().plus(interval), 0_u32);
    loop {
        // Back after a cut, or asked to: whatever was made or deleted meanwhile is found now.
        let sweep = tokio::select! {
            state = states.changed() => match state {
                SessionState::SyncConnected => true,
                SessionState::Disconnected => continue,
                _ => {
                    if let Some(live) = live.upgrade() {
                        live.session.end();
                    }
                    return;
                }
            },
            () = kick.notified() => true,
            () = clock.sleep_until(due) => false,
        };
        let Some(live) = live.upgrade() else { return };
        if live.session.is_ended() {
            return;
        }
        due = clock.now().plus(interval);
        count = count.wrapping_add(1);
        if let Ok(Err(error)) = timeout(live.timeout, live.beat(sweep || count.is_multiple_of(PROOF))).await {
            live.note(&error);
            tracing::debug!(%error, "a heartbeat was not answered");
        }
    }
}
