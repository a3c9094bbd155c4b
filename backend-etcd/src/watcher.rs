//! The task behind the watch of one name.

use std::sync::Arc;
use std::time::Duration;

use etcd_client::{WatchResponse, WatchStream};
use lockyard_api::{ErrorKind, Moment};
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::backoff::Backoff;
use crate::error::Failure;
use crate::lists::Lists;
use crate::watch::{NameWatch, Watches, tell};

/// How many refusals in a row are told to those who wait.
const REFUSALS: u32 = 3;

/// Keeps the watch of one name open as long as it is wanted, and some time more.
pub(crate) struct Watcher {
    watches: Arc<Watches>,
    watch: Arc<NameWatch>,
    unwanted_since: Option<Moment>,
}

/// Why a stream is no longer read.
enum End {
    /// Nobody wants it.
    Unwanted,
    /// The client is gone.
    Dropped,
    /// It broke, or the server ended it; with what the server said about permission.
    Broken(Option<Failure>),
}

impl Watcher {
    pub(crate) fn new(watches: Arc<Watches>, watch: Arc<NameWatch>) -> Self {
        Self { watches, watch, unwanted_since: None }
    }

    pub(crate) async fn run(mut self) {
        let mut backoff = Backoff::new(Duration::from_millis(20), Duration::from_secs(2));
        let mut refusals = 0;
        loop {
            let end = match self.create().await {
                Ok(stream) => {
                    backoff.reset();
                    refusals = 0;
                    self.follow(stream).await
                }
                Err(end) => end,
            };
            self.watch.picture().closed();
            let refusal = match end {
                End::Unwanted | End::Dropped => return,
                End::Broken(refusal) => refusal,
            };
            if let Some(failure) = refusal {
                refusals += 1;
                self.refused(&failure, refusals).await;
            }
            let again = self.watches.around.clock.now().plus(backoff.next());
            tokio::select! {
                biased;
                () = self.watches.around.dropped() => return,
                () = self.watches.around.clock.sleep_until(again) => {}
            }
            if self.is_retired() {
                return;
            }
        }
    }

    /// Opens the stream and waits until the server says that the watch stands.
    async fn create(&mut self) -> Result<WatchStream, End> {
        let limit = self.watches.around.op_timeout;
        let create = async {
            let mut stream = self.watches.around.rpc.watch_deletes(&self.watch.keys).await.map_err(broken)?;
            loop {
                let message = stream.message().await.map_err(broken)?.ok_or(End::Broken(None))?;
                if message.canceled() {
                    return Err(End::Broken(cancelled(&message)));
                }
                if message.created() {
                    return Ok(stream);
                }
            }
        };
        tokio::select! {
            biased;
            () = self.watches.around.dropped() => Err(End::Dropped),
            created = timeout(limit, create) => created.unwrap_or(Err(End::Broken(None))),
        }
    }

    /// Reads the stream, and lists whenever somebody must be checked.
    async fn follow(&mut self, mut stream: WatchStream) -> End {
        self.watch.picture().opened();
        let mut ticks = interval((self.watches.linger / 4).clamp(Duration::from_millis(50), Duration::from_secs(1)));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut lists = Lists::new(self.watches.around.clone(), self.watch.keys.clone());
        loop {
            if self.watch.picture().wants_list() {
                lists.want();
            }
            tokio::select! {
                biased;
                () = self.watches.around.dropped() => return End::Dropped,
                message = stream.message() => match message {
                    Ok(Some(message)) if !message.canceled() => self.take(&message),
                    // A compaction cancels a watch that lags behind it: the next one begins with a list.
                    Ok(Some(message)) => return End::Broken(cancelled(&message)),
                    Ok(None) => return End::Broken(None),
                    Err(error) => return broken(error),
                },
                list = lists.next() => {
                    let verdicts = self.watch.picture().listed(&list);
                    tell(verdicts);
                }
                () = self.watch.nudge.notified() => {}
                _ = ticks.tick() => {
                    if self.is_retired() {
                        return End::Unwanted;
                    }
                    if lists.is_recheck_due() && self.watch.picture().is_wanted() {
                        lists.want();
                    }
                }
            }
        }
    }

    fn take(&self, message: &WatchResponse) {
        // A delete's key has no version; the filter lets no puts through, but old servers know no filter.
        let deletes: Vec<(&[u8], i64)> = message
            .events()
            .iter()
            .filter_map(|event| event.kv())
            .filter(|kv| kv.version() == 0)
            .map(|kv| (kv.key(), kv.mod_revision()))
            .collect();
        if !deletes.is_empty() {
            let verdicts = self.watch.picture().deleted(&deletes);
            tell(verdicts);
        }
    }

    /// Whether nobody has wanted the watch for so long that it was taken off the list.
    fn is_retired(&mut self) -> bool {
        if self.watch.picture().is_wanted() {
            self.unwanted_since = None;
            return false;
        }
        let now = self.watches.around.clock.now();
        let since = *self.unwanted_since.get_or_insert(now);
        now.since(since) >= self.watches.linger && self.watches.retire(&self.watch)
    }

    /// A token may have run out, or died with the server that gave it: logs in again. What stays refused is told.
    async fn refused(&self, failure: &Failure, times: u32) {
        let relogin = timeout(self.watches.around.op_timeout, self.watches.around.rpc.log_in()).await;
        let hopeless = matches!(&relogin, Ok(Err(failure)) if failure.kind() == ErrorKind::Auth);
        if hopeless || times >= REFUSALS {
            let waiting = self.watch.picture().waiting();
            for entry in waiting {
                entry.trouble(ErrorKind::Auth, failure.message());
            }
        }
    }
}

fn broken(error: etcd_client::Error) -> End {
    let failure = Failure::new("watching the queue", error);
    End::Broken((failure.kind() == ErrorKind::Auth).then_some(failure))
}

fn cancelled(message: &WatchResponse) -> Option<Failure> {
    let reason = message.cancel_reason();
    (reason.contains("permission") || reason.contains("auth"))
        .then(|| Failure::refused("watching the queue", reason.to_owned()))
}
