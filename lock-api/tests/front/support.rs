//! What the tests share: a server, lockers over it, and ways to wait for a condition.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use lockyard_api::{Clock, LockName, Locker, Namespace};
use lockyard_memory::{MemoryLiveness, MemoryLock, MemoryOptions, MemoryServer};

pub(crate) const NAME: &str = "job";

/// A lease server with this clock.
pub(crate) fn server(clock: &Clock) -> MemoryServer {
    MemoryServer::new(MemoryOptions::default().clock(clock.clone()).op_timeout(Duration::from_millis(300)))
}

/// A server whose holds rest on sessions.
pub(crate) fn session_server(ttl: Duration) -> MemoryServer {
    let options = MemoryOptions::default().liveness(MemoryLiveness::Session).session_ttl(ttl);
    MemoryServer::new(options.op_timeout(Duration::from_millis(300)))
}

pub(crate) fn client(server: &MemoryServer) -> MemoryLock {
    server.connect(Namespace::default())
}

/// A locker with a client of its own.
pub(crate) fn locker(server: &MemoryServer) -> Locker {
    over(client(server), &server.options().clock)
}

pub(crate) fn over(client: MemoryLock, clock: &Clock) -> Locker {
    Locker::builder(client).clock(clock.clone()).ttl(Duration::from_secs(30)).build().expect("inside a runtime")
}

pub(crate) fn entries(server: &MemoryServer, name: &str) -> usize {
    server.entries(&Namespace::default(), &LockName::new(name).expect("a name"))
}

/// Waits until the condition holds; fails after ten seconds.
pub(crate) async fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let clock = Clock::system();
    let limit = clock.now().plus(Duration::from_secs(10));
    while !condition() {
        assert!(clock.now() < limit, "not within 10 s: {what}");
        tokio::task::yield_now().await;
        clock.sleep(Duration::from_millis(1)).await;
    }
}

/// Polls a future so many times and then gives it back unfinished, or says what it ended with.
pub(crate) struct PollTimes<F>(pub(crate) Option<Pin<Box<F>>>, pub(crate) usize);

pub(crate) fn poll_times<F: Future>(future: F, times: usize) -> PollTimes<F> {
    PollTimes(Some(Box::pin(future)), times)
}

pub(crate) enum Polled<F: Future> {
    Ended(F::Output),
    Unfinished(Pin<Box<F>>),
}

impl<F: Future> Future for PollTimes<F> {
    type Output = Polled<F>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut future = self.0.take().expect("polled after its end");
        if self.1 == 0 {
            return Poll::Ready(Polled::Unfinished(future));
        }
        self.1 -= 1;
        match future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Polled::Ended(output)),
            Poll::Pending => {
                if self.1 == 0 {
                    return Poll::Ready(Polled::Unfinished(future));
                }
                self.0 = Some(future);
                Poll::Pending
            }
        }
    }
}
