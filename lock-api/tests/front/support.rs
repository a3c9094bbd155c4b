//! What the tests share: a server, lockers over it, and ways to wait for a condition.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use lockyard_api::{Clock, Event, LockName, Locker, Namespace, Observer};
use lockyard_memory::{MemoryLiveness, MemoryLock, MemoryOptions, MemoryServer};

pub(crate) const NAME: &str = "job";

/// The ttl of requests that name none.
pub(crate) const TTL: Duration = Duration::from_secs(30);

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

/// Lets virtual time go by in small steps, so that everybody sees every moment of it.
pub(crate) async fn pass(clock: &Clock, time: Duration) {
    let step = Duration::from_millis(500);
    let mut left = time;
    while !left.is_zero() {
        clock.advance(step.min(left));
        left = left.saturating_sub(step);
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
    }
}

/// All that a locker has told.
#[derive(Debug, Default, Clone)]
pub(crate) struct Heard(Arc<Mutex<Vec<Event>>>);

impl Heard {
    pub(crate) fn count(&self, wanted: impl Fn(&Event) -> bool) -> usize {
        self.0.lock().expect("no panic").iter().filter(|event| wanted(event)).count()
    }
}

impl Observer for Heard {
    fn on_event(&self, event: &Event) {
        self.0.lock().expect("no panic").push(event.clone());
    }
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
