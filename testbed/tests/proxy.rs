//! Each mode and each fault of the proxy, against an echo server of the test.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::Duration;

use lockyard_testbed::timing::eventually;
use lockyard_testbed::{Mode, Proxy};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio::time::{Instant, timeout};

const SOON: Duration = Duration::from_secs(5);
const BRIEFLY: Duration = Duration::from_millis(100);

/// What the echo server saw.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    Bytes(Vec<u8>),
    End,
    Reset,
}

struct Echo {
    addr: SocketAddr,
    seen: UnboundedReceiver<Seen>,
}

impl Echo {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let (tell, seen) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            loop {
                let (mut client, _) = listener.accept().await.unwrap();
                let tell = tell.clone();
                tokio::spawn(async move {
                    let mut buffer = [0; 1024];
                    loop {
                        let seen = match client.read(&mut buffer).await {
                            Ok(0) => Seen::End,
                            Ok(length) => Seen::Bytes(buffer[..length].to_vec()),
                            Err(_) => Seen::Reset,
                        };
                        let Seen::Bytes(bytes) = seen else { return tell.send(seen).unwrap_or_default() };
                        let _gone = client.write_all(&bytes).await;
                        tell.send(Seen::Bytes(bytes)).unwrap_or_default();
                    }
                });
            }
        });
        Self { addr, seen }
    }

    async fn sees(&mut self) -> Seen {
        timeout(SOON, self.seen.recv()).await.unwrap().unwrap()
    }

    fn saw_nothing(&mut self) -> bool {
        self.seen.try_recv().is_err()
    }
}

/// An echo server behind a proxy, and a connection through it that works.
async fn connected() -> (Echo, Proxy, TcpStream) {
    let mut echo = Echo::start().await;
    let proxy = Proxy::start(echo.addr).await.unwrap();
    let mut client = TcpStream::connect(proxy.addr()).await.unwrap();
    assert_eq!(exchange(&mut client, b"hello").await.unwrap(), b"hello");
    assert_eq!(echo.sees().await, Seen::Bytes(b"hello".to_vec()));
    (echo, proxy, client)
}

async fn exchange(client: &mut TcpStream, bytes: &[u8]) -> io::Result<Vec<u8>> {
    client.write_all(bytes).await?;
    hear(client).await
}

async fn hear(client: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut buffer = [0; 1024];
    let length = timeout(SOON, client.read(&mut buffer)).await??;
    Ok(buffer[..length].to_vec())
}

async fn hears_nothing(client: &mut TcpStream) -> bool {
    timeout(BRIEFLY, client.read(&mut [0; 16])).await.is_err()
}

async fn is_reset(client: &mut TcpStream) -> bool {
    hear(client).await.is_err_and(|error| error.kind() == ErrorKind::ConnectionReset)
}

#[tokio::test]
async fn pass_carries_bytes_and_ends_both_ways() {
    let (mut echo, proxy, mut client) = connected().await;
    assert_eq!(proxy.connections(), 1);
    client.shutdown().await.unwrap();
    assert_eq!(echo.sees().await, Seen::End);
    assert_eq!(hear(&mut client).await.unwrap(), b"");
    eventually(SOON, || async { proxy.connections() == 0 }).await.unwrap();
}

#[tokio::test]
async fn hold_keeps_bytes_in_order_and_delivers_them() {
    let (mut echo, proxy, mut client) = connected().await;
    proxy.set(Mode::Hold).await;
    client.write_all(b"one").await.unwrap();
    assert!(hears_nothing(&mut client).await);
    client.write_all(b"two").await.unwrap();
    client.shutdown().await.unwrap();
    assert!(hears_nothing(&mut client).await && echo.saw_nothing());
    proxy.set(Mode::Pass).await;
    let mut all = Vec::new();
    timeout(SOON, client.read_to_end(&mut all)).await.unwrap().unwrap();
    assert_eq!(all, b"onetwo");
}

