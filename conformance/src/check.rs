//! One check of the suite.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use crate::{Checked, Context};

/// A running check.
pub type CheckFuture<'a> = Pin<Box<dyn Future<Output = Checked> + Send + 'a>>;

/// What a check disturbs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reach {
    /// Its own names and clients: it runs beside others.
    Own,
    /// The whole server: it runs alone.
    Server,
}

/// A named check of one clause of the contract.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Check {
    /// `clause::name`; stable within a version of the suite.
    pub name: &'static str,
    /// The clause of the contract, 1 to 16; 0 for the front end over the backend.
    pub clause: u8,
    /// What it disturbs.
    pub reach: Reach,
    /// The version of the suite that it came with.
    pub since: u32,
    /// Runs it.
    pub run: for<'a> fn(&'a Context) -> CheckFuture<'a>,
}

impl Check {
    /// A check that runs beside others, of the first version.
    #[must_use]
    pub const fn new(name: &'static str, clause: u8, run: for<'a> fn(&'a Context) -> CheckFuture<'a>) -> Self {
        Self { name, clause, reach: Reach::Own, since: 1, run }
    }

    /// The check, running alone since it disturbs the whole server.
    #[must_use]
    pub const fn alone(mut self) -> Self {
        self.reach = Reach::Server;
        self
    }

    /// The check, as one that came with the second version.
    #[must_use]
    pub(crate) const fn v2(mut self) -> Self {
        self.since = 2;
        self
    }
}

impl fmt::Debug for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Check").field("name", &self.name).field("clause", &self.clause).finish_non_exhaustive()
    }
}
