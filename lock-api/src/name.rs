//! Names of locks: one rule for every backend.

use std::fmt;
use std::hash::Hasher;
use std::num::NonZeroU32;
use std::str::FromStr;
use std::sync::Arc;

use fnv::FnvHasher;
use smol_str::SmolStr;

use crate::{Error, ErrorKind, Result};

/// The name of a lock: 1 to 512 bytes of UTF-8 without control characters.
///
/// The same rule holds on every backend; what a server cannot carry, its backend encodes. Names are compared byte by
/// byte: the composed and the decomposed form of an accented letter are two names.
///
/// ```
/// use lockyard_api::LockName;
/// assert_eq!(LockName::new("report:daily")?.as_str(), "report:daily");
/// assert!(LockName::new("").is_err());
/// # Ok::<(), lockyard_api::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockName(SmolStr);

impl LockName {
    /// The longest name, in bytes of UTF-8.
    pub const MAX_BYTES: usize = 512;

    /// Checks a name and takes it.
    ///
    /// # Errors
    /// `InvalidName` when it is empty, longer than [`LockName::MAX_BYTES`] bytes, or holds a control character; the
    /// message says which and where.
    pub fn new(name: impl AsRef<str>) -> Result<Self> {
        let name = name.as_ref();
        if name.is_empty() {
            return Err(invalid("a lock name has at least one character".to_owned()));
        }
        if name.len() > Self::MAX_BYTES {
            return Err(invalid(format!(
                "a lock name has at most {} bytes, this one has {}",
                Self::MAX_BYTES,
                name.len()
            )));
        }
        // Most names are plain, and that is quickly told.
        let plain = name.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        if !plain && let Some((at, found)) = name.char_indices().find(|(_, c)| c.is_control()) {
            return Err(invalid(format!(
                "a lock name holds no control characters, this one has U+{:04X} at byte {at}: remove it or encode it",
                u32::from(found)
            )));
        }
        // Most names are short, and cost no allocation then; clones of a long one share it.
        Ok(Self(SmolStr::new(name)))
    }

    /// Checks a name that comes as bytes, from a command line for one.
    ///
    /// # Errors
    /// As [`LockName::new`], and `InvalidName` when the bytes are not UTF-8.
    pub fn from_bytes(name: &[u8]) -> Result<Self> {
        let text = std::str::from_utf8(name).map_err(|e| {
            invalid(format!("a lock name is UTF-8, this one breaks at byte {}", e.valid_up_to())).with_source(e)
        })?;
        Self::new(text)
    }

