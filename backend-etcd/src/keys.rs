//! Where a lock's keys lie: `[prefix/][namespace/]name/owner`.

use std::fmt::Write as _;
use std::sync::Arc;

use lockyard_api::{LockName, Namespace, Owner};

/// The place of a client's locks in the key space.
///
/// One key a claim: `[prefix/][namespace/]name/owner`, with `/` and `%` of the name percent-encoded, so that the range of
/// `a` never covers a claim on `a/b`. A name without them has the very keys that `etcdctl lock` and Go's
/// `concurrency.Mutex` queue by, and shares the lock with them.
#[derive(Debug, Clone)]
pub struct KeySpace {
    base: String,
}

impl KeySpace {
    /// The key space below this prefix (slashes at its ends are dropped) and namespace; either may be empty.
    #[must_use]
    pub fn new(prefix: &str, namespace: &Namespace) -> Self {
        let mut base = String::new();
        for part in [prefix.trim_matches('/'), namespace.as_str()] {
            if !part.is_empty() {
                base.push_str(part);
                base.push('/');
            }
        }
        Self { base }
    }

    /// What every key begins with; empty, or ending with a slash.
    #[must_use]
    pub fn base(&self) -> &str {
        &self.base
    }

    /// The keys of one lock.
    #[must_use]
    pub fn lock(&self, name: &LockName) -> LockKeys {
        let mut range = String::with_capacity(self.base.len() + name.as_str().len() + 1);
        range.push_str(&self.base);
        push_segment(&mut range, name.as_str());
        range.push('/');
        LockKeys { range: Arc::from(range) }
    }

    /// The key of the fenced register of a name: `[prefix/][namespace/]%register/name`. No lock's keys begin so, since a
    /// name's own `%` is encoded.
    #[must_use]
    pub fn register(&self, name: &LockName) -> String {
        let mut key = format!("{}%register/", self.base);
        push_segment(&mut key, name.as_str());
        key
    }
}

/// Appends a name, with what separates names encoded.
fn push_segment(range: &mut String, name: &str) {
    if name.bytes().any(|b| matches!(b, b'/' | b'%')) {
        for letter in name.chars() {
            match letter {
                '/' => range.push_str("%2F"),
                '%' => range.push_str("%25"),
                other => range.push(other),
            }
        }
    } else {
        range.push_str(name);
    }
}

/// The keys of one lock. Cheap to clone.
#[derive(Debug, Clone)]
pub struct LockKeys {
    range: Arc<str>,
}

impl LockKeys {
    /// What the keys of all contenders begin with: `…name/`.
    #[must_use]
    pub fn range(&self) -> &str {
        &self.range
    }

    /// The key of one claim.
    #[must_use]
    pub fn key(&self, owner: Owner) -> String {
        let mut key = String::with_capacity(self.range.len() + 32);
        key.push_str(&self.range);
        // Writing to a string cannot fail.
        let _ = write!(key, "{owner}");
        key
    }

    /// Whether the key is a contender's: ours, or one of a program that names its keys by its lease in hexadecimal
    /// digits. Whatever else lies in the range is no business of the lock.
    #[must_use]
    pub fn is_contender(&self, key: &[u8]) -> bool {
        key.strip_prefix(self.range.as_bytes()).is_some_and(|rest| {
            (1..=32).contains(&rest.len()) && rest.iter().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
        })
    }
}

/// The owner that a key ends with, when it is a key of ours.
pub(crate) fn owner_of(key: &[u8]) -> Option<Owner> {
    let at = key.iter().rposition(|b| *b == b'/')?;
    Owner::parse(std::str::from_utf8(&key[at + 1..]).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(prefix: &str, namespace: &str, name: &str) -> LockKeys {
        let namespace = Namespace::new(namespace).expect("a namespace");
        KeySpace::new(prefix, &namespace).lock(&LockName::new(name).expect("a name"))
    }

    #[test]
    fn a_key_is_prefix_namespace_name_owner() {
        let owner = Owner::from_bits(0xab);
        assert_eq!(lock("", "", "job").key(owner), "job/000000000000000000000000000000ab");
        assert_eq!(lock("/x/y/", "ns", "job").range(), "x/y/ns/job/");
        assert_eq!(lock("", "ns", "a/b%").range(), "ns/a%2Fb%25/");
        assert_eq!(lock("", "ns", "é🔒").range(), "ns/é🔒/");
        assert_eq!(owner_of(lock("", "ns", "job").key(owner).as_bytes()), Some(owner));
        assert_eq!(owner_of(b"ns/job/694d"), None);
    }

    // B06, B69
    #[test]
    fn only_contenders_of_this_very_name_count() {
        let keys = lock("", "ns", "a");
        for contender in ["ns/a/694d8c3e", "ns/a/000000000000000000000000000000ab", "ns/a/0"] {
            assert!(keys.is_contender(contender.as_bytes()), "{contender}");
        }
        for other in [
            "ns/a/",
            "ns/a/config",
            "ns/a/foo-bar",
            "ns/a/x-0000000000",
            "ns/a/b/694d",
            "ns/a%2Fb/694d",
            "ns/ab/694d",
            "ns/a/000000000000000000000000000000ab0",
            "ns/a/AB",
        ] {
            assert!(!keys.is_contender(other.as_bytes()), "{other}");
        }
        assert_ne!(lock("", "ns", "a/b").range(), lock("", "ns", "a%2Fb").range());
        let register = KeySpace::new("x", &Namespace::default()).register(&LockName::new("a/b").expect("a name"));
        assert_eq!(register, "x/lockyard/%register/a%2Fb");
        assert_eq!(lock("x", "lockyard", "%register").range(), "x/lockyard/%25register/");
    }
}
