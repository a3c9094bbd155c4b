//! Fencing tokens.

use std::fmt;

use crate::{Error, ErrorKind, Result};

/// A number that rises strictly with every grant of a name: what a resource checks to refuse a late holder.
///
/// It is the number that the server gave times 256, plus the number of the hand-off inside a process, so that hand-offs
/// have larger tokens without asking the server. Compare tokens of one name only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FencingToken(u64);

impl FencingToken {
    /// How many hand-offs inside a process one server number has room for.
    pub const HANDOFFS: u64 = 256;
    const MAX_SERVER_NUMBER: u64 = (1 << 63) / Self::HANDOFFS - 1;

    /// The token of a number that the server gave.
    ///
    /// # Errors
    /// `Protocol` when the number is so large that the token would come near 2^63: a token never wraps.
    pub fn from_server(number: u64) -> Result<Self> {
        if number > Self::MAX_SERVER_NUMBER {
            return Err(Error::new(
                ErrorKind::Protocol,
                format!(
                    "the server's token number {number} is beyond {}: its counter was tampered with, reset it",
                    Self::MAX_SERVER_NUMBER
                ),
            ));
        }
        Ok(Self(number * Self::HANDOFFS))
    }

    /// The token of the number that [`FencingToken::get`] gave: one that was kept or sent.
    ///
    /// # Errors
    /// `Protocol` when no token is so large.
    pub fn new(number: u64) -> Result<Self> {
        Self::from_server(number / Self::HANDOFFS).map(|_| Self(number))
    }

    /// The token of the next holder inside the process. `None` when the server's number has no room for more.
    pub(crate) const fn handed_on(self) -> Option<Self> {
        if self.0 % Self::HANDOFFS == Self::HANDOFFS - 1 { None } else { Some(Self(self.0 + 1)) }
    }

    /// The token as a number. Keep it in 64 bits; in JSON write it as a string.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The number as the server knows it.
    #[must_use]
    pub const fn server_number(self) -> u64 {
        self.0 / Self::HANDOFFS
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_never_wraps() {
        assert_eq!(FencingToken::from_server(3).expect("small").get(), 768);
        assert_eq!(FencingToken::from_server(3).expect("small").server_number(), 3);
        let largest = FencingToken::from_server(FencingToken::MAX_SERVER_NUMBER).expect("the largest");
        assert_eq!(
            FencingToken::new(largest.get() + 255).expect("a hand-off").server_number(),
            largest.server_number()
        );
        assert!(FencingToken::new(largest.get() + 256).is_err());
        for number in [FencingToken::MAX_SERVER_NUMBER + 1, u64::MAX] {
            assert_eq!(FencingToken::from_server(number).expect_err("too large").kind(), ErrorKind::Protocol);
        }
    }
}
