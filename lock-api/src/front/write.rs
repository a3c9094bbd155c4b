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
pub(crate) struct Write<T: Send + 'static> {
    slot: Arc<Slot<T>>,
    keeper: Keeper,
    place: Option<Place>,
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

impl<T: Send + 'static> Write<T> {
    pub(crate) fn new(future: impl Future<Output = T> + Send + 'static, keeper: &Keeper, handle: &Handle) -> Self {
        let state = Mutex::new(State::Open(Box::pin(future) as BoxFuture<T>, None));
        let slot = Arc::new(Slot { state, handle: handle.clone() });
        Self { slot, keeper: keeper.clone(), place: None }
    }

    fn leave(&mut self) {
        if let Some(place) = self.place.take() {
            self.keeper.leave(place);
        }
    }
}

impl<T: Send + 'static> Future for Write<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let this = &mut *self;
        let mut state = this.slot.lock();
        let output = match &mut *state {
            State::Open(future, waker) => match future.as_mut().poll(context) {
                Poll::Pending => {
                    remember(waker, context);
                    drop(state);
                    // Only what does not end at once has to be watched.
                    this.place.get_or_insert_with(|| this.keeper.enter(Arc::<Slot<T>>::clone(&this.slot)));
                    return Poll::Pending;
                }
                Poll::Ready(output) => {
                    *state = State::Over;
                    output
                }
            },
            State::Adopted(waker) => {
                remember(waker, context);
                return Poll::Pending;
            }
            State::Done(_) => match std::mem::replace(&mut *state, State::Over) {
                State::Done(output) => output,
                // The arm above has just seen it.
                _ => return Poll::Pending,
            },
            // Polled again after its end: a caller's fault; pending for ever is what a fused future does.
            State::Over => return Poll::Pending,
        };
        drop(state);
        this.leave();
        Poll::Ready(output)
    }
}

fn remember(waker: &mut Option<Waker>, context: &Context<'_>) {
    match waker {
        Some(known) => known.clone_from(context.waker()),
        None => *waker = Some(context.waker().clone()),
    }
}

impl<T: Send + 'static> Drop for Write<T> {
    fn drop(&mut self) {
        self.leave();
        let state = std::mem::replace(&mut *self.slot.lock(), State::Over);
        if let State::Open(future, _) = state {
            // Without a runtime the task is dropped at once, and with it what the write owns.
            self.slot.handle.spawn(async move { drop(future.await) });
        }
    }
}

impl<T> Slot<T> {
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
