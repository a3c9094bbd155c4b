//! A rendezvous hash: which member stands nearest to an item, the same for all who know the members.

use crate::hash;

/// How many of the living stand above this member for an item, and how high it stands: smaller is nearer.
pub(crate) fn of(member: &str, item: u32, living: &[String]) -> (usize, u64) {
    let own = score(member, item);
    let above = living.iter().filter(|other| score(other, item) > own).count();
    (above, u64::MAX - own)
}

/// How high a member stands for an item.
fn score(member: &str, item: u32) -> u64 {
    hash::of(format!("{member}\n{item}").as_bytes())
}
