//! Points of the wall clock, in the one form that records and errors show.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lockyard_api::Clock;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A time of the calendar in whole milliseconds of UTC, from 1970 to the end of the year 9999: what slots are named by.
///
/// Shown, parsed and stored as RFC 3339. Times outside that range become the nearest end of it.
///
/// ```
/// use lockyard_jobs::WallTime;
/// let slot: WallTime = "2026-11-29T02:00:00Z".parse()?;
/// assert_eq!(slot.to_string(), "2026-11-29T02:00:00.000Z");
/// # Ok::<(), humantime::TimestampError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WallTime(u64);

impl WallTime {
    const LAST: u64 = 253_402_300_799_999;

    /// The time that this clock's wall clock shows.
    #[must_use]
    pub fn now(clock: &Clock) -> Self {
        clock.now().wall().into()
    }

    /// The time this many milliseconds after the start of 1970.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(if millis > Self::LAST { Self::LAST } else { millis })
    }

    /// Milliseconds since the start of 1970.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// The time from `earlier` to this one; zero when `earlier` is the later one.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }

    /// The time this much later.
    #[must_use]
    pub fn plus(self, time: Duration) -> Self {
        Self::from_millis(self.0.saturating_add(millis(time)))
    }

    /// The time this much earlier.
    #[must_use]
    pub fn minus(self, time: Duration) -> Self {
        Self(self.0.saturating_sub(millis(time)))
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl From<SystemTime> for WallTime {
    fn from(time: SystemTime) -> Self {
        Self::from_millis(millis(time.duration_since(UNIX_EPOCH).unwrap_or_default()))
    }
}

impl From<WallTime> for SystemTime {
    fn from(time: WallTime) -> Self {
        UNIX_EPOCH + Duration::from_millis(time.0)
    }
}

impl FromStr for WallTime {
    type Err = humantime::TimestampError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        humantime::parse_rfc3339(text).map(Self::from)
    }
}

impl fmt::Display for WallTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        humantime::format_rfc3339_millis((*self).into()).fmt(f)
    }
}

impl fmt::Debug for WallTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for WallTime {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for WallTime {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_can_be_shown_and_read_back() {
        for millis in [0, 1, 999, 1_798_761_600_000, WallTime::LAST, u64::MAX] {
            let time = WallTime::from_millis(millis);
            assert_eq!(time.to_string().parse::<WallTime>().expect("its own text"), time);
        }
        let early = UNIX_EPOCH - Duration::from_secs(5);
        assert_eq!(WallTime::from(early), WallTime::from_millis(0));
        assert_eq!(WallTime::from_millis(5).minus(Duration::MAX), WallTime::from_millis(0));
        assert_eq!(WallTime::from_millis(5).plus(Duration::MAX), WallTime::from_millis(u64::MAX));
    }
}
