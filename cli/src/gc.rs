//! `lockyard gc`: removes what is kept of unused names.

use std::fmt::Write;

use lockyard::{Collected, Unused};

use crate::args::GcArgs;
use crate::exit::{Exit, Failure};
use crate::output::{Voice, print, say};

pub(crate) async fn gc(args: GcArgs) -> Result<Exit, Failure> {
    let source = args.source.resolve(None, Voice::new(false, args.verbose))?;
    let garbage = lockyard::connect_garbage(source.url()).await?;
    let mut unused = Unused::for_at_least(args.older_than).with_prefix(args.prefix);
    unused.dry_run = args.dry_run;
    let collected = garbage.collect(&unused).await?;
    collected.removed.iter().for_each(print);
    say(summary(&collected, args.dry_run));
    Ok(Exit::Success)
}

/// What was found, in a line.
fn summary(collected: &Collected, dry_run: bool) -> String {
    let done = if dry_run { "would be removed" } else { "removed" };
    let Collected { removed, in_use, recent, undated, .. } = collected;
    let mut text = format!("{} names {done}; {in_use} in use, {recent} used lately", removed.len());
    if *undated > 0 {
        // Writing to a string does not fail.
        let _ = write!(text, ", {undated} unused for nobody knows how long (--older-than 0s removes them)");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_says_what_stays_and_why() {
        let mut collected = Collected::new();
        collected.removed.push("a".to_owned());
        collected.in_use = 2;
        assert_eq!(summary(&collected, false), "1 names removed; 2 in use, 0 used lately");
        collected.undated = 3;
        let text = summary(&collected, true);
        assert!(text.starts_with("1 names would be removed") && text.contains("--older-than 0s"), "{text}");
    }
}
