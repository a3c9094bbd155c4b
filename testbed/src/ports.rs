//! Ports that nobody else takes, even while the server that owns them is down.
//!
//! A port out of the kernel's ephemeral range can be taken by any outgoing connection as soon as the server is killed; a client that
//! reconnects in a loop even connects to itself. So ports are drawn from below that range, and reserved for the life of the
//! value by an abstract socket, which the kernel frees when the process dies.

use std::collections::hash_map::RandomState;
use std::fs;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

/// How many ports below the ephemeral range are drawn from.
const SPAN: u16 = 20_000;
const LOWEST: u16 = 2_000;
const TRIES: usize = 1_000;

/// A port of the loopback address that nothing listened on when it was drawn, and that no other testbed draws.
#[derive(Debug)]
pub(crate) struct Port {
    number: u16,
    _reservation: UnixListener,
}

impl Port {
    pub(crate) fn reserve() -> io::Result<Self> {
        Self::reserve_listening().map(|(port, _)| port)
    }

    /// With the listener that proved the port free. Listening anew could fail: a process that another thread has just forked
    /// holds a copy of the first listener until it executes its program.
    pub(crate) fn reserve_listening() -> io::Result<(Self, TcpListener)> {
        let (low, high) = range();
        for _ in 0..TRIES {
            let number = low + draw(high - low);
            let name = SocketAddr::from_abstract_name(format!("lockyard-testbed-port-{number}"))?;
            let Ok(reservation) = UnixListener::bind_addr(&name) else { continue };
            if let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, number)) {
                return Ok((Self { number, _reservation: reservation }, listener));
            }
        }
        Err(io::Error::new(io::ErrorKind::AddrInUse, format!("no free port between {low} and {high}")))
    }

    pub(crate) fn number(&self) -> u16 {
        self.number
    }
}

/// The ports to draw from: below the ephemeral range, or all of them where that leaves too few.
fn range() -> (u16, u16) {
    let ephemeral = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let high = ephemeral.split_whitespace().next().and_then(|low| low.parse().ok()).unwrap_or(32_768_u16);
    if high < LOWEST + 1_000 { (LOWEST, u16::MAX) } else { (high.saturating_sub(SPAN).max(LOWEST), high) }
}

fn draw(below: u16) -> u16 {
    let random = RandomState::new().build_hasher().finish();
    u16::try_from(random % u64::from(below)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_drawn_once_and_can_be_listened_on() {
        let ports: Vec<Port> = (0..50).map(|_| Port::reserve().unwrap()).collect();
        let mut numbers: Vec<u16> = ports.iter().map(Port::number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), 50);
        TcpListener::bind((Ipv4Addr::LOCALHOST, numbers[0])).unwrap();
    }
}
