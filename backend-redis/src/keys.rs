//! The keys of a lock, and who asks for it.

use std::fmt::Write as _;

use lockyard_api::{LockName, Namespace};
use percent_encoding::{AsciiSet, percent_decode_str, utf8_percent_encode};

/// Braces would choose the cluster slot, `%` is what encodes them.
const ENCODED: &AsciiSet = &AsciiSet::EMPTY.add(b'{').add(b'}').add(b'%');

/// Makes keys: `namespace:name` is the lock, `{namespace:name}:…` are what belongs to it, all in one cluster slot.
///
/// No two names share a key: a key of the second form holds braces, a lock key never does.
#[derive(Debug, Clone)]
pub(crate) struct Keys {
    prefix: String,
}

/// The keys of one lock, in the order in which the scripts take them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LockKeys {
    /// One text `{lock}:queue` that the others are cut from or made of.
    braced: String,
    lock: usize,
}

impl Keys {
    pub(crate) fn new(namespace: &Namespace) -> Self {
        // A namespace holds nothing that needs encoding.
        let prefix = if namespace.is_empty() { String::new() } else { format!("{namespace}:") };
        Self { prefix }
    }

    pub(crate) fn of(&self, name: &LockName) -> LockKeys {
        let mut braced = String::with_capacity(self.prefix.len() + name.as_str().len() + 16);
        let _ = write!(braced, "{{{}{}", self.prefix, utf8_percent_encode(name.as_str(), ENCODED));
        LockKeys::close(braced)
    }
}

impl Keys {
    /// The pattern of `SCAN` for the counters of all names that begin so (<https://redis.io/docs/latest/commands/keys/>).
    pub(crate) fn counters(&self, beginning: &str) -> String {
        let mut pattern = String::from("{");
        for c in format!("{}{}", self.prefix, utf8_percent_encode(beginning, ENCODED)).chars() {
            if matches!(c, '*' | '?' | '[' | ']' | '^' | '-' | '\\') {
                pattern.push('\\');
            }
            pattern.push(c);
        }
        pattern + "*}:token"
    }

    /// The name that a key found by that pattern counts for; nothing for a key that is not ours.
    pub(crate) fn counted(&self, key: &str) -> Option<LockName> {
        let encoded = key.strip_prefix('{')?.strip_suffix("}:token")?.strip_prefix(&self.prefix)?;
        let name = LockName::new(percent_decode_str(encoded).decode_utf8().ok()?).ok()?;
        (self.of(&name).lock() == &key[1..key.len() - 7]).then_some(name)
    }
}

impl LockKeys {
    /// The keys that belong to a lock key as a message names it.
    pub(crate) fn from_lock_key(lock: &str) -> Self {
        Self::close(format!("{{{lock}"))
    }

    fn close(mut braced: String) -> Self {
        let lock = braced.len();
        braced.push_str("}:");
        Self { braced, lock }
    }

    pub(crate) fn lock(&self) -> &str {
        &self.braced[1..self.lock]
    }

    pub(crate) fn register(&self) -> String {
        format!("{}register", self.braced)
    }

    /// Calls `each` with the four keys: lock, token, queue, meta.
    pub(crate) fn for_each(&self, mut each: impl FnMut(&str)) {
        each(self.lock());
        let mut key = String::with_capacity(self.braced.len() + 5);
        for part in ["token", "queue", "meta"] {
            key.clear();
            key.push_str(&self.braced);
            key.push_str(part);
            each(&key);
        }
    }
}

/// Host and process, as `inspect` shows them.
pub(crate) fn origin() -> String {
    let name = rustix::system::uname();
    let host: String = name.nodename().to_string_lossy().chars().filter(|c| !c.is_whitespace()).collect();
    format!("{}:{}", if host.is_empty() { "unknown" } else { &host }, std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn all(namespace: &str, name: &str) -> Vec<String> {
        let keys = Keys::new(&Namespace::new(namespace).expect("a namespace"));
        let mut all = Vec::new();
        let keys = keys.of(&LockName::new(name).expect("a name"));
        keys.for_each(|key| all.push(key.to_owned()));
        all.push(keys.register());
        all
    }

    #[test]
    fn the_lock_key_is_what_other_clients_use() {
        let keys = all("lockyard", "job:sync");
        let expected = [
            "lockyard:job:sync",
            "{lockyard:job:sync}:token",
            "{lockyard:job:sync}:queue",
            "{lockyard:job:sync}:meta",
            "{lockyard:job:sync}:register",
        ];
        assert_eq!(keys, expected);
        assert_eq!(all("", "job")[0], "job");
        assert_eq!(all("", "{job}")[0], "%7Bjob%7D");
    }

    #[test]
    fn a_counter_tells_its_name() {
        let keys = Keys::new(&Namespace::default());
        for text in ["job:sync", "a {b}%", "x*[y]?", "}:token"] {
            let name = LockName::new(text).expect("a name");
            let counter = format!("{{{}}}:token", keys.of(&name).lock());
            assert_eq!(keys.counted(&counter), Some(name));
        }
        assert_eq!(keys.counters("a*b"), "{lockyard:a\\*b*}:token");
        for foreign in ["{other:a}:token", "{lockyard:a}:queue", "{lockyard:%7b}:token", "{lockyard:}:token"] {
            assert_eq!(keys.counted(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn the_keys_of_a_lock_key_are_the_same() {
        let keys = Keys::new(&Namespace::default()).of(&LockName::new("a {b}%").expect("a name"));
        assert_eq!(LockKeys::from_lock_key(keys.lock()), keys);
    }

    /// B06: names that begin alike, hold separators or look like another name's keys.
    #[test]
    fn names_that_differ_share_no_key() {
        let names =
            ["a", "a:b", "a/b", "a}:queue", "{a}:queue", "%7Ba%7D:queue", "{lockyard:a}:token", "A", "é", "e\u{301}"];
        let mut seen = HashSet::new();
        for name in names {
            for key in all("lockyard", name) {
                assert!(seen.insert(key.clone()), "{key} of {name:?} is another name's too");
            }
        }
    }
}
