//! Starts that are spread, so that all hosts do not ask at the same moment.

use std::hash::Hasher;
use std::time::Duration;

use fnv::FnvHasher;

use crate::args::StartArgs;

/// How long to wait before asking for the lock.
pub(super) fn delay(start: &StartArgs, name: &str) -> Duration {
    match (start.jitter, start.stable_jitter) {
        (Some(most), _) => most.mul_f64(fastrand::f64()),
        (None, Some(most)) => most.mul_f64(share(&host(), name)),
        (None, None) => Duration::ZERO,
    }
}

/// At least 0 and less than 1; the same for a host and a name, whatever the version of lockyard.
fn share(host: &str, name: &str) -> f64 {
    let mut hasher = FnvHasher::default();
    for part in [host, name] {
        hasher.write(part.as_bytes());
        hasher.write_u8(0xff);
    }
    // The low bits of FNV are mixed best. Half of 64 bits always fits.
    let mixed = (hasher.finish() ^ (hasher.finish() << 32)) >> 32;
    f64::from(u32::try_from(mixed).unwrap_or_default()) / (f64::from(u32::MAX) + 1.0)
}

pub(super) fn host() -> String {
    nix::unistd::gethostname().map_or_else(|_| "?".to_owned(), |host| host.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_its_time_and_hosts_are_spread() {
        let shares: Vec<f64> = (0..200).map(|number| share(&format!("web-{number}"), "job")).collect();
        assert_eq!(shares[7].to_bits(), share("web-7", "job").to_bits());
        assert!(shares.iter().all(|share| (0.0..1.0).contains(share)));
        let early = shares.iter().filter(|share| **share < 0.5).count();
        assert!((60..=140).contains(&early), "{early} of 200 hosts start in the first half");
        assert!((share("web-1", "job") - share("web-1", "other")).abs() > f64::EPSILON);
    }
}
