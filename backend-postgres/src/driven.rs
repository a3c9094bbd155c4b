//! How an operation on a session is bounded in time without its outcome being lost.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};
use std::time::Duration;

use lockyard_api::Result;
use tokio::runtime::Handle;
use tokio::time::timeout;

use crate::error;
use crate::keeper::before_the_end;
use crate::session::{Line, LockSession};

/// The session's line within this time; `None` when the session is over. Nothing was sent when it fails.
pub(crate) async fn line_within(limit: Duration, session: &Arc<LockSession>) -> Result<Option<Line>> {
    if let Some(line) = session.free_line() {
        return Ok(line);
    }
    let line = Box::pin(timeout(limit, session.line())).await;
    line.map_err(|_| error::no_answer("waiting for an earlier statement of this session"))
}

/// Drives what was sent for at most `limit`; past it a task goes on with it, so that its outcome is known when the session
/// answers again.
pub(crate) fn driven<'a, T: Send + 'static>(
    runtime: &'a Handle,
    limit: Duration,
    session: &'a Arc<LockSession>,
    doing: &'a str,
    op: impl Future<Output = T> + Send + 'static,
) -> impl Future<Output = Result<T>> + Send + 'a {
    // Before anything is awaited: it is large, and would be moved once more for each future around it.
    let mut op = Box::pin(op);
    async move {
        if let Ok(answer) = timeout(limit, &mut op).await {
            return Ok(answer);
        }
        let session = Arc::clone(session);
        runtime.spawn(async move { before_the_end(&session, op).await.map(drop) });
        Err(error::no_answer(doing))
    }
}

/// Work that whoever asks for its end drives in place, without a task: that costs two wake-ups less where the end comes soon,
/// and a hand-over consists of little else. A task of the runtime goes on with it when its driver goes, or when a second one asks.
pub(crate) struct Work {
    state: Mutex<State>,
    runtime: Handle,
}

#[derive(Default)]
struct State {
    /// `None` before it begins, when it has ended, and when a task has it.
    future: Option<BoxFuture>,
    /// Whether somebody has the right to drive it, from before its first poll.
    is_driven: bool,
    driver: Option<Waker>,
}

type BoxFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Work {
    pub(crate) fn new(runtime: &Handle) -> Self {
        Self { state: Mutex::default(), runtime: runtime.clone() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From here on it goes on whenever somebody drives it.
    pub(crate) fn begin(&self, future: impl Future<Output = ()> + Send + 'static) {
        self.state().future = Some(Box::pin(future));
    }

    /// The right to drive it. `None` when there is nothing to drive: it has ended, or a task does it.
    pub(crate) fn drive(&self) -> Option<Driver<'_>> {
        let was_driven = {
            let mut state = self.state();
            state.future.as_ref()?;
            std::mem::replace(&mut state.is_driven, true)
        };
        if was_driven {
            self.hand_over();
            return None;
        }
        Some(Driver { work: self, done: false })
    }

    /// Gives it to a task. Whoever drove it is woken, to see that it does not any more.
    pub(crate) fn hand_over(&self) {
        let State { future, driver, .. } = std::mem::take(&mut *self.state());
        if let Some(future) = future {
            self.runtime.spawn(future);
        }
        if let Some(driver) = driver {
            driver.wake();
        }
    }
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Work").finish_non_exhaustive()
    }
}

/// Drives work in place; dropped before [`Driver::done`], a task goes on with it.
pub(crate) struct Driver<'a> {
    work: &'a Work,
    done: bool,
}

impl Driver<'_> {
    /// Drives the work on. False when there is nothing left to drive.
    pub(crate) fn advance(&self, context: &mut Context<'_>) -> bool {
        let mut state = self.work.state();
        let Some(future) = &mut state.future else { return false };
        if future.as_mut().poll(context).is_ready() {
            *state = State::default();
            return false;
        }
        match &mut state.driver {
            Some(known) => known.clone_from(context.waker()),
            None => state.driver = Some(context.waker().clone()),
        }
        true
    }

    /// Leaves the work to the next one who asks.
    pub(crate) fn done(mut self) {
        let mut state = self.work.state();
        (state.is_driven, state.driver) = (false, None);
        drop(state);
        self.done = true;
    }
}

