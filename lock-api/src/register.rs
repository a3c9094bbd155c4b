//! A value that checks fencing tokens, kept by the same service as the locks.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::{Error, ErrorKind, FencingToken, LockName, Result};

/// A value per name that only the latest holder of a lock can change: the resource's side of fencing.
///
/// No lease lock keeps a paused holder from acting late. A register does, for what is kept in it: each write carries the
/// token of its writer's grant, and the server refuses one that is older than the token of the last write. The version
/// keeps apart two writers of one token, and a write that was repeated. Both are checked in one atomic step of the server.
///
/// A register is a small trait of its own: a backend without it still is one. Its names are those of locks and never
/// collide with a lock's own records, so that the value under a lock may bear the lock's name.
///
/// # Contract
///
/// The checks `register::…` of the conformance suite hold a backend to these lines.
///
/// 1. A name that was never written has no value, no token and [`Version::ABSENT`].
/// 2. A write is accepted if and only if its token is not less than the stored one *and* `expected` is the stored
///    version: then the version changes, and never comes back.
/// 3. A token that is less than the stored one answers [`Write::StaleToken`], whatever the version is; otherwise a
///    version that is not the expected one answers [`Write::Conflict`]. Neither changes anything.
/// 4. Of any number of writers that expect one version, exactly one is answered [`Write::Written`].
/// 5. A read sees every write that was answered before it was asked, by any client.
/// 6. Values outlive clients and sessions, and a restart of the server where its tokens do
///    ([`Fencing::Durable`](crate::Fencing::Durable)).
///
/// # A write of unknown outcome
///
/// When no answer comes, the write may have landed, and may still land later. It cannot land twice, nor after another
/// write that expects the same version was `Written`. So writing again, with the same expected version, is always safe:
/// `Written` means that the second one counts and the first never will. `Conflict` means that the first one, or
/// somebody else's, has come first: read, and compare token and value with what was written. Where two writes of one
/// holder could be alike, put something into the value that tells them apart.
///
/// # Example
///
/// ```
/// use lockyard_api::{FencedRegister, FencingToken, LockName, Result, Write};
///
/// /// Adds one, unless a later holder has written since.
/// async fn count(register: &dyn FencedRegister, name: &LockName, token: FencingToken) -> Result<bool> {
///     loop {
///         let found = register.read(name).await?;
///         let old: u64 = found.value.and_then(|value| String::from_utf8(value).ok()?.parse().ok()).unwrap_or(0);
///         let new = (old + 1).to_string();
///         match register.write(name, new.as_bytes(), token, found.version).await? {
///             Write::Written { .. } => return Ok(true),
///             Write::StaleToken { .. } => return Ok(false), // the lock is somebody else's by now
///             _ => {}                                       // a conflict: read again
///         }
///     }
/// }
/// ```
#[async_trait]
pub trait FencedRegister: fmt::Debug + Send + Sync + 'static {
    /// The value of a name, with the token and the version of its last write.
    ///
    /// # Errors
    /// What the server or the network did.
    ///
    /// # Cancel safety
    /// May be dropped at any await; it changes nothing.
    async fn read(&self, name: &LockName) -> Result<Fenced>;

    /// Replaces the value of a name, if `token` is not less than the stored one and the stored version is `expected`.
    ///
    /// # Errors
    /// `InvalidValue` for more than [`Fenced::MAX_VALUE_BYTES`], before any traffic; otherwise what the server or the
    /// network did. Unless the outcome is `NotApplied`, the write may have landed.
    ///
    /// # Cancel safety
    /// Dropped before its end it may land or not, as one of unknown outcome.
    async fn write(&self, name: &LockName, value: &[u8], token: FencingToken, expected: Version) -> Result<Write>;

    /// Whether [`FencedRegister::age`] tells anything: not unless the register says so.
    fn tells_age(&self) -> bool {
        false
    }

    /// How long ago the value of a name was last written, by the clock of the server alone, to the millisecond; zero where
    /// that clock was set back meanwhile. `None` for a name that was never written, and where
    /// [`FencedRegister::tells_age`] is false.
    ///
    /// # Errors
    /// What the server or the network did.
    ///
    /// # Cancel safety
    /// May be dropped at any await; it changes no value.
    async fn age(&self, name: &LockName) -> Result<Option<Duration>> {
        let _ = name;
        Ok(None)
    }
}

/// What a register holds under a name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Fenced {
    /// The value; `None` when the name was never written. An empty value is one.
    pub value: Option<Vec<u8>>,
    /// The token of the last write.
    pub token: Option<FencingToken>,
    /// The version that the last write made; [`Version::ABSENT`] when there was none.
    pub version: Version,
}

impl Fenced {
    /// The longest value: what every backend carries with its usual settings (ZooKeeper takes 1 MB a request).
    pub const MAX_VALUE_BYTES: usize = 512 * 1024;

    /// A value that was written under this token.
    #[must_use]
    pub const fn new(value: Vec<u8>, token: FencingToken, version: Version) -> Self {
        Self { value: Some(value), token: Some(token), version }
    }

    /// A name that was never written.
    #[must_use]
    pub const fn absent() -> Self {
        Self { value: None, token: None, version: Version::ABSENT }
    }

