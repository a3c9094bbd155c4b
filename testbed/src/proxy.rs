//! A TCP proxy that breaks connections in the ways a network does.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use crate::controls::{Controls, Way};
use crate::ports::Port;
use crate::pump;
use crate::timing::pace;

/// What the proxy does with what it is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mode {
    /// Everything is passed on.
    Pass,
    /// Everything is kept, the ends of connections included, and passed on in order when the mode changes: a network that stalls.
    Hold,
    /// What the server sends on marked connections ([`Proxy::mark`]) is kept, and passed on when the mode changes.
    HoldMarked,
    /// What clients send never arrives, neither bytes nor the end of a connection; answers do.
    DropRequests,
    /// What the server sends never arrives; requests do.
    DropReplies,
    /// New connections are refused, as by a host without the server; those that are open go on. Add [`Proxy::reset`] to cut these.
    Refuse,
}

/// A listener on the loopback address whose connections lead to another address, and can be broken on the way.
///
/// A connection that lost bytes is cut as soon as more would pass: there is no TCP stream with a hole.
/// It ends, with all its connections, when it is dropped.
pub struct Proxy {
    addr: SocketAddr,
    controls: Arc<Controls>,
    listening: watch::Receiver<bool>,
    acceptor: JoinHandle<()>,
}

impl Proxy {
    /// Listens on a free port and leads to `upstream`, which need not answer yet; the mode is [`Mode::Pass`].
    ///
    /// # Errors
    ///
    /// When no port is free.
    ///
    /// # Cancel safety
    ///
    /// Nothing is left behind.
    #[expect(clippy::unused_async, reason = "it needs a runtime, and a future is polled in one")]
    pub async fn start(upstream: SocketAddr) -> io::Result<Self> {
        let (port, listener) = Port::reserve_listening()?;
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        let addr = listener.local_addr()?;
        let controls = Arc::new(Controls::default());
        let (told, listening) = watch::channel(true);
        let acceptor = Acceptor { port, upstream, controls: Arc::clone(&controls), told };
        Ok(Self { addr, controls, listening, acceptor: tokio::spawn(acceptor.run(listener)) })
    }

    /// Where clients connect.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Changes the mode, and returns when new connections and bytes meet the new one.
    ///
    /// # Cancel safety
    ///
    /// The mode is changed at the first poll; only the wait for a refusing or listening port is cut short.
    pub async fn set(&self, mode: Mode) {
        self.controls.mode.send_replace(mode);
        let mut listening = self.listening.clone();
        // An error means that the acceptor has ended with its runtime.
        let _ended = listening.wait_for(|listening| *listening == (mode != Mode::Refuse)).await;
    }

    /// The mode.
    #[must_use]
    pub fn mode(&self) -> Mode {
        *self.controls.mode.borrow()
    }

    /// Marks each connection on which a client sends these bytes in one piece, from now on.
    pub fn mark(&self, bytes: &'static [u8]) {
        self.controls.plan().mark = Some(bytes);
    }

    /// Cuts all connections at once, with a reset on both sides.
    pub fn reset(&self) {
        self.controls.resets.send_modify(|resets| *resets += 1);
    }

    /// Passes the next `bytes` bytes that clients send, of all connections together, and then resets the connection that sends
    /// more, once; with 0 the next request does not arrive at all.
    pub fn cut_requests_after(&self, bytes: usize) {
        self.controls.plan().cut_after = Some(bytes);
    }

    /// Swallows the next `chunks` chunks that the server sends, of all connections together, and resets the connection of the last.
    ///
    /// A chunk is what one read gives: answers that the server writes separately and the client awaits one by one are one each.
    pub fn swallow_replies(&self, chunks: usize) {
        self.controls.plan().swallow = chunks;
    }

    /// Delays what is sent from now on, both ways; the order and the rate stay.
    pub fn delay(&self, by: Duration) {
        self.delay_requests(by);
        self.delay_replies(by);
    }

    /// Delays what clients send from now on.
    pub fn delay_requests(&self, by: Duration) {
        self.controls.plan().delays[Way::Requests as usize] = by;
    }

    /// Delays what the server sends from now on.
    pub fn delay_replies(&self, by: Duration) {
        self.controls.plan().delays[Way::Replies as usize] = by;
    }

    /// How many connections are open.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.controls.open()
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxy").field("addr", &self.addr).field("mode", &self.mode()).finish_non_exhaustive()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // The connections are tasks of its set and go with it.
        self.acceptor.abort();
    }
}

struct Acceptor {
    port: Port,
    upstream: SocketAddr,
    controls: Arc<Controls>,
    /// Whether the port is listened on, for those who wait for it.
    told: watch::Sender<bool>,
}

impl Acceptor {
    async fn run(self, listener: TcpListener) {
        let mut mode = self.controls.mode.subscribe();
        let mut connections = JoinSet::new();
        let mut listener = Some(listener);
        loop {
            let refuse = *mode.borrow_and_update() == Mode::Refuse;
            listener = match listener {
                _ if refuse => None,
                Some(listener) => Some(listener),
                None => Some(self.listen().await),
            };
            self.told.send_replace(!refuse);
            tokio::select! {
                changed = mode.changed() => if changed.is_err() { return },
                client = accept(listener.as_ref()) => {
                    connections.spawn(pump::connect(client, self.upstream, Arc::clone(&self.controls)));
                }
                Some(_) = connections.join_next() => {}
            }
        }
    }

    /// The port is reserved, so that only a socket that is still closing can be in the way.
    async fn listen(&self) -> TcpListener {
        let mut tries = pace(Duration::from_millis(5));
        loop {
            tries.tick().await;
            if let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, self.port.number())).await {
                return listener;
            }
        }
    }
}

/// The next client; never, without a listener.
async fn accept(listener: Option<&TcpListener>) -> TcpStream {
    let Some(listener) = listener else { return std::future::pending().await };
    let mut tries = pace(Duration::from_millis(5));
    loop {
        // A failure is that of one client, or too many open files, which pass.
        if let Ok((client, _)) = listener.accept().await {
            return client;
        }
        tries.tick().await;
    }
}
