//! What is said, and where: machine output on stdout, everything else on stderr.

use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use comfy_table::{Table, presets};
use serde_json::json;
use tracing_subscriber::EnvFilter;

use crate::args::{Color, LogFormat, VoiceArgs};

/// How lines look; the same for the whole process.
static JSON: AtomicBool = AtomicBool::new(false);
static COLOURED: AtomicBool = AtomicBool::new(false);

/// A line on stderr, with the name of the program. A stderr that is closed is nobody's trouble.
pub(crate) fn say(message: impl fmt::Display) {
    let mut stderr = io::stderr().lock();
    let _ = if JSON.load(Ordering::Relaxed) {
        writeln!(stderr, "{}", json!({ "program": "lockyard", "message": message.to_string() }))
    } else if COLOURED.load(Ordering::Relaxed) {
        writeln!(stderr, "\u{1b}[1mlockyard:\u{1b}[0m {message}")
    } else {
        writeln!(stderr, "lockyard: {message}")
    };
}

/// Text on stdout, for the reader that asked for it.
pub(crate) fn print(text: impl fmt::Display) {
    let _ = writeln!(io::stdout().lock(), "{text}");
}

/// Rows under their headers, without lines.
pub(crate) fn columns(headers: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(headers);
    table.add_rows(rows);
    // The preset pads every line, the first column too.
    table.lines().map(|line| line.trim().to_owned()).collect::<Vec<_>>().join("\n")
}

/// A time to two units: `2m 5s`, `12.4s`.
pub(crate) fn rough(time: Duration) -> String {
    if time < Duration::from_secs(60) {
        return format!("{:.1}s", time.as_secs_f64());
    }
    humantime::format_duration(Duration::from_secs(time.as_secs())).to_string()
}

/// How much a command says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Voice {
    quiet: bool,
    verbose: bool,
}

impl Voice {
    pub(crate) const fn new(quiet: bool, verbose: u8) -> Self {
        Self { quiet, verbose: verbose > 0 }
    }

    /// Something that has to be known.
    pub(crate) fn warn(self, message: impl fmt::Display) {
        if !self.quiet {
            say(message);
        }
    }

    /// Something for a person who looks on: with `-v`, or on a terminal.
    pub(crate) fn tell(self, message: impl fmt::Display) {
        if self.verbose || (!self.quiet && io::stderr().is_terminal()) {
            say(message);
        }
    }

    /// Something for a person who asked with `-v`.
    pub(crate) fn note(self, message: impl fmt::Display) {
        if self.verbose {
            say(message);
        }
    }
}

/// Sets how lines look, and shows what the library logs: from `-vv` on.
pub(crate) fn set_up(voice: VoiceArgs) {
    let json = voice.log_format == Some(LogFormat::Json);
    JSON.store(json, Ordering::Relaxed);
    COLOURED.store(is_coloured(voice.color.unwrap_or_default()), Ordering::Relaxed);
    let level = match voice.verbose {
        0 | 1 => return,
        2 => "lockyard=debug",
        _ => "lockyard=trace",
    };
    let filter = EnvFilter::new(level.replace("lockyard", "warn,lockyard"));
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).with_target(true);
    // Nobody else sets one in this process.
    let _ = if json { subscriber.json().try_init() } else { subscriber.try_init() };
}

/// As <https://no-color.org> has it.
fn is_coloured(color: Color) -> bool {
    match color {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
    }
}
