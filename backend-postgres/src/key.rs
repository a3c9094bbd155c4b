//! From a lock name to the number that Postgres locks.

use lockyard_api::{LockName, Namespace};
use sha2::{Digest, Sha256};

/// What an advisory lock is taken on: one 64-bit number, or two of 32 bits, which never meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    One(i64),
    Two(i32, i32),
}

/// What a session can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Target {
    /// An advisory lock.
    Key(Key),
    /// The one row that the session's transaction has locked.
    Row,
}

impl From<Key> for Target {
    fn from(key: Key) -> Self {
        Self::Key(key)
    }
}

impl Key {
    /// The key of a name: the literal forms `pg:42` and `pg:1,2` are these numbers, so that locks of other programs can be
    /// joined; everything else is the first 8 bytes of SHA-256 over namespace, a zero byte and the name.
    pub(crate) fn of(namespace: &Namespace, name: &LockName) -> Self {
        Self::literal(name.as_str()).unwrap_or_else(|| Self::hashed(namespace, name))
    }

    /// Only the form in which a number prints itself is literal: two names are never one lock by their spelling.
    fn literal(name: &str) -> Option<Self> {
        let numbers = name.strip_prefix("pg:")?;
        let key = match numbers.split_once(',') {
            None => Self::One(numbers.parse().ok()?),
            Some((first, second)) => Self::Two(first.parse().ok()?, second.parse().ok()?),
        };
        (key.to_string() == name).then_some(key)
    }

    fn hashed(namespace: &Namespace, name: &LockName) -> Self {
        let digest =
            Sha256::new().chain_update(namespace.as_str()).chain_update([0]).chain_update(name.as_str()).finalize();
        let mut first = [0; 8];
        first.copy_from_slice(&digest[..8]);
        Self::One(i64::from_be_bytes(first))
    }

    /// How a statement without parameters gives it to a lock function.
    pub(crate) fn arguments(self) -> String {
        match self {
            Self::One(key) => format!("'{key}'::int8"),
            Self::Two(first, second) => format!("'{first}'::int4, '{second}'::int4"),
        }
    }

    /// How `pg_locks` shows it: `classid << 32 | objid`, and `objsubid`.
    pub(crate) fn from_lock_table(packed: i64, objsubid: i16) -> Self {
        let bytes = packed.to_be_bytes();
        let [a, b, c, d, e, f, g, h] = bytes;
        if objsubid == 2 {
            Self::Two(i32::from_be_bytes([a, b, c, d]), i32::from_be_bytes([e, f, g, h]))
        } else {
            Self::One(packed)
        }
    }

    /// The reverse of [`Key::from_lock_table`].
    pub(crate) fn to_lock_table(self) -> (i64, i16) {
        match self {
            Self::One(key) => (key, 1),
            Self::Two(first, second) => {
                let [a, b, c, d] = first.to_be_bytes();
                let [e, f, g, h] = second.to_be_bytes();
                (i64::from_be_bytes([a, b, c, d, e, f, g, h]), 2)
            }
        }
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::One(key) => write!(f, "pg:{key}"),
            Self::Two(first, second) => write!(f, "pg:{first},{second}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        Key::of(&Namespace::default(), &LockName::new(name).expect("a name"))
    }

    #[test]
    fn literal_names_are_numbers_in_one_spelling() {
        assert_eq!(key("pg:42"), Key::One(42));
        assert_eq!(key("pg:-9223372036854775808"), Key::One(i64::MIN));
        assert_eq!(key("pg:1,-2"), Key::Two(1, -2));
        for other in ["pg:+42", "pg:042", "pg:42 ", "pg:1,02", "pg:1,2,3", "pg:9223372036854775808", "pg:", "pg:-0"] {
            assert!(matches!(key(other), Key::One(hash) if hash.unsigned_abs() > 1 << 32), "{other}");
        }
    }

    #[test]
    fn the_hash_is_stable_and_tells_namespace_from_name() {
        assert_eq!(key("a"), key("a"));
        let other = Namespace::new("other").expect("a namespace");
        assert_ne!(key("a"), Key::of(&other, &LockName::new("a").expect("a name")));
        // printf 'lockyard\0a' | sha256sum
        assert_eq!(key("a"), Key::One(i64::from_be_bytes([0xfa, 0x49, 0x35, 0x0a, 0xae, 0x2a, 0xdf, 0x8f])));
    }

    #[test]
    fn keys_read_back_from_the_lock_table() {
        for key in [Key::One(-1), Key::One(i64::MIN), Key::One(1 << 40), Key::Two(-1, 7), Key::Two(i32::MIN, -1)] {
            let (packed, objsubid) = key.to_lock_table();
            assert_eq!(Key::from_lock_table(packed, objsubid), key);
        }
    }
}
