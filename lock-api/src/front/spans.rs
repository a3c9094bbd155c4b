//! The spans of an acquire, a hold and a release: made only where somebody listens at their level.

use tracing::field::Empty;
use tracing::{Id, Level, Span};

use crate::{Claim, FencingToken};

/// The spans that begin with an acquire.
#[derive(Debug)]
pub(crate) struct Spans {
    acquire: Span,
    /// Of the caller: the hold is a part of its work, not of the acquire that has ended.
    parent: Option<Id>,
    backend: &'static str,
}

impl Spans {
    /// `None` when nobody listens: boxed, so that nobody carries about what is seldom there.
    pub(crate) fn of(claim: &Claim, backend: &'static str) -> Option<Box<Self>> {
        if !tracing::span_enabled!(Level::DEBUG) {
            return None;
        }
        let parent = Span::current().id();
        let acquire = tracing::debug_span!(
            "lockyard.acquire",
            lock.name = %claim.name,
            lock.backend = backend,
            lock.holder = claim.label.as_deref(),
            lock.token = Empty,
            lock.outcome = Empty,
            lock.attempts = Empty,
            lock.wait_seconds = Empty,
        );
        Some(Box::new(Self { acquire, parent, backend }))
    }

    pub(crate) fn acquire(&self) -> Span {
        self.acquire.clone()
    }

    /// How the acquire ended.
    pub(crate) fn ended(&self, outcome: &'static str, attempts: u32, seconds: f64) {
        self.acquire.record("lock.outcome", outcome);
        self.acquire.record("lock.attempts", attempts);
        self.acquire.record("lock.wait_seconds", seconds);
    }

    /// The span of the hold that the acquire ended with.
    pub(crate) fn hold(&self, claim: &Claim, token: Option<FencingToken>) -> Span {
        let token = token.map(FencingToken::get);
        if let Some(token) = token {
            self.acquire.record("lock.token", token);
        }
        let span = tracing::debug_span!(
            parent: self.parent.clone(),
            "lockyard.hold",
            lock.name = %claim.name,
            lock.backend = self.backend,
            lock.holder = claim.label.as_deref(),
            lock.token = token,
            lock.outcome = Empty,
        );
        span.follows_from(&self.acquire);
        span
    }
}

/// The span of a release; `None` when nobody listens.
pub(crate) fn release(claim: &Claim, backend: &'static str) -> Option<Span> {
    if !tracing::span_enabled!(Level::DEBUG) {
        return None;
    }
    Some(tracing::debug_span!(
        "lockyard.release",
        lock.name = %claim.name,
        lock.backend = backend,
        lock.holder = claim.label.as_deref(),
        lock.outcome = Empty,
    ))
}
