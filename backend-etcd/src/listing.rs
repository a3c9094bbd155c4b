//! Who is in a queue, as an answer of the server tells it.

use etcd_client::proto::{PbKeyValue, PbRangeResponse, PbTxnOpResponse, PbTxnResponse};

use crate::keys::LockKeys;

/// One contender's key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Contender {
    pub(crate) key: Vec<u8>,
    /// The revision at which the key was created: its place in the queue.
    pub(crate) revision: i64,
}

/// A claim's own key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Own {
    pub(crate) revision: i64,
    pub(crate) lease: i64,
}

impl Own {
    pub(crate) fn of(kv: &PbKeyValue) -> Self {
        Self { revision: kv.create_revision, lease: kv.lease }
    }
}

/// What the server knew of one lock at one revision.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    /// The revision, or the smallest of the pages'.
    pub(crate) revision: i64,
    pub(crate) contenders: Vec<Contender>,
    /// The pages below this create revision were not read yet.
    pub(crate) more_below: Option<i64>,
}

impl Listing {
    /// The contenders among the keys of an answer.
    pub(crate) fn of(keys: &LockKeys, revision: i64, range: PbRangeResponse) -> Self {
        let lowest = range.kvs.iter().map(|kv| kv.create_revision).min();
        let contenders = range
            .kvs
            .into_iter()
            .filter(|kv| keys.is_contender(&kv.key))
            .map(|kv| Contender { key: kv.key, revision: kv.create_revision })
            .collect();
        Self { revision, contenders, more_below: if range.more { lowest } else { None } }
    }
}

/// The answer to an attempt to enter the queue.
#[derive(Debug)]
pub(crate) struct Entered {
    /// The own key after the transaction, new or found.
    pub(crate) own: Option<Own>,
    pub(crate) listing: Listing,
}

impl Entered {
    /// What the answer tells of a transaction that either put the own key, and perhaps read the range, or else read the
    /// own key and the range. `None` when it lacks a part.
    pub(crate) fn of(keys: &LockKeys, lease: i64, answer: PbTxnResponse) -> Option<Self> {
        let revision = answer.header.as_ref()?.revision;
        let mut ranges = answer.responses.into_iter().filter_map(|part| match part.response {
            Some(PbTxnOpResponse::ResponseRange(range)) => Some(range),
            _ => None,
        });
        if answer.succeeded {
            let listing = ranges.next().map(|range| Listing::of(keys, revision, range)).unwrap_or_default();
            return Some(Self { own: Some(Own { revision, lease }), listing });
        }
        let own = ranges.next()?.kvs.first().map(Own::of);
        Some(Self { own, listing: Listing::of(keys, revision, ranges.next()?) })
    }
}
