//! What clients of one server did and were told, and whether that can be true of a lock.
//!
//! A [`History`] is a list of [`Event`]s on one time base (`CLOCK_BOOTTIME`, which the processes of a machine share), the
//! [`FaultWindow`]s in which something was broken, and the [`Rules`] that the backend promises to keep. [`History::check`]
//! finds two holders of a name at a time, tokens that fall and a fenced register that took an older token; what a fault
//! explains is counted, everything else is a [`Violation`] that names its two events. Histories are written and read as
//! lines of JSON.
//!
//! ```
//! use std::time::Duration;
//! use lockyard_conformance::history::{Event, History, Rules, What};
//!
//! let granted = |at, process, token| {
//!     let what = What::Granted { owner: format!("{process:032x}"), token: Some(token), until: at + 100 };
//!     Event::new(at, process, 1, "job", what)
//! };
//! let mut history = History::new(Rules::strict());
//! history.events = vec![granted(10, 1, 256), Event::new(50, 1, 1, "job", What::Release), granted(60, 2, 512)];
//! assert!(history.check().violations.is_empty());
//! history.events.remove(1);
//! assert_eq!(history.check().violations.len(), 1); // the first still held when the second was let in
//! ```

mod check;
mod event;
mod hold;
mod lines;
mod register;
mod rules;
#[cfg(test)]
mod tests;
mod tokens;
mod verdict;

pub use event::{Event, FaultKind, FaultWindow, What};
pub use lines::ReadError;
pub use rules::Rules;
pub use verdict::{Overlap, Verdict, Violation};

/// Events, faults and rules of one run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct History {
    /// What the backend promises, with what it is allowed under faults.
    pub rules: Rules,
    /// What happened, in any order.
    pub events: Vec<Event>,
    /// What was broken, in any order.
    pub faults: Vec<FaultWindow>,
}

impl History {
    /// A history in which nothing has happened yet.
    #[must_use]
    pub const fn new(rules: Rules) -> Self {
        Self { rules, events: Vec::new(), faults: Vec::new() }
    }
}
