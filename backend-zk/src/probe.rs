//! What answers at an address, asked by `srvr` before a session is opened
//! (<https://zookeeper.apache.org/doc/current/zookeeperAdmin.html#sc_4lw>): the driver hides why nobody grants one.

use std::time::Duration;

use lockyard_api::{Error, ErrorKind, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

const OLDEST: (u32, u32) = (3, 6);

#[derive(Debug, PartialEq, Eq)]
enum Answer {
    /// A server that can hold locks, or one that does not say.
    Usable,
    /// It speaks, but holds no locks: the reason.
    Wrong(String),
    /// It may be usable later.
    Down(String),
}

/// Looks for one usable server among the addresses.
///
/// # Errors
/// `WrongServer` when all that answer are no servers for locks, else `Unreachable`; both say what each address said.
pub(crate) async fn probe(addresses: &[String], limit: Duration) -> Result<()> {
    let share = limit / u32::try_from(addresses.len()).unwrap_or(u32::MAX).saturating_add(1);
    let mut said = Vec::new();
    let mut wrong = false;
    for address in addresses {
        let answer = match timeout(share, ask(address)).await {
            Ok(Ok(text)) => read(&text),
            Ok(Err(error)) => Answer::Down(error.to_string()),
            Err(_) => Answer::Down(format!("it says nothing within {share:?}")),
        };
        let why = match answer {
            Answer::Usable => return Ok(()),
            Answer::Wrong(why) => {
                wrong = true;
                why
            }
            Answer::Down(why) => why,
        };
        said.push(format!("{address}: {why}"));
    }
    let kind = if wrong { ErrorKind::WrongServer } else { ErrorKind::Unreachable };
    Err(Error::new(kind, format!("no ZooKeeper server to use: {}", said.join("; "))).not_applied())
}

async fn ask(address: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(b"srvr").await?;
    let mut text = Vec::new();
    let read = stream.take(16 * 1024).read_to_end(&mut text).await;
    // Many close with a reset behind their last word.
    if text.is_empty() {
        read?;
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

fn read(text: &str) -> Answer {
    if text.contains("not in the whitelist") {
        return Answer::Usable;
    }
    if text.is_empty() {
        return Answer::Down("it closes the connection without a word".to_owned());
    }
    if text.contains("not currently serving") {
        return Answer::Down("it serves no requests: its ensemble has no quorum".to_owned());
    }
    let Some(version) = text.lines().find_map(|line| line.strip_prefix("Zookeeper version: ")) else {
        let first: String = text.lines().next().unwrap_or_default().chars().take(60).collect();
        return Answer::Wrong(format!("it is no ZooKeeper, it answers {first:?}"));
    };
    if text.contains("Mode: read-only") {
        return Answer::Wrong("it only reads, having lost its quorum".to_owned());
    }
    let mut numbers = version.split('.').map(|part| part.parse::<u32>().ok());
    match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(major), Some(minor)) if (major, minor) < OLDEST => {
            Answer::Wrong(format!("it is {major}.{minor}, locks need 3.6 or later"))
        }
        _ => Answer::Usable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_told_apart() {
        let srvr = |version: &str, mode: &str| {
            format!("Zookeeper version: {version}-abc, built on x\nLatency min/avg/max: 0/0.0/0\nMode: {mode}\n")
        };
        assert_eq!(read(&srvr("3.8.0", "standalone")), Answer::Usable);
        assert_eq!(read(&srvr("3.10.1", "follower")), Answer::Usable);
        assert_eq!(read("srvr is not executed because it is not in the whitelist.\n"), Answer::Usable);
        for (text, word) in [
            (srvr("3.5.9", "leader"), "3.5"),
            (srvr("3.8.0", "read-only"), "reads"),
            ("-ERR unknown command 'srvr'\r\n".to_owned(), "no ZooKeeper"),
        ] {
            assert!(matches!(read(&text), Answer::Wrong(why) if why.contains(word)), "{text}");
        }
        assert!(matches!(read(""), Answer::Down(_)));
        assert!(matches!(read("This ZooKeeper instance is not currently serving requests\n"), Answer::Down(_)));
    }
}
