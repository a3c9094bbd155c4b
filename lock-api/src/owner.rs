//! The owner of a claim.

use std::fmt;

/// One server-side claim: 128 random bits, new for every acquisition.
///
/// Never a thread, a host, a session or a lock object: two acquisitions never share an owner, so a late release or
/// renewal can only ever touch its own claim.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owner(u128);

impl Owner {
    /// A new owner that nobody has had before.
    #[must_use]
    pub fn random() -> Self {
        Self(rand::random())
    }

    /// An owner with these bits, for tests and for reading back what a server keeps.
    #[must_use]
    pub const fn from_bits(bits: u128) -> Self {
        Self(bits)
    }

    /// Reads the form that [`fmt::Display`] writes: 32 hexadecimal digits.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() != 32 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        u128::from_str_radix(text, 16).ok().map(Self)
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = [0_u8; 32];
        for (pair, byte) in text.chunks_exact_mut(2).zip(self.0.to_be_bytes()) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 15)];
        }
        f.write_str(std::str::from_utf8(&text).unwrap_or_default())
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Owner({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_reads_back() {
        let owner = Owner::from_bits(0xab);
        assert_eq!(owner.to_string(), "000000000000000000000000000000ab");
        assert_eq!(Owner::parse(&owner.to_string()), Some(owner));
        assert_eq!(Owner::parse("ab"), None);
        assert_eq!(Owner::parse("+00000000000000000000000000000ab"), None);
        assert_ne!(Owner::random(), Owner::random());
    }
}