#[tokio::test]
async fn what_is_sent_on_marked_connections_is_kept() {
    let (_echo, proxy, mut plain) = connected().await;
    proxy.mark(b"LISTEN ");
    let mut marked = TcpStream::connect(proxy.addr()).await.unwrap();
    assert_eq!(exchange(&mut marked, b"; LISTEN x").await.unwrap(), b"; LISTEN x");
    proxy.set(Mode::HoldMarked).await;
    marked.write_all(b"late").await.unwrap();
    assert!(hears_nothing(&mut marked).await);
    assert_eq!(exchange(&mut plain, b"soon").await.unwrap(), b"soon");
    proxy.set(Mode::Pass).await;
    assert_eq!(hear(&mut marked).await.unwrap(), b"late");
}

#[tokio::test]
async fn dropped_requests_never_arrive_and_cost_the_connection() {
    let (mut echo, proxy, mut client) = connected().await;
    proxy.set(Mode::DropRequests).await;
    client.write_all(b"lost").await.unwrap();
    assert!(hears_nothing(&mut client).await && echo.saw_nothing());
    proxy.set(Mode::Pass).await;
    client.write_all(b"after the hole").await.unwrap();
    assert!(is_reset(&mut client).await);
    assert_eq!(echo.sees().await, Seen::Reset);
}

#[tokio::test]
async fn dropped_replies_never_arrive_but_their_requests_do() {
    let (mut echo, proxy, mut client) = connected().await;
    proxy.set(Mode::DropReplies).await;
    client.write_all(b"heard").await.unwrap();
    assert_eq!(echo.sees().await, Seen::Bytes(b"heard".to_vec()));
    assert!(hears_nothing(&mut client).await);
    proxy.set(Mode::Pass).await;
    client.write_all(b"again").await.unwrap();
    assert!(is_reset(&mut client).await);
}

#[tokio::test]
async fn the_end_of_a_connection_is_dropped_as_well() {
    for mode in [Mode::DropRequests, Mode::Hold] {
        let (mut echo, proxy, client) = connected().await;
        proxy.set(mode).await;
        drop(client);
        assert!(timeout(BRIEFLY, echo.seen.recv()).await.is_err(), "{mode:?}");
        assert_eq!(proxy.connections(), 1);
        proxy.set(Mode::Pass).await;
        assert_ne!(echo.sees().await, Seen::Bytes(Vec::new()));
        eventually(SOON, || async { proxy.connections() == 0 }).await.unwrap();
    }
}

#[tokio::test]
async fn refuse_turns_new_connections_away_and_listens_again() {
    let (_echo, proxy, mut client) = connected().await;
    for _ in 0..20 {
        proxy.set(Mode::Refuse).await;
        let refused = TcpStream::connect(proxy.addr()).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        proxy.set(Mode::Pass).await;
        let mut other = TcpStream::connect(proxy.addr()).await.unwrap();
        assert_eq!(exchange(&mut other, b"back").await.unwrap(), b"back");
    }
    assert_eq!(exchange(&mut client, b"still there").await.unwrap(), b"still there");
}

#[tokio::test]
async fn reset_cuts_every_connection_on_both_sides() {
    let (mut echo, proxy, mut client) = connected().await;
    let mut other = TcpStream::connect(proxy.addr()).await.unwrap();
    exchange(&mut other, b"x").await.unwrap();
    assert_eq!(echo.sees().await, Seen::Bytes(b"x".to_vec()));
    proxy.set(Mode::Hold).await;
    proxy.reset();
    assert!(is_reset(&mut client).await && is_reset(&mut other).await);
    assert_eq!((echo.sees().await, echo.sees().await), (Seen::Reset, Seen::Reset));
    proxy.set(Mode::Pass).await;
    let mut new = TcpStream::connect(proxy.addr()).await.unwrap();
    assert_eq!(exchange(&mut new, b"new").await.unwrap(), b"new");
}

