//! What a run tells while it runs, and whether it should end early.

/// Told of the progress of a run.
pub trait Progress: Send + Sync {
    /// The step `done` of `of` begins; `what` says what it is, in a few words.
    fn step(&self, done: usize, of: usize, what: &str);

    /// Something could not be measured; the run goes on.
    fn trouble(&self, what: &str);

    /// Asked several times a second: once true, the run ends and keeps what it has measured.
    fn cancelled(&self) -> bool;
}

/// Says nothing and never ends early.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct Silent;

impl Silent {
    /// A progress that nobody sees.
    #[must_use]
    pub const fn new() -> Self {
        Self
    }
}

impl Progress for Silent {
    fn step(&self, _done: usize, _of: usize, _what: &str) {}

    fn trouble(&self, _what: &str) {}

    fn cancelled(&self) -> bool {
        false
    }
}
