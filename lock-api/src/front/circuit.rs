//! The circuit breaker around acquire: while the service is out of reach none is sent.

use super::core::Core;
use crate::{Error, ErrorKind};

impl Core {
    /// The error of an acquire that is not sent because too many before it have failed.
    pub(crate) fn refusal(&self) -> Option<Error> {
        let open = self.breaker.as_ref()?.enter().err()?;
        let message = format!(
            "{} acquires in a row could not reach the service: none is sent for {:.1?}",
            open.failures, open.retry_in
        );
        Some(Error::new(ErrorKind::Unreachable, message).not_applied())
    }

    /// Tells the breaker what came of an acquire that was sent: that a name is held is an answer, and so is a refusal.
    pub(crate) fn judge(&self, error: Option<&Error>) {
        let Some(breaker) = &self.breaker else { return };
        let is_out_of_reach = error.is_some_and(|error| error.kind() == ErrorKind::Unreachable);
        self.events.circuit(if is_out_of_reach { breaker.failed() } else { breaker.succeeded() });
    }
}