    /// Checks the length of a value, for backends: before any traffic.
    ///
    /// # Errors
    /// `InvalidValue`, naming the limit.
    pub fn check(value: &[u8]) -> Result<()> {
        if value.len() <= Self::MAX_VALUE_BYTES {
            return Ok(());
        }
        let message = format!(
            "a value has at most {} bytes, this one has {}: keep it elsewhere and its place here",
            Self::MAX_VALUE_BYTES,
            value.len()
        );
        Err(Error::new(ErrorKind::InvalidValue, message).not_applied())
    }

    /// Token and value as one text, for servers that keep one value a key: the token in 20 digits, so that texts compare
    /// as tokens do, a space, and the value.
    #[must_use]
    pub fn encode(value: &[u8], token: FencingToken) -> Vec<u8> {
        let mut text = format!("{:020} ", token.get()).into_bytes();
        text.extend_from_slice(value);
        text
    }

    /// The reverse of [`Fenced::encode`], with the version that the server keeps beside it.
    ///
    /// # Errors
    /// `Protocol` for what is no such text.
    pub fn decode(text: &[u8], version: Version) -> Result<Self> {
        let parts = text.split_at_checked(20).filter(|(digits, _)| digits.iter().all(u8::is_ascii_digit));
        let number = parts.and_then(|(digits, _)| std::str::from_utf8(digits).ok()?.parse().ok());
        match (number, parts.and_then(|(_, rest)| rest.strip_prefix(b" "))) {
            (Some(number), Some(value)) => Ok(Self::new(value.to_vec(), FencingToken::new(number)?, version)),
            _ => Err(Error::new(
                ErrorKind::Protocol,
                "what is stored there is no register of lockyard: another program uses the place, choose another namespace",
            )),
        }
    }

    /// Why a write is refused that has this token and expects this version; `None` when it is accepted. The rule of
    /// the contract, for backends that decide in their own process and for those that are told what is stored.
    #[must_use]
    pub fn refusal(&self, token: FencingToken, expected: Version) -> Option<Write> {
        match self.token {
            Some(stored) if token < stored => Some(Write::StaleToken { stored }),
            _ if self.version != expected => Some(Write::Conflict { version: self.version }),
            _ => None,
        }
    }
}

/// Which write a value comes from. Equal or not: whether one is greater than another says nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Version(u64);

impl Version {
    /// The version of a name that was never written: to expect it is to create.
    pub const ABSENT: Self = Self(0);

    /// The version of this number, which the server gave; it is not 0.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The version as a number: to keep it, and to make it again by [`Version::new`].
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// The answer to a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a write that was refused has changed nothing"]
#[non_exhaustive]
pub enum Write {
    /// It was accepted.
    Written {
        /// The version that it made, which the next write expects.
        version: Version,
    },
    /// A later holder has written: this one has lost the lock, whatever it believes.
    StaleToken {
        /// The token of the last write.
        stored: FencingToken,
    },
    /// The value is not the one that was expected.
    Conflict {
        /// The version that is stored.
        version: Version,
    },
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<T: FencedRegister + ?Sized> FencedRegister for Arc<T> {
    async fn read(&self, name: &LockName) -> Result<Fenced> {
        (**self).read(name).await
    }

    async fn write(&self, name: &LockName, value: &[u8], token: FencingToken, expected: Version) -> Result<Write> {
        (**self).write(name, value, token, expected).await
    }

    fn tells_age(&self) -> bool {
        (**self).tells_age()
    }

    async fn age(&self, name: &LockName) -> Result<Option<Duration>> {
        (**self).age(name).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_token_is_told_before_a_conflict() {
        let token = |number| FencingToken::new(number).expect("small");
        let stored = Fenced::new(Vec::new(), token(5), Version::new(7));
        assert_eq!(stored.refusal(token(5), Version::new(7)), None);
        assert_eq!(stored.refusal(token(6), Version::new(7)), None);
        for version in [7, 8, 0] {
            let refusal = stored.refusal(token(4), Version::new(version));
            assert_eq!(refusal, Some(Write::StaleToken { stored: token(5) }));
        }
        assert_eq!(stored.refusal(token(6), Version::ABSENT), Some(Write::Conflict { version: Version::new(7) }));
        assert_eq!(Fenced::absent().refusal(token(0), Version::ABSENT), None);
        let conflict = Some(Write::Conflict { version: Version::ABSENT });
        assert_eq!(Fenced::absent().refusal(token(9), Version::new(1)), conflict);
    }

    #[test]
    fn texts_read_back_and_compare_as_tokens() {
        let token = |number| FencingToken::new(number).expect("small");
        for value in [&b""[..], b" ", b"x\0\xff"] {
            let fenced = Fenced::new(value.to_vec(), token(768), Version::new(3));
            assert_eq!(Fenced::decode(&Fenced::encode(value, token(768)), Version::new(3)).expect("its own"), fenced);
        }
        assert!(Fenced::encode(b"~", token(9)) < Fenced::encode(b"", token(10)));
        for bad in [
            &b""[..],
            b"00000000000000000768",
            b"00000000000000000768x",
            b"+0000000000000000768 ",
            b"99999999999999999999 ",
        ] {
            assert_eq!(Fenced::decode(bad, Version::new(1)).expect_err("no register").kind(), ErrorKind::Protocol);
        }
    }

    #[test]
    fn the_limit_is_told() {
        assert!(Fenced::check(&vec![0; Fenced::MAX_VALUE_BYTES]).is_ok());
        let error = Fenced::check(&vec![0; Fenced::MAX_VALUE_BYTES + 1]).expect_err("one too many");
        assert_eq!(error.kind(), ErrorKind::InvalidValue);
        assert!(error.message().contains("524288"), "{error}");
    }
}
