//! Where tokens come from: a sequence that a crash resets, above an epoch that outlives it.
//!
//! A logged sequence is logged 32 numbers ahead, and flushed by whoever draws the first of them: until then others draw the numbers
//! behind it, and a crash gives those out again. The flush, too, falls into a hand-over. The sequence of tokens is not logged. After
//! a crash it begins anew, far above all that it gave out before: at `epoch << BITS`, where the epoch is a row that was committed
//! before the first number above it was drawn. Whoever opens a session, or draws below the first epoch, begins one.

use std::sync::Arc;

use lockyard_api::Result;

use crate::control::Control;
use crate::schema::Schema;

/// An epoch has room for 2^40 numbers: seven years of 5,000 a second.
pub(crate) const BITS: u32 = 40;

/// What the sequence of a schema is asked, and how an epoch begins.
#[derive(Debug)]
pub(crate) struct Epoch {
    look: Arc<str>,
    begin: String,
}

impl Epoch {
    pub(crate) fn new(schema: &Schema) -> Self {
        Self {
            look: schema.fill("SELECT pg_backend_pid(), last_value FROM {schema}.draw").into(),
            // Two transactions: the number is on the disk before anything is drawn above it.
            begin: schema.fill(concat!(
                "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL synchronous_commit = on; ",
                "INSERT INTO {schema}.epoch AS e (single, number) SELECT true, (last_value >> {epoch_bits}) + 1 FROM {schema}.draw ",
                "ON CONFLICT (single) DO UPDATE SET number = greatest(e.number + 1, excluded.number); COMMIT; ",
                "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SELECT {schema}.begin_epoch_1(); COMMIT",
            )),
        }
    }

    /// Answers the number of the server's process, and the number drawn last.
    pub(crate) fn look(&self) -> Arc<str> {
        Arc::clone(&self.look)
    }

    /// What begins an epoch, in the simple protocol. Harmless when one has begun meanwhile.
    pub(crate) fn begin(&self) -> &str {
        &self.begin
    }

    /// Begins an epoch if the number drawn last asks for one.
    pub(crate) async fn ensure(&self, control: &Control, last: i64) -> Result<()> {
        if !is_over(last) {
            return Ok(());
        }
        control.simple(self.begin.clone(), "beginning an epoch of tokens").await.map(drop)
    }
}

/// Whether a new epoch is due after this number: the sequence was reset, or half of its epoch is used up. The domain `token` in
/// create.sql refuses the same numbers.
fn is_over(last: i64) -> bool {
    last >> BITS == 0 || last & ((1 << BITS) - 1) >= 1 << (BITS - 1)
}

#[cfg(test)]
mod tests {
    use super::is_over;

    #[test]
    fn an_epoch_is_due_after_a_reset_and_in_good_time_before_the_room_ends() {
        assert!(is_over(1) && is_over((1 << 40) - 1));
        assert!(!is_over(1 << 40) && !is_over((7 << 40) + 12_345));
        assert!(is_over((1 << 40) + (1 << 39)) && is_over((2 << 40) - 1));
    }
}
