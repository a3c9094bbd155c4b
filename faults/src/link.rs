//! The way of one client, through a proxy.

use std::sync::Arc;
use std::time::Duration;

use lockyard_api::{Clock, async_trait};
use lockyard_conformance::{Fault, Link};
use lockyard_testbed::{Mode, Proxy, timing};

/// A [`Proxy`] between one client and the server, as the suite disturbs it.
#[derive(Debug)]
pub struct ProxyLink {
    proxy: Arc<Proxy>,
    /// How long all replies are swallowed where one reply cannot be told from others; `None`: the next chunk is the reply.
    swallow_for: Option<Duration>,
    /// Whether what the server sends by itself comes on connections of its own.
    tells_pushes: bool,
}

impl ProxyLink {
    /// The link of a client whose server writes each reply for itself.
    #[must_use]
    pub const fn new(proxy: Arc<Proxy>) -> Self {
        Self { proxy, swallow_for: None, tells_pushes: false }
    }

    /// What the server sends by itself comes on connections of its own, and a client that sends `mark` listens on one.
    #[must_use]
    pub fn with_pushes_after(mut self, mark: &'static [u8]) -> Self {
        self.proxy.mark(mark);
        self.tells_pushes = true;
        self
    }

    /// The link of a client whose server writes other things as well (HTTP/2 answers pings): a reply is swallowed by
    /// swallowing everything for `time` times the time factor, which is longer than the server takes to reply.
    #[must_use]
    pub const fn swallowing_for(proxy: Arc<Proxy>, time: Duration) -> Self {
        Self { proxy, swallow_for: Some(time), tells_pushes: false }
    }
}

#[async_trait]
impl Link for ProxyLink {
    async fn silence(&self) {
        self.proxy.set(Mode::Hold).await;
    }

    async fn heal(&self) {
        self.proxy.delay(Duration::ZERO);
        self.proxy.set(Mode::Pass).await;
    }

    async fn cut(&self) {
        self.proxy.reset();
    }

    async fn swallow_reply(&self) {
        let Some(time) = self.swallow_for else { return self.proxy.swallow_replies(1) };
        self.proxy.set(Mode::DropReplies).await;
        let proxy = Arc::clone(&self.proxy);
        tokio::spawn(async move {
            Clock::system().sleep(timing::scaled(time)).await;
            proxy.reset();
            proxy.set(Mode::Pass).await;
        });
    }

    async fn swallow_reply_and_refuse(&self) -> Fault {
        let Some(time) = self.swallow_for else {
            self.proxy.set(Mode::Refuse).await;
            self.proxy.swallow_replies(1);
            return Fault::Done;
        };
        self.proxy.set(Mode::DropReplies).await;
        let proxy = Arc::clone(&self.proxy);
        tokio::spawn(async move {
            Clock::system().sleep(timing::scaled(time)).await;
            // Not when the link was healed before.
            if proxy.mode() == Mode::DropReplies {
                proxy.set(Mode::Refuse).await;
                proxy.reset();
            }
        });
        Fault::Done
    }

    async fn delay(&self, time: Duration) -> Fault {
        self.proxy.delay(time);
        Fault::Done
    }

    async fn keep_pushes(&self) -> Fault {
        if !self.tells_pushes {
            return Fault::not_offered("replies and what the server sends by itself come on the same connection");
        }
        self.proxy.set(Mode::HoldMarked).await;
        Fault::Done
    }
}
