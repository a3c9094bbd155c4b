//! Removal of what a service keeps of names that nobody uses any more.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::Result;

/// Removes what a backend keeps of a lock name beyond its holds: counters, rows, files, empty directories.
///
/// A small trait of its own: a backend that keeps nothing, or whose server removes it by itself, has nothing to do.
///
/// # Contract
///
/// 1. A name that is held, or that somebody waits for, is left alone, however old its records are. Whether it is stands in
///    the same atomic step of the server as the removal: an acquire at the same moment comes before it, and the name is in use,
///    or after it, and the name is new.
/// 2. Tokens go on rising across a removal where the backend's fencing is [`Durable`](crate::Fencing::Durable): what keeps
///    them from falling is never removed.
/// 3. Values of a [`FencedRegister`](crate::FencedRegister) are data of their writers and stay.
#[async_trait]
pub trait GarbageCollect: fmt::Debug + Send + Sync + 'static {
    /// Looks for the names of this client's namespace that are unused, and removes what is kept of them.
    ///
    /// # Errors
    /// What the server or the network did. What was removed before it stays removed.
    ///
    /// # Cancel safety
    /// May be dropped at any await: some names may have been removed, and each of them wholly.
    async fn collect(&self, unused: &Unused) -> Result<Collected>;
}

/// Which names count as unused.
///
/// ```
/// use std::time::Duration;
/// use lockyard_api::Unused;
///
/// let jobs = Unused::for_at_least(Duration::from_secs(7 * 24 * 3600)).with_prefix("job:").only_look();
/// assert_eq!(jobs.prefix, "job:");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unused {
    /// How long a name must have been unused, by the clock of the server.
    pub time: Duration,
    /// How the names begin; empty for all.
    pub prefix: String,
    /// Nothing is removed, only looked for.
    pub dry_run: bool,
}

impl Unused {
    /// Names that nobody has used for at least this time.
    #[must_use]
    pub const fn for_at_least(time: Duration) -> Self {
        Self { time, prefix: String::new(), dry_run: false }
    }

    /// Only names that begin with this.
    #[must_use]
    pub fn with_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Removes nothing.
    #[must_use]
    pub const fn only_look(mut self) -> Self {
        self.dry_run = true;
        self
    }
}

/// What a collection found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Collected {
    /// The names that were removed, or would be; a record whose name cannot be told from it is named by itself.
    pub removed: Vec<String>,
    /// How many names are held or waited for.
    pub in_use: u64,
    /// How many are free and were used too short a time ago.
    pub recent: u64,
    /// How many are free, and the backend keeps no time of their use: they go when the time asked for is zero.
    pub undated: u64,
}

impl Collected {
    /// Nothing was found.
    #[must_use]
    pub const fn new() -> Self {
        Self { removed: Vec::new(), in_use: 0, recent: 0, undated: 0 }
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<T: GarbageCollect + ?Sized> GarbageCollect for Arc<T> {
    async fn collect(&self, unused: &Unused) -> Result<Collected> {
        (**self).collect(unused).await
    }
}
