//! A write that runs to its end although its caller may go away.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::runtime::Handle;

use super::keeper::{Adopt, Keeper, Place};

type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Polled in place by its caller, so that the usual case costs no task. Dropped unfinished, or still open when the keeper
/// comes by (a caller that neither polls nor drops it would hold up others), a task drives it to its end.
///
/// What the write owns is dropped with its output when nobody takes it: an armed claim undoes itself there, after the
/// call that it undoes and never before.
pub(crate) struct Write<'a, T: Send + 'static> {
    driver: Driver<T>,
    keeper: &'a Keeper,
    handle: &'a Handle,
}

/// Who can drive a write on.
enum Driver<T> {
    /// The caller alone: until its first pause nobody else has to know of it.
    Caller(BoxFuture<T>),
    /// The caller, or a task that takes it out of the slot.
    Either(Arc<Slot<T>>, Place),
    /// It has ended.
    Nobody,
}

struct Slot<T> {
    state: Mutex<State<T>>,
    handle: Handle,
}

enum State<T> {
    /// Driven by the caller, whose waker is the one of its last poll.
    Open(BoxFuture<T>, Option<Waker>),
    /// Driven by a task; the caller's waker when it has polled.
    Adopted(Option<Waker>),
    /// Ended, not yet taken.
    Done(T),
    /// Taken, or nobody listens any more.
    Over,
}

impl<'a, T: Send + 'static> Write<'a, T> {
    pub(crate) fn new(
        future: impl Future<Output = T> + Send + 'static,
        keeper: &'a Keeper,
        handle: &'a Handle,
    ) -> Self {
        Self { driver: Driver::Caller(Box::pin(future)), keeper, handle }
    }

    /// What does not end at once has to be watched.
    fn share(&self, future: BoxFuture<T>, context: &Context<'_>) -> Driver<T> {
        let state = Mutex::new(State::Open(future, Some(context.waker().clone())));
        let slot = Arc::new(Slot { state, handle: self.handle.clone() });
        let place = self.keeper.enter(Arc::<Slot<T>>::clone(&slot));
        Driver::Either(slot, place)
    }
}

impl<T: Send + 'static> Future for Write<'_, T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let polled = match &mut self.driver {
            Driver::Caller(future) => future.as_mut().poll(context),
            Driver::Either(slot, _) => slot.poll(context),
            // Polled again after its end: a caller's fault; pending for ever is what a fused future does.
            Driver::Nobody => return Poll::Pending,
        };
        match (std::mem::replace(&mut self.driver, Driver::Nobody), polled) {
            (Driver::Caller(future), Poll::Pending) => {
                self.driver = self.share(future, context);
                Poll::Pending
            }
            (Driver::Either(_, place), Poll::Ready(output)) => {
                self.keeper.leave(place);
                Poll::Ready(output)
            }
            (driver, Poll::Pending) => {
                self.driver = driver;
                Poll::Pending
            }
            (_, ready) => ready,
        }
    }
}

impl<T: Send + 'static> Drop for Write<'_, T> {
    fn drop(&mut self) {
        let unfinished = match std::mem::replace(&mut self.driver, Driver::Nobody) {
            Driver::Caller(future) => Some(future),
            Driver::Either(slot, place) => {
                self.keeper.leave(place);
                let state = std::mem::replace(&mut *slot.lock(), State::Over);
                if let State::Open(future, _) = state { Some(future) } else { None }
            }
            Driver::Nobody => None,
        };
        if let Some(future) = unfinished {
            // Without a runtime the task is dropped at once, and with it what the write owns.
            self.handle.spawn(async move { drop(future.await) });
        }
    }
}

impl<T> Slot<T> {
    fn poll(&self, context: &mut Context<'_>) -> Poll<T> {
        let mut state = self.lock();
        match &mut *state {
            State::Open(future, waker) => match future.as_mut().poll(context) {
                Poll::Pending => remember(waker, context),
                Poll::Ready(output) => {
                    *state = State::Over;
                    return Poll::Ready(output);
                }
            },
            State::Adopted(waker) => remember(waker, context),
            State::Done(_) => {
                if let State::Done(output) = std::mem::replace(&mut *state, State::Over) {
                    return Poll::Ready(output);
                }
            }
            State::Over => {}
        }
        Poll::Pending
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn finish(&self, output: T) {
        let mut state = self.lock();
        if let State::Adopted(waker) = &mut *state {
            let waker = waker.take();
            *state = State::Done(output);
            drop(state);
            if let Some(waker) = waker {
                waker.wake();
            }
        }
        // Otherwise the caller has gone; `output` is dropped here, after the lock (declared later, dropped first).
    }
}

impl<T: Send + 'static> Adopt for Slot<T> {
    fn adopt(self: Arc<Self>) {
        // A caller that is polling right now needs no help.
        let Ok(mut state) = self.state.try_lock() else { return };
        if !matches!(*state, State::Open(..)) {
            return;
        }
        let State::Open(future, waker) = std::mem::replace(&mut *state, State::Adopted(None)) else { return };
        *state = State::Adopted(waker);
        drop(state);
        let slot = Arc::clone(&self);
        self.handle.spawn(async move { slot.finish(future.await) });
    }
}

fn remember(waker: &mut Option<Waker>, context: &Context<'_>) {
    match waker {
        Some(known) => known.clone_from(context.waker()),
        None => *waker = Some(context.waker().clone()),
    }
}
