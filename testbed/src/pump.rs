//! One connection through the proxy: two pumps, each from a reader over a queue to a writer.
//!
//! The queue lets a delay shift the stream without slowing it down, and lets bytes be held while more arrive.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::controls::{Controls, Cut, Open, Way};

const CHUNK: usize = 64 << 10;

/// The life of a connection, counted and resettable from the call on, not from the first poll.
pub(crate) fn connect(
    client: TcpStream,
    upstream: SocketAddr,
    controls: Arc<Controls>,
) -> impl Future<Output = ()> + Send {
    let resets = controls.resets.subscribe();
    let open = Open::new(controls);
    async move {
        // An error of a socket here means that its peer has just gone.
        let _gone = run(client, upstream, &open, resets).await;
    }
}

async fn run(
    mut client: TcpStream,
    upstream: SocketAddr,
    controls: &Controls,
    mut resets: watch::Receiver<u64>,
) -> io::Result<()> {
    let server = tokio::select! {
        biased;
        _ = resets.changed() => return client.set_zero_linger(),
        server = TcpStream::connect(upstream) => server,
    };
    let Ok(mut server) = server else { return client.set_zero_linger() };
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let ended = {
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();
        let marked = AtomicBool::new(false);
        let requests = Pump { way: Way::Requests, controls, marked: &marked }.run(from_client, to_server);
        let replies = Pump { way: Way::Replies, controls, marked: &marked }.run(from_server, to_client);
        // Nothing passes once a reset was asked for: it is looked at first.
        tokio::select! {
            biased;
            _ = resets.changed() => Err(Cut),
            ended = async { tokio::try_join!(requests, replies) } => ended,
        }
    };
    if ended.is_err() {
        client.set_zero_linger()?;
        server.set_zero_linger()?;
    }
    Ok(())
}

struct Chunk {
    due: Instant,
    content: Content,
}

enum Content {
    Bytes(Vec<u8>),
    End,
    /// The sender's side was reset.
    Broken,
}

struct Pump<'a> {
    way: Way,
    controls: &'a Controls,
    /// Set by the pump of requests, once the client has sent what marks a connection.
    marked: &'a AtomicBool,
}

impl Pump<'_> {
    /// Returns when the sender has ended its side and the receiver was told, or with the cut that ends the connection.
    async fn run(self, from: ReadHalf<'_>, to: WriteHalf<'_>) -> Result<(), Cut> {
        let (queue, chunks) = mpsc::unbounded_channel();
        let mut writing = pin!(self.write(to, chunks));
        // The reader ends first with the stream; a cut ends the writer while the reader still reads.
        tokio::select! {
            written = &mut writing => written,
            () = self.read(from, queue) => writing.await,
        }
    }

    async fn read(&self, mut from: ReadHalf<'_>, queue: UnboundedSender<Chunk>) {
        let mut buffer = vec![0; CHUNK];
        loop {
            let content = match from.read(&mut buffer).await {
                Ok(0) => Content::End,
                Ok(length) => Content::Bytes(buffer[..length].to_vec()),
                Err(_) => Content::Broken,
            };
            if let (Content::Bytes(bytes), Way::Requests) = (&content, self.way)
                && self.controls.marks(bytes)
            {
                self.marked.store(true, Ordering::SeqCst);
            }
            let ended = !matches!(content, Content::Bytes(_));
            let due = Instant::now() + self.controls.plan().delays[self.way as usize];
            if queue.send(Chunk { due, content }).is_err() || ended {
                return;
            }
        }
    }

    async fn write(&self, mut to: WriteHalf<'_>, mut chunks: UnboundedReceiver<Chunk>) -> Result<(), Cut> {
        let mut has_hole = false;
        while let Some(chunk) = chunks.recv().await {
            sleep_until(chunk.due).await;
            if !self.controls.passes(self.way, self.marked).await {
                has_hole = true;
                continue;
            }
            match chunk.content {
                Content::Bytes(_) if self.way == Way::Replies && self.controls.swallow()? => has_hole = true,
                _ if has_hole => return Err(Cut),
                Content::Bytes(bytes) => self.forward(&bytes, &mut to).await?,
                Content::End => {
                    let _gone = to.shutdown().await;
                    return Ok(());
                }
                Content::Broken => return self.broken().await,
            }
        }
        // The end itself was dropped.
        self.broken().await
    }

    /// Passes a chunk on as far as the plan lets it.
    async fn forward(&self, bytes: &[u8], to: &mut WriteHalf<'_>) -> Result<(), Cut> {
        let length = if self.way == Way::Requests { self.controls.admit(bytes.len()) } else { bytes.len() };
        if to.write_all(&bytes[..length]).await.is_err() {
            return self.broken().await;
        }
        if length < bytes.len() { Err(Cut) } else { Ok(()) }
    }

    async fn broken(&self) -> Result<(), Cut> {
        self.controls.healed().await;
        Err(Cut)
    }
}
