//! A server of its own, the clients before it, and what they say.

use std::time::Duration;

use lockyard_conformance::history::{Event, History, Rules, What};
use lockyard_testbed::timing::within;
use lockyard_testbed::{Options, Proxy, Server, Service, require};
use tempfile::TempDir;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::puppet::{Do, Puppet};
use crate::support::bare;

/// Where a test takes place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Site {
    pub(crate) service: Service,
    pub(crate) query: &'static str,
    pub(crate) args: &'static [&'static str],
}

/// The server of a test.
pub(crate) struct Stage {
    server: Server,
    query: &'static str,
    ttl: Duration,
    registers: TempDir,
}

impl Stage {
    /// Starts the server; `None` after saying why there is none.
    pub(crate) async fn of(site: Site, ttl: Duration) -> Option<Self> {
        let options = Options::new().args(site.args.iter().copied()).native_only();
        let started = Server::start_with(site.service, options).await;
        let server = require::or_skip(site.service, started).expect("it starts where it is installed")?;
        let registers = tempfile::tempdir().expect("a folder");
        Some(Self { server, query: site.query, ttl, registers })
    }

    fn url(&self, base: &str) -> String {
        format!("{base}?{}ttl={}ms", self.query, self.ttl.as_millis())
    }

    /// A client in this process.
    pub(crate) async fn locks(&self) -> lockyard::Locker {
        lockyard::connect(&self.url(&self.server.lock_url())).await.expect("the server answers")
    }

    /// A process of so many clients, on a way of its own to the server.
    pub(crate) async fn client(&self, process: u32, clients: u64) -> Client {
        let way = Proxy::start(self.server.addr()).await.expect("a port");
        let (tell, told) = unbounded_channel();
        let mut command = bare(&[]);
        command.env("LOCKYARD_URL", self.url(&self.server.lock_url_via(way.addr())));
        let puppet = Puppet::start_several(command, process, clients, self.registers.path(), tell).expect("it starts");
        Client { puppet: Some(puppet), way, told, seen: Vec::new() }
    }
}

/// A process of clients.
pub(crate) struct Client {
    puppet: Option<Puppet>,
    pub(crate) way: Proxy,
    told: UnboundedReceiver<Event>,
    /// What it said so far.
    pub(crate) seen: Vec<Event>,
}

impl Client {
    pub(crate) async fn order(&mut self, op: u64, what: Do) {
        self.puppet.as_mut().expect("it lives").order(op, what).await.expect("it lives");
    }

    /// The next thing that it says from now on which this picks.
    pub(crate) async fn says<T: Send>(
        &mut self,
        limit: Duration,
        pick: impl Fn(&Event) -> Option<T> + Send + Sync,
    ) -> T {
        within(limit, "a client's answer", async {
            loop {
                let event = self.told.recv().await.expect("it lives");
                let picked = pick(&event);
                self.seen.push(event);
                if let Some(picked) = picked {
                    return picked;
                }
            }
        })
        .await
    }

    /// The answer to an order to acquire: the event and its token, `None` when another holds the name.
    ///
    /// # Panics
    ///
    /// When the answer is an error.
    pub(crate) async fn answer(&mut self, limit: Duration) -> (Event, Option<u64>) {
        self.says(limit, |event| match &event.what {
            What::Busy => Some((event.clone(), None)),
            What::Granted { token, .. } => Some((event.clone(), Some(token.expect("every backend here fences")))),
            What::Failed { .. } | What::Lost { .. } | What::Ended => panic!("{event}"),
            _ => None,
        })
        .await
    }

    /// Gives a hold back, which the server still has.
    pub(crate) async fn release(&mut self, op: u64, limit: Duration) {
        self.order(op, Do::Release).await;
        self.says(limit, |event| match event.what {
            What::Released { held: true } => Some(()),
            What::Released { .. } | What::Failed { .. } | What::Lost { .. } | What::Ended => panic!("{event}"),
            _ => None,
        })
        .await;
    }

    /// Kills it, and returns when it is gone.
    pub(crate) async fn kill(&mut self) {
        self.puppet.take().expect("it lives").kill().await.expect("it was there");
    }

    /// All that it has said by now.
    pub(crate) fn all(&mut self) -> &[Event] {
        while let Ok(event) = self.told.try_recv() {
            self.seen.push(event);
        }
        &self.seen
    }
}

/// One holder at a time and rising tokens, in all that was said; returns how many holds there were.
pub(crate) fn checked(said: impl IntoIterator<Item = Event>) -> usize {
    let mut history = History::new(Rules::strict());
    history.events = said.into_iter().collect();
    let verdict = history.check();
    assert!(verdict.violations.is_empty(), "{:#?}", verdict.violations);
    verdict.holds
}
