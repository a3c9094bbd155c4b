//! Counts the commands that clients send to a Redis server.
//!
//! No counter of Redis 7.0 tells them: `total_commands_processed` and `commandstats` count the commands inside scripts as well
//! (seen: an `EVAL` of two commands counts three). `MONITOR` marks those as `lua`
//! (<https://redis.io/docs/latest/commands/monitor/>). It leaves out administrative commands and those with passwords.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::ready::Contact;
use crate::requests::Requests;
use crate::{timing, wire};

/// Begins the text of an `ECHO` that marks a place in the stream and is not counted.
const MARK: &str = "lockyard-testbed-mark-";
const PATIENCE: Duration = Duration::from_secs(5);

/// A connection in `MONITOR` mode and the thread that reads it: the count goes on between the runtimes of several tests.
#[derive(Debug)]
pub(crate) struct Monitor {
    stream: TcpStream,
    tally: Arc<Mutex<Tally>>,
}

#[derive(Debug, Default)]
struct Tally {
    requests: Requests,
    /// The largest mark that was read.
    mark: u64,
    /// The last mark that was sent.
    sent: u64,
}

impl Monitor {
    /// Connects and counts from here on. Blocks for a round trip.
    pub(crate) fn attach(contact: &Contact) -> io::Result<Self> {
        let stream = TcpStream::connect(contact.addr)?;
        stream.set_read_timeout(Some(timing::scaled(PATIENCE)))?;
        let mut lines = BufReader::new(stream.try_clone()?);
        if let Some(password) = &contact.password {
            call(&mut lines, &["AUTH", password])?;
        }
        call(&mut lines, &["MONITOR"])?;
        stream.set_read_timeout(None)?;
        let monitor = Self { stream, tally: Arc::default() };
        let tally = Arc::clone(&monitor.tally);
        // It ends when the connection does: with the server or with the monitor.
        thread::Builder::new().name("redis-monitor".into()).spawn(move || count(lines, &tally))?;
        Ok(monitor)
    }

    /// The mark to send next, as the argument of an `ECHO`, and its number.
    pub(crate) fn next_mark(&self) -> (u64, String) {
        let mut tally = lock(&self.tally);
        tally.sent += 1;
        (tally.sent, format!("{MARK}{}", tally.sent))
    }

    /// What was counted, once the stream has shown the mark: everything the server executed before it is counted then.
    pub(crate) fn requests_past(&self, mark: u64) -> Option<Requests> {
        let tally = lock(&self.tally);
        (tally.mark >= mark).then(|| tally.requests.clone())
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        let _already_closed = self.stream.shutdown(Shutdown::Both);
    }
}

fn call(lines: &mut BufReader<TcpStream>, command: &[&str]) -> io::Result<()> {
    lines.get_mut().write_all(wire::encode(command).as_bytes())?;
    let mut answer = String::new();
    lines.read_line(&mut answer)?;
    if answer.starts_with("+OK") { Ok(()) } else { Err(io::Error::other(answer.trim_end().to_owned())) }
}

fn count(lines: BufReader<TcpStream>, tally: &Mutex<Tally>) {
    for line in lines.lines() {
        let Ok(line) = line else { return };
        let Some((command, arguments)) = client_command(&line) else { continue };
        let mut tally = lock(tally);
        match arguments.trim_matches('"').strip_prefix(MARK).and_then(|mark| mark.parse().ok()) {
            Some(mark) if command == "echo" => tally.mark = tally.mark.max(mark),
            _ => tally.requests.add(&command, 1),
        }
    }
}

/// The command, in lower case, and the rest of a line like `+1700000000.1 [0 127.0.0.1:50000] "set" "k" "v"`, unless a script ran it.
fn client_command(line: &str) -> Option<(String, &str)> {
    let (origin, command) = line.split_once("] \"")?;
    if origin.ends_with(" lua") {
        return None;
    }
    let (name, arguments) = command.split_once('"')?;
    Some((name.to_ascii_lowercase(), arguments.trim_start()))
}

fn lock(tally: &Mutex<Tally>) -> MutexGuard<'_, Tally> {
    tally.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_of_scripts_are_not_of_clients() {
        let client = r#"+1700000000.1 [0 127.0.0.1:50000] "SET" "k" "v""#;
        assert_eq!(client_command(client), Some(("set".into(), r#""k" "v""#)));
        assert_eq!(client_command(r#"+1700000000.1 [0 lua] "get" "k""#), None);
        assert_eq!(client_command(r#"+1700000000.1 [0 127.0.0.1:5] "ping""#), Some(("ping".into(), "")));
        assert_eq!(client_command("+OK"), None);
    }
}
