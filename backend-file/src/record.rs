//! What stands in a lock file: the token number, and who took the lock last.

use serde::{Deserialize, Serialize};

use lockyard_api::{Claim, Error, ErrorKind, Result};

/// How many numbers are made safe against a crash of the host at once: one flush to the disk for each so many grants.
const BLOCK: u64 = 256;
const VERSION: u32 = 1;

/// The content of a lock file, one line of JSON. Written only by the holder of its lock.
///
/// `number` is written without a flush: the death of a process does not lose it. Numbers below `ceiling` may have been
/// given out; `ceiling` is flushed before it is used. After the host has started anew (`boot` differs) counting goes on
/// from there, so that no number comes twice.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    v: u32,
    pub(crate) number: u64,
    ceiling: u64,
    boot: String,
    /// False from the release on, and until a grant is written down: whoever has the kernel's lock then does not hold the
    /// name. After a crash it stays true, and the kernel's lock is free.
    pub(crate) held: bool,
    pub(crate) owner: String,
    pub(crate) pid: u32,
    /// On the clock that counts from the start of the host, in nanoseconds.
    pub(crate) since: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) label: Option<String>,
}

impl Record {
    /// Reads a file's content; empty content is a lock that nobody has taken yet, whose numbers begin above `floor`.
    pub(crate) fn read(content: &[u8], floor: u64) -> Result<Self> {
        if content.is_empty() {
            return Ok(Self { v: VERSION, number: floor, ceiling: floor, ..Self::default() });
        }
        let record: Self = serde_json::from_slice(content).map_err(|e| {
            Error::new(
                ErrorKind::Protocol,
                "the lock file holds no record of lockyard: move it away if it is not needed (tokens of the name begin anew)",
            )
            .not_applied()
            .with_source(e)
        })?;
        if record.v > VERSION {
            let message = format!("the lock file was written by a newer lockyard (version {} of its record)", record.v);
            return Err(Error::new(ErrorKind::Protocol, message).not_applied());
        }
        Ok(record)
    }

    /// The record of the next grant, and whether it must be flushed before the grant is told.
    pub(crate) fn next(&self, claim: &Claim, boot: &str, since: u64) -> (Self, bool) {
        let last = if self.boot == boot { self.number } else { self.ceiling.max(self.number) };
        let number = last.saturating_add(1);
        let flush = number > self.ceiling || self.boot != boot;
        let ceiling = if flush { number.saturating_add(BLOCK) } else { self.ceiling };
        let record = Self {
            v: VERSION,
            number,
            ceiling,
            boot: boot.to_owned(),
            held: true,
            owner: claim.owner.to_string(),
            pid: std::process::id(),
            since,
            label: claim.label.as_deref().map(str::to_owned),
        };
        (record, flush)
    }

    /// The largest number that may have been given out.
    pub(crate) fn last(&self) -> u64 {
        self.number.max(self.ceiling)
    }

    pub(crate) fn to_line(&self) -> Vec<u8> {
        // A record of plain fields always becomes JSON.
        let mut line = serde_json::to_vec(self).unwrap_or_default();
        line.push(b'\n');
        line
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lockyard_api::LockName;

    use super::*;

    #[test]
    fn numbers_rise_across_a_crash_of_the_host() {
        let claim = Claim::new(LockName::new("x").expect("a name"), Duration::from_secs(1));
        let mut record = Record::read(b"", 7).expect("empty");
        let (first, flush) = record.next(&claim, "boot-1", 1);
        assert_eq!((first.number, flush), (8, true));
        record = first.clone();
        for _ in 0..300 {
            record = record.next(&claim, "boot-1", 1).0;
        }
        assert_eq!(record.number, 308);
        // The host crashes; the disk has the last flushed record only.
        let flushed = Record { number: first.number, ceiling: record.ceiling, ..first };
        let (after, flush) = flushed.next(&claim, "boot-2", 1);
        assert!(after.number > record.number && flush);
        assert_eq!(Record::read(&after.to_line(), 0).expect("its own form"), after);
    }

    #[test]
    fn a_file_that_is_none_of_ours_is_told() {
        assert!(Record::read(b"hello", 0).expect_err("no record").message().contains("no record of lockyard"));
        let newer = br#"{"v":9,"number":1,"ceiling":1,"boot":"","held":true,"owner":"","pid":1,"since":1}"#;
        assert!(Record::read(newer, 0).expect_err("newer").message().contains("newer"));
    }
}
