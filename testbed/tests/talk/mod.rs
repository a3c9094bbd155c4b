//! One write and one read of each service, in the bytes of its protocol: no client library stands between the test and the server.

use std::io;

use lockyard_testbed::{Server, Service};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Writes a mark, answered, and returns the requests that it took, by method in alphabetical order.
pub(crate) async fn write(server: &Server) -> io::Result<Vec<(&'static str, u64)>> {
    match server.service() {
        Service::Redis => {
            // A script, whose inner command is no request.
            let answer =
                redis(server, "EVAL \"return redis.call('SET', 'mark', 'x')\" 0\r\nSET other x\r\n", "+OK\r\n+OK\r\n")
                    .await?;
            answered(&answer, "+OK\r\n+OK\r\n")?;
            Ok(vec![("eval", 1), ("set", 1)])
        }
        Service::Postgres => {
            answered(&postgres(server, "CREATE TABLE mark (x int)").await?, "CREATE TABLE")?;
            Ok(vec![("statement", 1)])
        }
        Service::Etcd => {
            // key = "mark", value = "x", in base64, through the gateway, which is a gRPC client of its own server.
            let answer = etcd(server, "put", r#"{"key":"bWFyaw==","value":"eA=="}"#).await?;
            answered(&answer, "revision")?;
            Ok(vec![("Put", 1)])
        }
        _ => {
            let answer = zookeeper(server, 1, &create_request()).await?;
            answered(&answer, "/mark")?;
            Ok(vec![("closeSession", 1), ("create", 1), ("createSession", 1)])
        }
    }
}

/// Whether the mark is there.
pub(crate) async fn read(server: &Server) -> io::Result<bool> {
    Ok(match server.service() {
        Service::Redis => redis(server, "EXISTS mark\r\n", ":1\r\n").await?.starts_with(":1"),
        Service::Postgres => !postgres(server, "SELECT count(*) FROM mark").await?.contains("42P01"),
        Service::Etcd => etcd(server, "range", r#"{"key":"bWFyaw=="}"#).await?.contains("kvs"),
        _ => zookeeper_error(&zookeeper(server, 3, &exists_request()).await?) == Some(0),
    })
}

fn answered(answer: &str, expected: &str) -> io::Result<()> {
    if answer.contains(expected) { Ok(()) } else { Err(io::Error::other(format!("unexpected answer {answer:?}"))) }
}

async fn redis(server: &Server, commands: &str, whole: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(server.addr()).await?;
    stream.write_all(commands.as_bytes()).await?;
    let mut answer = vec![0; whole.len()];
    stream.read_exact(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

async fn etcd(server: &Server, method: &str, body: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(server.addr()).await?;
    let head = format!("POST /v3/kv/{method} HTTP/1.0\r\nContent-Length: {}\r\n\r\n", body.len());
    stream.write_all(format!("{head}{body}").as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

/// A session of user postgres, one simple query, and everything that was answered to it.
async fn postgres(server: &Server, query: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(server.addr()).await?;
    let hello = b"\0\x03\0\0user\0postgres\0database\0postgres\0\0";
    stream.write_all(&[&length(hello.len() + 4)[..], hello].concat()).await?;
    until_ready(&mut stream).await?;
    stream.write_all(&[b"Q", &length(query.len() + 5)[..], query.as_bytes(), b"\0"].concat()).await?;
    let answer = until_ready(&mut stream).await?;
    stream.write_all(b"X\0\0\0\x04").await?;
    Ok(answer)
}

async fn until_ready(stream: &mut TcpStream) -> io::Result<String> {
    let mut all = Vec::new();
    loop {
        let kind = stream.read_u8().await?;
        let mut body = vec![0; stream.read_u32().await? as usize - 4];
        stream.read_exact(&mut body).await?;
        all.extend(body);
        if kind == b'Z' {
            return Ok(String::from_utf8_lossy(&all).into_owned());
        }
    }
}

/// A session, one request of type `operation`, and its answer; the session is closed.
async fn zookeeper(server: &Server, operation: u32, request: &[u8]) -> io::Result<String> {
    let mut stream = TcpStream::connect(server.addr()).await?;
    // Protocol version, last zxid, timeout, session id, password.
    let connect = [&length(0)[..], &[0; 8], &length(10_000), &[0; 8], &length(16), &[0; 16]].concat();
    frame(&mut stream, &connect).await?;
    let answer = frame(&mut stream, &[&length(1)[..], &operation.to_be_bytes(), request].concat()).await?;
    frame(&mut stream, &[&length(2)[..], &(-11_i32).to_be_bytes()].concat()).await?;
    Ok(answer.iter().map(|byte| char::from(*byte)).collect())
}

async fn frame(stream: &mut TcpStream, body: &[u8]) -> io::Result<Vec<u8>> {
    stream.write_all(&[&length(body.len())[..], body].concat()).await?;
    let mut answer = vec![0; stream.read_u32().await? as usize];
    stream.read_exact(&mut answer).await?;
    Ok(answer)
}

/// The error of an answer: xid, zxid, error, and so on.
fn zookeeper_error(answer: &str) -> Option<u32> {
    answer.chars().skip(12).take(4).try_fold(0, |number, byte| Some(number << 8 | u32::from(u8::try_from(byte).ok()?)))
}

/// Path, data, one entry of the access list (all permissions, `world:anyone`), no flags.
fn create_request() -> Vec<u8> {
    [text("/mark"), text("x"), length(1).into(), length(31).into(), text("world"), text("anyone"), length(0).into()]
        .concat()
}

/// Path, no watch.
fn exists_request() -> Vec<u8> {
    [text("/mark"), vec![0]].concat()
}

fn text(text: &str) -> Vec<u8> {
    [&length(text.len())[..], text.as_bytes()].concat()
}

fn length(length: usize) -> [u8; 4] {
    u32::try_from(length).map_or([0; 4], u32::to_be_bytes)
}
