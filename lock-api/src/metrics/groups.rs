//! The group of a name: a label that cannot grow without bound.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use super::series::GroupSeries;
use crate::LockName;

/// How many groups there are at most, beside [`OTHER`].
const MOST: usize = 64;
/// What does not fit.
const OTHER: &str = "other";
const DEFAULT: &str = "default";

/// Which group a name belongs to.
#[derive(Clone)]
pub struct Groups(Choice);

#[derive(Clone)]
enum Choice {
    Default,
    /// The part of a name before its first colon, when it is one of these.
    Prefixes(Vec<Box<str>>),
    By(Arc<dyn Fn(&LockName) -> String + Send + Sync>),
}

impl Groups {
    /// One group, `default`, for all names.
    #[must_use]
    pub const fn one() -> Self {
        Self(Choice::Default)
    }

    /// The part of a name before its first colon, if it is one of these; otherwise `other`. Of more than 64 the rest is
    /// `other` too.
    pub fn by_prefix<P: Into<Box<str>>>(prefixes: impl IntoIterator<Item = P>) -> Self {
        Self(Choice::Prefixes(prefixes.into_iter().map(Into::into).take(MOST).collect()))
    }

    /// What `choose` says of a name. The first 64 different answers are groups, the rest is `other`: let it answer few.
    pub fn by(choose: impl Fn(&LockName) -> String + Send + Sync + 'static) -> Self {
        Self(Choice::By(Arc::new(choose)))
    }
}

impl Default for Groups {
    fn default() -> Self {
        Self::one()
    }
}

impl fmt::Debug for Groups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Choice::Default => f.write_str("Groups::one"),
            Choice::Prefixes(prefixes) => f.debug_tuple("Groups::by_prefix").field(prefixes).finish(),
            Choice::By(_) => f.write_str("Groups::by"),
        }
    }
}

/// The series of each group.
pub(super) struct Registry {
    backend: &'static str,
    choice: Choice,
    known: RwLock<HashMap<Box<str>, Arc<GroupSeries>>>,
}

impl Registry {
    /// With the groups that are known beforehand.
    pub(super) fn new(backend: &'static str, Groups(choice): Groups) -> Self {
        let first: Vec<Box<str>> = match &choice {
            Choice::Default => vec![DEFAULT.into()],
            Choice::Prefixes(prefixes) => prefixes.iter().cloned().chain([OTHER.into()]).collect(),
            Choice::By(_) => vec![OTHER.into()],
        };
        let series = |group: Box<str>| (group.clone(), Arc::new(GroupSeries::new(backend, &group)));
        Self { backend, known: RwLock::new(first.into_iter().map(series).collect()), choice }
    }

    /// Counts something in the group of the name.
    pub(super) fn of(&self, name: &LockName, count: impl FnOnce(&GroupSeries)) {
        let series = match &self.choice {
            Choice::Default => self.known(DEFAULT),
            Choice::Prefixes(_) => {
                let prefix = name.as_str().split_once(':').map(|(prefix, _)| prefix);
                prefix.and_then(|prefix| self.known(prefix)).or_else(|| self.known(OTHER))
            }
            Choice::By(choose) => self.known_or_new(&choose(name)),
        };
        if let Some(series) = series {
            count(&series);
        }
    }

    fn known(&self, group: &str) -> Option<Arc<GroupSeries>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).get(group).map(Arc::clone)
    }

    fn known_or_new(&self, group: &str) -> Option<Arc<GroupSeries>> {
        if let Some(series) = self.known(group) {
            return Some(series);
        }
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        // `other` is one of them.
        if known.len() > MOST && !known.contains_key(group) {
            return known.get(OTHER).map(Arc::clone);
        }
        let series = known.entry(group.into()).or_insert_with(|| Arc::new(GroupSeries::new(self.backend, group)));
        Some(Arc::clone(series))
    }
}
