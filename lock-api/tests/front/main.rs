//! The front end over the memory backend: waiting, cancellation, loss, the local queue, shutdown.

mod cancel;
mod cases;
mod cohort;
mod loss;
mod queue;
mod reentrant;
mod several;
mod shutdown;
mod support;
