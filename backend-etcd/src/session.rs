//! A session: one lease, kept alive, and the task that keeps it so.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use etcd_client::{LeaseKeepAliveStream, LeaseKeeper};
use lockyard_api::{ErrorKind, Moment, Session};
use tokio::sync::{Notify, watch};
use tokio::time::timeout;

use crate::backoff::Backoff;
use crate::claims::Claims;
use crate::error::Failure;
use crate::rpc::Lease;
use crate::surroundings::Surroundings;

/// One lease of the server and the holds that live as long as it.
#[derive(Debug)]
pub(crate) struct LeaseSession {
    id: i64,
    ttl: Duration,
    api: Session,
    /// Asks for a keep-alive now.
    nudge: Notify,
    /// Changes whenever the session was confirmed.
    confirmed: watch::Sender<()>,
    /// Until then a request of unknown outcome may still arrive at the server.
    stray_until: Mutex<Moment>,
}

impl LeaseSession {
    pub(crate) fn new(lease: Lease) -> Self {
        Self {
            id: lease.id,
            ttl: lease.ttl,
            api: Session::new(lease.valid_from, lease.ttl),
            nudge: Notify::new(),
            confirmed: watch::Sender::new(()),
            stray_until: Mutex::new(lease.valid_from),
        }
    }

    /// The lease's id.
    pub(crate) fn id(&self) -> i64 {
        self.id
    }

    pub(crate) fn api(&self) -> &Session {
        &self.api
    }

    pub(crate) fn is_ended(&self) -> bool {
        self.api.is_ended()
    }

    /// The lease is gone at the server, and everything that hung on it.
    pub(crate) fn end(&self) {
        self.api.end();
        self.confirmed.send_replace(());
    }

    /// A request whose outcome is unknown may arrive until then: look for what it leaves.
    pub(crate) fn expect_strays_until(&self, moment: Moment) {
        let mut until = self.stray_until.lock().unwrap_or_else(PoisonError::into_inner);
        *until = (*until).max(moment);
    }

    fn expects_strays(&self, now: Moment) -> bool {
        now < *self.stray_until.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the session confirmed by a keep-alive sent after `asked`. Ends also when the session does.
    pub(crate) async fn confirm_after(&self, asked: Moment) {
        let mut confirmed = self.confirmed.subscribe();
        while !self.is_ended() && self.api.lease().0 < asked {
            self.nudge.notify_one();
            if confirmed.changed().await.is_err() {
                return;
            }
        }
    }
}

/// Keeps one session alive until it ends at the server or its client is dropped; then the lease is revoked.
#[derive(Debug)]
pub(crate) struct Keeper {
    pub(crate) session: Arc<LeaseSession>,
    pub(crate) claims: Arc<Claims>,
    pub(crate) around: Surroundings,
}

impl Keeper {
    pub(crate) async fn run(self) {
        // The grant is the first confirmation.
        let mut next = self.session.api.lease().0.plus(self.session.ttl / 3);
        let mut streams = None;
        let mut backoff = Backoff::new(Duration::from_millis(50), (self.session.ttl / 6).min(Duration::from_secs(2)));
        loop {
            tokio::select! {
                biased;
                () = self.around.dropped() => return self.close().await,
                () = self.session.nudge.notified() => {}
                () = self.around.clock.sleep_until(next) => {}
            }
            let sent = self.around.clock.now();
            match self.beat(&mut streams).await {
                Some(Beat::Alive(ttl)) => {
                    self.session.api.confirm(sent, ttl);
                    self.session.confirmed.send_replace(());
                    backoff.reset();
                    self.look_after_keys().await;
                    next = sent.plus(self.session.ttl / 3);
                }
                Some(Beat::Gone) => self.session.end(),
                None => {
                    streams = None;
                    next = self.around.clock.now().plus(backoff.next());
                    tracing::debug!(lease = self.session.id, "keep-alive without an answer, next on a new stream");
                }
            }
            if self.session.is_ended() {
                tracing::debug!(lease = self.session.id, "the session's lease is gone");
                return;
            }
        }
    }

    /// One keep-alive: `None` when no answer came, after which the stream is of no more use. One is outstanding at a
    /// time, so that an answer can only be that to the last request.
    async fn beat(&self, streams: &mut Option<(LeaseKeeper, LeaseKeepAliveStream)>) -> Option<Beat> {
        // An answer later than this is worth less than a new stream, which may lead to another member.
        let limit = self.around.op_timeout.min((self.session.ttl / 3).max(Duration::from_millis(500)));
        let beat = async {
            if let Some((keeper, stream)) = streams {
                keeper.keep_alive().await.ok()?;
                let answer = stream.message().await.ok()??;
                return Some(match u64::try_from(answer.ttl()) {
                    Ok(ttl) if ttl > 0 => Beat::Alive(Duration::from_secs(ttl)),
                    // It is no error of the stream, only a lease without time.
                    _ => Beat::Gone,
                });
            }
            match self.around.rpc.keep_alive(self.session.id).await {
                Ok(opened) => {
                    *streams = Some(opened);
                    Some(Beat::Alive(self.session.ttl))
                }
                Err(etcd_client::Error::LeaseKeepAliveError(text)) if text.contains("not found") => Some(Beat::Gone),
                Err(error) => {
                    if Failure::new("keeping the lease alive", error).kind() == ErrorKind::Auth {
                        // The token ran out, or died with the server. A failure shows at the next request.
                        let _ = self.around.rpc.log_in().await;
                    }
                    None
                }
            }
        };
        timeout(limit, beat).await.ok().flatten()
    }

    /// Holds and places whose keys are gone are lost; keys that belong to no claim are deleted.
    async fn look_after_keys(&self) {
        let settled = self.claims.settled(&self.session);
        if settled.is_empty() && !self.session.expects_strays(self.around.clock.now()) {
            return;
        }
        let limit = self.around.op_timeout.min(self.session.ttl / 3);
        let look = async {
            let Ok(found) = self.around.rpc.lease_keys(self.session.id).await else { return };
            let Some(found) = found else { return self.session.end() };
            for (entry, revision) in settled {
                if found.keys.contains(entry.key.as_bytes()) {
                    continue;
                }
                // A new leader may list less than it has: only the key itself tells.
                match self.around.rpc.own(&entry.key).await {
                    Ok(Some(own)) if own.revision == revision => {}
                    Ok(_) => entry.gone(revision),
                    Err(_) => return,
                }
            }
            let known = self.claims.keys(&self.session);
            let strays = found.keys.iter().filter(|key| std::str::from_utf8(key).is_ok_and(|key| !known.contains(key)));
            for key in strays {
                tracing::debug!(key = %String::from_utf8_lossy(key), "deleting a key that belongs to no claim");
                // A failure is repeated at the next look.
                let _ = self.around.rpc.sweep(key, found.revision).await;
            }
        };
        // An unfinished look is repeated at the next heartbeat.
        let _ = timeout(limit, look).await;
    }

    /// The client is gone: its holds end now, not when the lease runs out.
    async fn close(self) {
        self.session.end();
        let _ = timeout(self.around.op_timeout, self.around.rpc.revoke(self.session.id)).await;
    }
}

/// The answer to a keep-alive.
#[derive(Debug)]
enum Beat {
    Alive(Duration),
    Gone,
}
