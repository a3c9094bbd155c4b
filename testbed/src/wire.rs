//! The few bytes of each protocol that it takes to ask a server how it is. No driver: this crate must not test one client with another.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// The longest answer that is read.
const MOST: u64 = 64 << 20;

/// A connection that speaks RESP2 (<https://redis.io/docs/latest/develop/reference/protocol-spec/>).
#[derive(Debug)]
pub(crate) struct Resp(BufReader<TcpStream>);

impl Resp {
    pub(crate) async fn connect(addr: SocketAddr) -> io::Result<Self> {
        Ok(Self(BufReader::new(TcpStream::connect(addr).await?)))
    }

    /// Sends a command and returns its answer, a string. An error of the server is an error.
    pub(crate) async fn call(&mut self, command: &[&str]) -> io::Result<String> {
        self.0.write_all(encode(command).as_bytes()).await?;
        let mut line = String::new();
        self.0.read_line(&mut line).await?;
        let line = line.trim_end();
        match line.split_at_checked(1) {
            Some(("+" | ":", text)) => Ok(text.to_owned()),
            Some(("-", text)) => Err(io::Error::other(text.to_owned())),
            Some(("$", length)) => self.bulk(length).await,
            _ => Err(io::Error::new(ErrorKind::InvalidData, format!("unexpected answer {line:?}"))),
        }
    }

    async fn bulk(&mut self, length: &str) -> io::Result<String> {
        let length = length.parse::<u64>().map_err(invalid)?.min(MOST);
        let mut text = String::new();
        (&mut self.0).take(length).read_to_string(&mut text).await?;
        self.0.read_line(&mut String::new()).await?;
        Ok(text)
    }
}

/// A command as an array of bulk strings.
pub(crate) fn encode(command: &[&str]) -> String {
    let mut bytes = format!("*{}\r\n", command.len());
    for word in command {
        bytes += &format!("${}\r\n{word}\r\n", word.len());
    }
    bytes
}

/// `GET path` of HTTP/1.0, which is answered without chunks and ends with the connection. Any status but 200 is an error.
pub(crate) async fn http_get(addr: SocketAddr, path: &str) -> io::Result<String> {
    let answer = ask(addr, &format!("GET {path} HTTP/1.0\r\nHost: {addr}\r\n\r\n")).await?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or(ErrorKind::UnexpectedEof)?;
    if head.split(' ').nth(1) == Some("200") {
        Ok(body.to_owned())
    } else {
        Err(io::Error::other(head.lines().next().unwrap_or_default().to_owned()))
    }
}

/// A four letter word of ZooKeeper (<https://zookeeper.apache.org/doc/current/zookeeperAdmin.html#sc_4lw>).
pub(crate) async fn four_letters(addr: SocketAddr, word: &str) -> io::Result<String> {
    ask(addr, word).await
}

async fn ask(addr: SocketAddr, question: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(addr).await?;
    stream.write_all(question.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.take(MOST).read_to_end(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// What Postgres says to a start-up packet.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Greeting {
    /// A session was opened, by a server of this version.
    Welcome(String),
    /// It answers, but wants to see credentials or refuses the user: ready all the same.
    Guarded,
    /// `57P03`: it is starting up or shutting down.
    NotYet,
}

/// Opens a session and ends it (<https://www.postgresql.org/docs/15/protocol-message-formats.html>).
pub(crate) async fn postgres_greeting(addr: SocketAddr, user: &str, database: &str) -> io::Result<Greeting> {
    let mut stream = BufReader::new(TcpStream::connect(addr).await?);
    stream.write_all(&startup(user, database)?).await?;
    let mut version = String::new();
    loop {
        let kind = stream.read_u8().await?;
        let length = stream.read_u32().await?.checked_sub(4).ok_or(ErrorKind::InvalidData)?;
        let mut body = Vec::new();
        (&mut stream).take(u64::from(length)).read_to_end(&mut body).await?;
        match kind {
            b'E' => return Ok(if mentions(&body, "C57P03") { Greeting::NotYet } else { Greeting::Guarded }),
            b'R' if body != [0; 4] => return Ok(Greeting::Guarded),
            b'S' => version = parameter(&body, "server_version").unwrap_or(version),
            b'Z' => break,
            _ => {}
        }
    }
    stream.write_all(&[b'X', 0, 0, 0, 4]).await?;
    Ok(Greeting::Welcome(version))
}

fn startup(user: &str, database: &str) -> io::Result<Vec<u8>> {
    const PROTOCOL_3_0: u32 = 196_608;
    let text = format!("user\0{user}\0database\0{database}\0application_name\0lockyard-testbed\0\0");
    let length = u32::try_from(text.len() + 8).map_err(invalid)?;
    Ok([&length.to_be_bytes()[..], &PROTOCOL_3_0.to_be_bytes()[..], text.as_bytes()].concat())
}

fn mentions(body: &[u8], field: &str) -> bool {
    body.split(|byte| *byte == 0).any(|part| part == field.as_bytes())
}

fn parameter(body: &[u8], name: &str) -> Option<String> {
    let mut parts = body.split(|byte| *byte == 0);
    (parts.next()? == name.as_bytes()).then(|| parts.next().map(|value| String::from_utf8_lossy(value).into_owned()))?
}

fn invalid(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_an_array_of_bulk_strings() {
        assert_eq!(encode(&["GET", "a b"]), "*2\r\n$3\r\nGET\r\n$3\r\na b\r\n");
    }

    #[test]
    fn fields_of_postgres_messages_are_whole() {
        assert!(mentions(b"SFATAL\0C57P03\0Mstarting\0\0", "C57P03"));
        assert!(!mentions(b"SFATAL\0C28P01\0MC57P03 is no code here\0\0", "C57P03"));
        assert_eq!(parameter(b"server_version\x0015.4\0", "server_version"), Some("15.4".to_owned()));
        assert_eq!(parameter(b"TimeZone\0UTC\0", "server_version"), None);
    }
}
