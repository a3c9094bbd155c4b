//! The scripts that run at the server, as they are sent: for benchmarks that compare with the bare driver, and for people
//! who grant an access control list.
//!
//! | script | KEYS | ARGV | answer |
//! |---|---|---|---|
//! | [`acquire`] | lock, token, queue, meta | owner, ttl in ms, origin and label, channel and request number or empty | text: the token, granted · number: ms that the holder has left, busy · list: ms left and place, queued |
//! | [`release`] | lock, token, queue, meta | owner | 1 held · 2 waited · 0 had nothing |
//! | [`renew`] | lock | owner, ttl in ms | 1 renewed · 0 lost |
//! | [`inspect`] | lock, token, queue, meta | | nothing, or a list |
//! | [`collect`] | lock, token, queue, meta | least time unused in ms, 1: remove | 0 nothing is kept · 1 in use · 2 used since · 3 unused |
//! | [`register_read`] | register | | nothing, or a list: value, token, version |
//! | [`register_write`] | register | value, token, expected version | list: 0 and the new version, written · 1 and the stored token, stale · 2 and the stored version, conflict |
//!
//! The keys of the name `n` in the namespace `s` are `s:n`, `{s:n}:token`, `{s:n}:queue`, `{s:n}:meta`, `{s:n}:register`.
//!
//! Source: <https://redis.io/docs/latest/develop/interact/programmability/eval-intro/>.

use std::sync::LazyLock;

use lockyard_api::{LockName, Namespace};
use redis::Script;

use crate::keys::Keys;

const ACQUIRE: &str = concat!(include_str!("lua/grant.lua"), include_str!("lua/acquire.lua"));
const RELEASE: &str = concat!(include_str!("lua/grant.lua"), include_str!("lua/release.lua"));
const RENEW: &str = include_str!("lua/renew.lua");
const INSPECT: &str = include_str!("lua/inspect.lua");
const COLLECT: &str = include_str!("lua/collect.lua");
const REGISTER_READ: &str = include_str!("lua/register_read.lua");
const REGISTER_WRITE: &str = include_str!("lua/register_write.lua");

/// The channels that clients listen to begin with this.
pub const CHANNEL_PREFIX: &str = "lockyard:wake:";

/// The keys of a name in the order in which the scripts take them: lock, token, queue, meta.
///
/// ```
/// use lockyard_api::{LockName, Namespace};
/// let (namespace, name) = (Namespace::new("shop")?, LockName::new("a{b}")?);
/// let [lock, token, ..] = lockyard_redis::scripts::keys(&namespace, &name);
/// assert_eq!((lock.as_str(), token.as_str()), ("shop:a%7Bb%7D", "{shop:a%7Bb%7D}:token"));
/// # Ok::<(), lockyard_api::Error>(())
/// ```
#[must_use]
pub fn keys(namespace: &Namespace, name: &LockName) -> [String; 4] {
    let mut keys = [const { String::new() }; 4];
    let mut next = keys.iter_mut();
    Keys::new(namespace).of(name).for_each(|key| {
        if let Some(place) = next.next() {
            key.clone_into(place);
        }
    });
    keys
}

/// Takes the lock, or a place in its queue.
#[must_use]
pub const fn acquire() -> &'static str {
    ACQUIRE
}

/// Gives back a hold or a place, and hands the lock on.
#[must_use]
pub const fn release() -> &'static str {
    RELEASE
}

/// Restarts a lease.
#[must_use]
pub const fn renew() -> &'static str {
    RENEW
}

/// Tells who holds the lock.
#[must_use]
pub const fn inspect() -> &'static str {
    INSPECT
}

/// Removes the counter of a name that nobody uses.
#[must_use]
pub const fn collect() -> &'static str {
    COLLECT
}

/// Tells what a register holds.
#[must_use]
pub const fn register_read() -> &'static str {
    REGISTER_READ
}

/// Writes a register, unless token or version are against it.
#[must_use]
pub const fn register_write() -> &'static str {
    REGISTER_WRITE
}

/// The keys that a script is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Of {
    /// Only the lock itself.
    Lock,
    /// All four keys of a lock.
    All,
    /// The register of the name.
    Register,
}

/// A script with its digest, by which the server knows it after the first call.
pub(crate) struct Known {
    pub(crate) text: &'static str,
    pub(crate) keys: Of,
    digest: LazyLock<String>,
}

impl Known {
    pub(crate) fn digest(&self) -> &str {
        &self.digest
    }
}

macro_rules! known {
    ($text:ident, $keys:ident) => {
        Known { text: $text, keys: Of::$keys, digest: LazyLock::new(|| Script::new($text).get_hash().to_owned()) }
    };
}

pub(crate) static ACQUIRING: Known = known!(ACQUIRE, All);
pub(crate) static RELEASING: Known = known!(RELEASE, All);
pub(crate) static RENEWING: Known = known!(RENEW, Lock);
pub(crate) static INSPECTING: Known = known!(INSPECT, All);
pub(crate) static COLLECTING: Known = known!(COLLECT, All);
pub(crate) static REGISTER_READING: Known = known!(REGISTER_READ, Register);
pub(crate) static REGISTER_WRITING: Known = known!(REGISTER_WRITE, Register);