impl Drop for Driver<'_> {
    fn drop(&mut self) {
        if !self.done {
            self.work.hand_over();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Poll;

    use tokio::sync::{mpsc, oneshot};

    use super::*;

    /// Work that waits for a word and then reports its end; says at each poll that it was polled.
    fn work() -> (Arc<Work>, oneshot::Sender<()>, mpsc::UnboundedReceiver<&'static str>) {
        let ((word, heard), (tell, told)) = (oneshot::channel::<()>(), mpsc::unbounded_channel());
        let work = Arc::new(Work::new(&Handle::current()));
        work.begin(async move {
            tell.send("begun").expect("the test listens");
            heard.await.expect("the test says it");
            tell.send("ended").expect("the test listens");
        });
        (work, word, told)
    }

    async fn drive(work: &Work) -> bool {
        let Some(driver) = work.drive() else { return false };
        std::future::poll_fn(|context| if driver.advance(context) { Poll::Pending } else { Poll::Ready(()) }).await;
        driver.done();
        true
    }

    #[tokio::test]
    async fn nothing_happens_until_somebody_drives() {
        let (work, word, mut told) = work();
        tokio::task::yield_now().await;
        assert!(told.try_recv().is_err());
        word.send(()).expect("it listens");
        assert!(drive(&work).await);
        assert_eq!((told.recv().await, told.recv().await), (Some("begun"), Some("ended")));
        assert!(!drive(&work).await, "it has ended");
    }

    #[tokio::test]
    async fn a_task_goes_on_when_the_driver_is_dropped() {
        let (work, word, mut told) = work();
        let driving = {
            let work = Arc::clone(&work);
            tokio::spawn(async move { drive(&work).await })
        };
        assert_eq!(told.recv().await, Some("begun"));
        driving.abort();
        assert!(driving.await.is_err());
        word.send(()).expect("it listens");
        assert_eq!(told.recv().await, Some("ended"));
    }

    #[tokio::test]
    async fn a_second_one_who_asks_lets_a_task_do_it_and_the_first_one_know() {
        let (work, word, mut told) = work();
        let first = {
            let work = Arc::clone(&work);
            tokio::spawn(async move { drive(&work).await })
        };
        assert_eq!(told.recv().await, Some("begun"));
        assert!(!drive(&work).await);
        assert!(first.await.expect("it does not panic"));
        word.send(()).expect("it listens");
        assert_eq!(told.recv().await, Some("ended"));
    }

    #[tokio::test]
    async fn two_never_drive_it_at_once() {
        let (work, word, mut told) = work();
        let first = work.drive().expect("there is work");
        assert!(work.drive().is_none(), "the first has not polled it yet");
        assert!(!std::future::poll_fn(|context| Poll::Ready(first.advance(context))).await, "a task has it");
        first.done();
        word.send(()).expect("it listens");
        assert_eq!((told.recv().await, told.recv().await), (Some("begun"), Some("ended")));
    }

    #[tokio::test]
    async fn left_by_one_driver_it_waits_for_the_next() {
        let (work, word, mut told) = work();
        let driver = work.drive().expect("there is work");
        let goes_on = std::future::poll_fn(|context| Poll::Ready(driver.advance(context))).await;
        driver.done();
        assert!(goes_on);
        word.send(()).expect("it listens");
        assert_eq!(told.recv().await, Some("begun"));
        tokio::task::yield_now().await;
        assert!(told.try_recv().is_err(), "nobody drives it");
        assert!(drive(&work).await);
        assert_eq!(told.recv().await, Some("ended"));
    }
}
