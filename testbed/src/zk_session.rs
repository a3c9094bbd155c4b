//! Ending somebody else's session of ZooKeeper, as its server does when it expires one: no command of the server does that.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The number and the operation of a request that closes a session (`OpCode.closeSession`).
const CLOSE: [u8; 8] = [0, 0, 0, 1, 0xFF, 0xFF, 0xFF, 0xF5];
/// The longest answer that is read: a session is told in less.
const MOST: usize = 1 << 12;

/// Ends a session: its ephemeral nodes go, and its client is told when it speaks to the server again.
///
/// A session is joined by its number and a password, which the server does not keep: it makes it of the number
/// (`SessionTrackerImpl`, `ZooKeeperServer.generatePasswd`), and so does this.
///
/// # Errors
/// What the network did; `NotFound` when the server knows no such session any more.
///
/// # Cancel safety
/// The session may have ended.
pub async fn end_zookeeper_session(server: SocketAddr, session: i64) -> io::Result<()> {
    let mut stream = TcpStream::connect(server).await?;
    send(&mut stream, &join(session)).await?;
    // Protocol version, timeout, session: a session that has ended is answered with zeros.
    let answer = receive(&mut stream).await?;
    if answer.get(8..16) != Some(&session.to_be_bytes()) {
        return Err(ErrorKind::NotFound.into());
    }
    send(&mut stream, &CLOSE).await?;
    receive(&mut stream).await.map(drop)
}

/// `ConnectRequest`: protocol version, last transaction seen, timeout in ms, session, password, read-only.
fn join(session: i64) -> Vec<u8> {
    let mut request = vec![0; 12];
    request.extend(10_000_i32.to_be_bytes());
    request.extend(session.to_be_bytes());
    request.extend(16_i32.to_be_bytes());
    request.extend(password(session));
    request.push(0);
    request
}

/// `new Random(session ^ superSecret).nextBytes(new byte[16])`
/// (<https://docs.oracle.com/javase/8/docs/api/java/util/Random.html>).
fn password(session: i64) -> Vec<u8> {
    const MULTIPLIER: u64 = 0x5_DEEC_E66D;
    const MASK: u64 = (1 << 48) - 1;
    let mut seed = (session.cast_unsigned() ^ 0xB341_5C00 ^ MULTIPLIER) & MASK;
    let next = || {
        seed = (seed.wrapping_mul(MULTIPLIER) + 0xB) & MASK;
        // The upper 32 of 48 bits, least byte first.
        (seed >> 16).to_le_bytes().into_iter().take(4)
    };
    std::iter::repeat_with(next).take(4).flatten().collect()
}

async fn send(stream: &mut TcpStream, request: &[u8]) -> io::Result<()> {
    let length = u32::try_from(request.len()).map_err(io::Error::other)?;
    stream.write_all(&[&length.to_be_bytes()[..], request].concat()).await
}

async fn receive(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let length = stream.read_u32().await? as usize;
    let mut answer = vec![0; length.min(MOST)];
    stream.read_exact(&mut answer).await?;
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_password_is_that_of_the_servers_random() {
        // What the Java of a server answered.
        let first = |session| password(session)[..8].to_vec();
        assert_eq!(password(42).len(), 16);
        assert_eq!(first(42), [0xc8, 0x13, 0xee, 0x49, 0x56, 0x20, 0xc3, 0xa6]);
        assert_eq!(password(0x0100_1234_5678_0001)[8..], [0x5d, 0x49, 0x62, 0xda, 0xb4, 0xfb, 0x39, 0x83]);
        assert_eq!(first(-5), [0xd4, 0x71, 0x44, 0xb5, 0xe4, 0x5e, 0x45, 0xc4]);
    }
}
