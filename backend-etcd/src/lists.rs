//! The lists that are read beside a watch.

use std::future::{Future, pending};
use std::pin::Pin;
use std::time::Duration;

use lockyard_api::Moment;
use tokio::time::timeout;

use crate::backoff::Backoff;
use crate::keys::LockKeys;
use crate::listing::Listing;
use crate::surroundings::Surroundings;

/// How often a list is read although the watch tells everything: a delete that is never told costs no more than this.
pub(crate) const RECHECK: Duration = Duration::from_secs(15);

/// Reads lists, one at a time, with pauses after failures.
pub(crate) struct Lists {
    around: Surroundings,
    keys: LockKeys,
    reading: Option<Pin<Box<dyn Future<Output = Option<Listing>> + Send>>>,
    backoff: Backoff,
    not_before: Moment,
    recheck: Moment,
}

impl Lists {
    pub(crate) fn new(around: Surroundings, keys: LockKeys) -> Self {
        let now = around.clock.now();
        let backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(2));
        let recheck = now.plus(spread(RECHECK));
        Self { around, keys, reading: None, backoff, not_before: now, recheck }
    }

    /// Begins to read a list, unless one is being read or the last one failed just now.
    pub(crate) fn want(&mut self) {
        let now = self.around.clock.now();
        if self.reading.is_some() || now < self.not_before {
            return;
        }
        self.recheck = now.plus(spread(RECHECK));
        let (rpc, keys, limit) = (self.around.rpc.clone(), self.keys.clone(), self.around.op_timeout);
        self.reading = Some(Box::pin(async move { timeout(limit, rpc.list(&keys)).await.ok()?.ok() }));
    }

    pub(crate) fn is_recheck_due(&self) -> bool {
        self.around.clock.now() >= self.recheck
    }

    /// The list that is being read; never ends when none is or when it fails. The watch beside it may be well all the
    /// same, and tells at least of the end of own keys.
    ///
    /// # Cancel safety
    /// May be dropped at any await; the reading goes on at the next call.
    pub(crate) async fn next(&mut self) -> Listing {
        if let Some(reading) = &mut self.reading {
            let list = reading.await;
            self.reading = None;
            match list {
                Some(list) => {
                    self.backoff.reset();
                    return list;
                }
                None => self.not_before = self.around.clock.now().plus(self.backoff.next()),
            }
        }
        pending().await
    }
}

/// The time give or take a fifth, so that many clients do not ask together.
fn spread(time: Duration) -> Duration {
    time.mul_f64(0.8 + 0.4 * fastrand::f64())
}
