//! The signals that lockyard is sent.

use std::fs;
use std::future::poll_fn;
use std::io;
use std::task::Poll;

use nix::sys::signal::Signal;
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

/// What is listened to. TERM and its like end a wait; all of them are passed to the command.
const LISTENED: [Signal; 6] =
    [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT, Signal::SIGUSR1, Signal::SIGUSR2];

/// The signals as they come.
#[derive(Debug)]
pub(super) struct Signals {
    streams: Vec<(Signal, Stream)>,
}

impl Signals {
    /// Listens from here on, but not to what was ignored when lockyard started: nohup(1) means it.
    pub(super) fn listen() -> io::Result<Self> {
        let ignored = ignored();
        let wanted = LISTENED.into_iter().filter(|wanted| ignored & bit(*wanted) == 0);
        let streams = wanted.map(|wanted| Ok((wanted, signal(SignalKind::from_raw(wanted as i32))?)));
        Ok(Self { streams: streams.collect::<io::Result<_>>()? })
    }

    /// The next one. Dropped, it misses none.
    pub(super) async fn next(&mut self) -> Signal {
        poll_fn(|cx| {
            for (signal, stream) in &mut self.streams {
                if stream.poll_recv(cx).is_ready() {
                    return Poll::Ready(*signal);
                }
            }
            Poll::Pending
        })
        .await
    }

    /// The next one that ends a wait.
    pub(super) async fn stop(&mut self) -> Signal {
        loop {
            let signal = self.next().await;
            if !matches!(signal, Signal::SIGUSR1 | Signal::SIGUSR2) {
                return signal;
            }
        }
    }
}

/// The mask of ignored signals (proc(5)); none where there is no such file.
fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

const fn bit(signal: Signal) -> u64 {
    1 << (signal as u32 - 1)
}
