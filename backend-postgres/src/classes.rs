//! The ttl classes of sessions: a session's timeout is a setting of its start-up packet, so it comes in steps.

use std::time::Duration;

use lockyard_api::TtlRange;

/// The timeouts that sessions are opened with, in seconds.
const CLASSES: [u64; 9] = [1, 2, 5, 10, 15, 30, 60, 120, 300];

/// The ttls that session-bound modes take.
pub(crate) const RANGE: TtlRange =
    TtlRange::new(Duration::from_secs(1), Duration::from_secs(300), Duration::from_secs(1));

/// The smallest class that is no shorter than `ttl`, which has passed the check against [`RANGE`].
pub(crate) fn class_of(ttl: Duration) -> Duration {
    let class = CLASSES.iter().map(|seconds| Duration::from_secs(*seconds)).find(|class| *class >= ttl);
    class.unwrap_or(RANGE.max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_never_shorter_than_the_ttl() {
        for (ttl, class) in [(1000, 1), (1001, 2), (3000, 5), (30_000, 30), (30_001, 60), (300_000, 300)] {
            assert_eq!(class_of(Duration::from_millis(ttl)), Duration::from_secs(class));
        }
    }
}
