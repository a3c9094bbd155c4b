//! What this process uses, by the kernel's account.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::side::{Outcome, Trouble};

/// The processor time that this process has used.
pub(super) fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let (seconds, nanos) = (u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0));
    Duration::new(seconds, nanos)
}

/// The memory of this process that is in use, in bytes.
pub(super) fn resident() -> Outcome<u64> {
    let statm = fs::read_to_string("/proc/self/statm")?;
    let pages = statm.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
    let pages = pages.ok_or_else(|| Trouble::new("the kernel does not tell the resident set"))?;
    Ok(pages * rustix::param::page_size() as u64)
}

/// The established TCP connections of this process to a port, by inode.
pub(super) fn connections_to(port: u16) -> Outcome<BTreeSet<u64>> {
    let mut ours = BTreeSet::new();
    for entry in fs::read_dir("/proc/self/fd")? {
        // Closed in the meantime: not ours any more.
        let Ok(link) = entry.and_then(|entry| fs::read_link(entry.path())) else { continue };
        let inode =
            link.to_str().and_then(|link| link.strip_prefix("socket:[")?.strip_suffix(']')?.parse::<u64>().ok());
        ours.extend(inode);
    }
    let mut found = BTreeSet::new();
    for table in ["/proc/self/net/tcp", "/proc/self/net/tcp6"] {
        // A kernel without IPv6 has no such table.
        let Ok(table) = fs::read_to_string(table) else { continue };
        found.extend(table.lines().filter_map(|line| established_to(line, port)));
    }
    Ok(found.intersection(&ours).copied().collect())
}

/// The inode of an established connection to this port. Source: `Documentation/networking/proc_net_tcp.rst`.
fn established_to(line: &str, port: u16) -> Option<u64> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let remote = u16::from_str_radix(fields.get(2)?.rsplit_once(':')?.1, 16).ok()?;
    let established = *fields.get(3)? == "01";
    (established && remote == port).then(|| fields.get(9)?.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_established_connections_to_the_port_count() {
        let line = "   1: 0100007F:D2A4 0100007F:18EB 01 00000000:00000000 00:00000000 00000000     0        0 4711 1 0 20 4 30 10 -1";
        assert_eq!((established_to(line, 0x18eb), established_to(line, 0xd2a4)), (Some(4711), None));
        assert_eq!(established_to(&line.replace(" 01 ", " 06 "), 0x18eb), None);
        assert_eq!(established_to("  sl  local_address rem_address   st tx_queue rx_queue tr tm->when", 1), None);
    }

    #[test]
    fn our_own_connections_are_found_and_those_of_the_other_end_are_not() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        assert_eq!(connections_to(port).expect("tables").len(), 0);
        let client = std::net::TcpStream::connect(("127.0.0.1", port)).expect("a connection");
        let server = listener.accept().expect("a connection");
        assert_eq!(connections_to(port).expect("tables").len(), 1);
        drop((client, server));
    }

    #[test]
    fn memory_that_is_written_to_is_resident() {
        let before = resident().expect("statm");
        let filled = std::hint::black_box(vec![1_u8; 64 << 20]);
        let after = resident().expect("statm");
        assert!(after >= before + (48 << 20), "{before} {after} {}", filled.len());
    }
}