    /// The shard of `key` among `of` locks named `name#0`, `name#1`, …: fewer locks than keys, where one lock for all would
    /// let nobody work beside another. Everybody must say the same `of`; two keys may share a shard, so never hold two
    /// shards of one name at once except through [`Locker::acquire_all`](crate::Locker::acquire_all).
    ///
    /// The shard is FNV-1a (64 bits) of the key, modulo `of`: the same in every version and on every machine.
    ///
    /// # Errors
    /// `InvalidName` when the name with its number is none.
    ///
    /// ```
    /// use lockyard_api::LockName;
    /// # use std::num::NonZeroU32;
    /// let of = NonZeroU32::new(64).expect("not zero");
    /// assert_eq!(LockName::shard("orders", "customer-42", of)?, LockName::shard("orders", "customer-42", of)?);
    /// # Ok::<(), lockyard_api::Error>(())
    /// ```
    pub fn shard(name: &str, key: impl AsRef<[u8]>, of: NonZeroU32) -> Result<Self> {
        let mut hasher = FnvHasher::default();
        hasher.write(key.as_ref());
        Self::new(format!("{name}#{}", hasher.finish() % u64::from(of.get())))
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn invalid(message: String) -> Error {
    Error::new(ErrorKind::InvalidName, message).not_applied()
}

impl fmt::Display for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl AsRef<str> for LockName {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl FromStr for LockName {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Self::new(name)
    }
}

/// The namespace that a client's locks live in; names of different namespaces never meet.
///
/// At most 128 bytes; no `:`, brace, slash, `%` or control character, so that it can stand inside a key, a path or a
/// file name without being encoded. Empty is allowed when asked for: the lock then has the bare name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Namespace(Arc<str>);

impl Namespace {
    /// The namespace used unless another is given: `lockyard`.
    pub const DEFAULT: &'static str = "lockyard";
    /// The longest namespace, in bytes.
    pub const MAX_BYTES: usize = 128;

    /// Checks a namespace and takes it.
    ///
    /// # Errors
    /// `Config` when it is too long or holds a character that is not allowed; the message names the character.
    pub fn new(namespace: impl AsRef<str>) -> Result<Self> {
        let namespace = namespace.as_ref();
        if namespace.len() > Self::MAX_BYTES {
            let len = namespace.len();
            return Err(Error::config(format!(
                "a namespace has at most {} bytes, this one has {len}",
                Self::MAX_BYTES
            )));
        }
        if let Some(found) =
            namespace.chars().find(|c| matches!(c, ':' | '{' | '}' | '/' | '\\' | '%') || c.is_control())
        {
            return Err(Error::config(format!(
                "namespace {namespace:?} holds {found:?}: use letters, digits, '-', '_' or '.'"
            )));
        }
        if matches!(namespace, "." | "..") {
            return Err(Error::config(format!("namespace {namespace:?} is a path of its own: choose another")));
        }
        Ok(Self(Arc::from(namespace)))
    }

    /// The namespace as text; may be empty.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is the empty namespace.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Default for Namespace {
    fn default() -> Self {
        Self(Arc::from(Self::DEFAULT))
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_no_names_say_why() {
        for (name, word) in [
            ("", "at least one"),
            ("a\0b", "U+0000 at byte 1"),
            ("\n", "U+000A"),
            ("a\u{7f}", "U+007F"),
            ("a\u{85}", "U+0085"),
        ] {
            let error = LockName::new(name).expect_err(name);
            assert_eq!(error.kind(), ErrorKind::InvalidName);
            assert!(error.message().contains(word), "{error}");
        }
        let error = LockName::new("x".repeat(513)).expect_err("too long");
        assert!(error.message().contains("at most 512 bytes, this one has 513"), "{error}");
        let error = LockName::from_bytes(&[b'a', 0xff]).expect_err("not UTF-8");
        assert!(error.message().contains("byte 1"), "{error}");
    }

    #[test]
    fn names_with_anything_else_are_names() {
        for name in
            ["a/b", "a//b", "/a", "a/", ".", "..", "zookeeper", "é", "e\u{301}", "🔒", "שלום", "a b", "{x}", "%2F"]
        {
            assert_eq!(LockName::new(name).expect(name).as_str(), name);
        }
        assert!(LockName::new("x".repeat(512)).is_ok());
    }

    #[test]
    fn shards_are_stable_and_spread() {
        let of = NonZeroU32::new(8).expect("not zero");
        let shard = |key: &str| LockName::shard("orders", key, of).expect("a name").to_string();
        // FNV-1a of "a" is af63dc4c8601ec8c.
        assert_eq!(shard("a"), "orders#4");
        let mut counts = std::collections::BTreeMap::new();
        for key in 0..8000 {
            *counts.entry(shard(&key.to_string())).or_insert(0) += 1;
        }
        assert_eq!(counts.len(), 8);
        assert!(counts.values().all(|count| (800..1200).contains(count)), "{counts:?}");
        assert!(LockName::shard(&"x".repeat(511), "a", of).is_err());
    }

    #[test]
    fn namespaces() {
        assert_eq!(Namespace::default().as_str(), "lockyard");
        assert!(Namespace::new("").expect("empty is allowed").is_empty());
        for bad in ["a:b", "a/b", "{", "%", "..", "a\n"] {
            assert_eq!(Namespace::new(bad).expect_err(bad).kind(), ErrorKind::Config);
        }
    }
}