#[tokio::test]
async fn a_request_is_cut_at_the_byte() {
    let (mut echo, proxy, mut client) = connected().await;
    proxy.cut_requests_after(7);
    assert_eq!(exchange(&mut client, b"1234").await.unwrap(), b"1234");
    assert_eq!(echo.sees().await, Seen::Bytes(b"1234".to_vec()));
    client.write_all(b"567890").await.unwrap();
    assert_eq!(echo.sees().await, Seen::Bytes(b"567".to_vec()));
    // Its write of the echo may have met the reset, and then its read only meets the end.
    assert!(matches!(echo.sees().await, Seen::End | Seen::Reset));
    while hear(&mut client).await.is_ok() {}
    let mut new = TcpStream::connect(proxy.addr()).await.unwrap();
    assert_eq!(exchange(&mut new, b"once only").await.unwrap(), b"once only");
}

#[tokio::test]
async fn nothing_of_a_request_passes_after_zero_bytes() {
    let (mut echo, proxy, mut client) = connected().await;
    proxy.cut_requests_after(0);
    client.write_all(b"never").await.unwrap();
    assert!(is_reset(&mut client).await);
    assert_eq!(echo.sees().await, Seen::Reset);
}

#[tokio::test]
async fn replies_are_swallowed_and_the_last_cuts() {
    let (mut echo, proxy, mut client) = connected().await;
    proxy.swallow_replies(2);
    client.write_all(b"first").await.unwrap();
    assert_eq!(echo.sees().await, Seen::Bytes(b"first".to_vec()));
    assert!(hears_nothing(&mut client).await);
    client.write_all(b"second").await.unwrap();
    assert_eq!(echo.sees().await, Seen::Bytes(b"second".to_vec()));
    assert!(is_reset(&mut client).await);
    let mut new = TcpStream::connect(proxy.addr()).await.unwrap();
    assert_eq!(exchange(&mut new, b"heard").await.unwrap(), b"heard");
}

#[tokio::test]
async fn a_delay_shifts_the_stream_without_slowing_it() {
    let (_echo, proxy, mut client) = connected().await;
    let delay = Duration::from_millis(150);
    proxy.delay(delay);
    let start = Instant::now();
    exchange(&mut client, b"x").await.unwrap();
    assert!(start.elapsed() >= delay * 2, "{:?}", start.elapsed());

    proxy.delay_requests(Duration::ZERO);
    let start = Instant::now();
    exchange(&mut client, b"x").await.unwrap();
    assert!(start.elapsed() >= delay && start.elapsed() < delay * 2, "{:?}", start.elapsed());

    // 20 chunks in flight at once: one after the other they would take 6 s.
    proxy.delay_requests(delay);
    let start = Instant::now();
    for _ in 0..20 {
        client.write_all(b"y").await.unwrap();
        tokio::task::yield_now().await;
    }
    let mut all = [0; 20];
    client.read_exact(&mut all).await.unwrap();
    assert!(start.elapsed() >= delay * 2 && start.elapsed() < delay * 10, "{:?}", start.elapsed());
}

#[tokio::test]
async fn an_upstream_that_is_down_resets_the_client() {
    let nobody = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap()
    };
    let proxy = Proxy::start(nobody).await.unwrap();
    let mut client = TcpStream::connect(proxy.addr()).await.unwrap();
    assert!(is_reset(&mut client).await);
}

#[tokio::test]
async fn dropped_it_ends_its_connections_and_its_port() {
    let (mut echo, proxy, mut client) = connected().await;
    let addr = proxy.addr();
    drop(proxy);
    assert!(!hear(&mut client).await.is_ok_and(|heard| !heard.is_empty()));
    assert!(matches!(echo.sees().await, Seen::End | Seen::Reset));
    eventually(SOON, || async { TcpStream::connect(addr).await.is_err() }).await.unwrap();
}
