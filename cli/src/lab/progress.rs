//! Progress on stderr: a bar on a terminal, a line now and then elsewhere.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::output::say;

/// Off a terminal a line is written at each of so many parts of the way.
const PARTS: usize = 10;

/// How far something is.
#[derive(Debug)]
pub(super) struct Progress {
    bar: ProgressBar,
    /// How many parts of the way were told off a terminal; `None` when other lines show the progress.
    told: Option<Mutex<usize>>,
}

impl Progress {
    /// Nothing is known yet but what it is about.
    pub(super) fn new(what: &str) -> Self {
        Self { told: Some(Mutex::new(0)), ..Self::beside_lines(what) }
    }

    /// The same, saying nothing off a terminal, where a line for each step is printed anyway.
    pub(super) fn beside_lines(what: &str) -> Self {
        Self::with(ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr()), what)
    }

    /// The same, as one of several at once.
    pub(super) fn among(bars: &MultiProgress, what: &str) -> Self {
        Self::with(bars.add(ProgressBar::new(0)), what)
    }

    fn with(bar: ProgressBar, what: &str) -> Self {
        let style = ProgressStyle::with_template("{prefix} [{bar:30}] {pos}/{len} {elapsed} {wide_msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "));
        bar.set_prefix(what.to_owned());
        bar.enable_steady_tick(Duration::from_millis(250));
        Self { bar, told: None }
    }

    /// The step `done` of `of` begins, or all are done.
    pub(super) fn step(&self, done: usize, of: usize, what: &str) {
        if self.bar.is_hidden() {
            self.tell(done, of, what);
            return;
        }
        self.bar.set_length(of as u64);
        self.bar.set_position(done as u64);
        self.bar.set_message(what.to_owned());
    }

    fn tell(&self, done: usize, of: usize, what: &str) {
        let part = done * PARTS / of.max(1);
        let Some(told) = &self.told else { return };
        let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
        if part > *told {
            *told = part;
            say(format_args!("{}: {} % ({what})", self.bar.prefix(), part * 100 / PARTS));
        }
    }

    /// A line on stdout, beside the bar.
    pub(super) fn print(&self, line: &str) {
        self.bar.suspend(|| crate::output::print(line));
    }

    /// A line on stderr, beside the bar.
    pub(super) fn say(&self, line: &str) {
        self.bar.suspend(|| say(line));
    }

    /// The bar goes.
    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
