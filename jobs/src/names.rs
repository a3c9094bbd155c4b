//! The names that a job has in the lock service: apart from those of plain locks.

use lockyard_api::{LockName, Result};

/// The register that lists the jobs.
pub(crate) const CATALOGUE: &str = "@jobs";
/// Whose errors the catalogue's are.
pub(crate) const CATALOGUE_OWNER: &str = "(the list of jobs)";

/// The lock and the run record of a job, or of one of its shards.
pub(crate) fn lane(job: &str, shard: Option<u32>) -> Result<LockName> {
    with_shard("@job/", job, shard)
}

/// The record of the slots of a plain lock.
pub(crate) fn run(lock: &str) -> Result<LockName> {
    with_shard("@run/", lock, None)
}

/// The marker of `at_least_for`.
pub(crate) fn marker(job: &str, shard: Option<u32>) -> Result<LockName> {
    with_shard("@job-closed/", job, shard)
}

fn with_shard(prefix: &str, job: &str, shard: Option<u32>) -> Result<LockName> {
    match shard {
        Some(shard) => LockName::new(format!("{prefix}{job}#{shard}")),
        None => LockName::new(format!("{prefix}{job}")),
    }
}

/// More than anybody needs; each has a lock.
pub(crate) const MOST_SHARDS: u32 = 4096;

/// The lock of an item that members share out.
pub(crate) fn item(group: &str, item: u32) -> Result<LockName> {
    with_shard("@item/", group, Some(item))
}

/// The list of the members of a group.
pub(crate) fn members(group: &str) -> Result<LockName> {
    with_shard("@members/", group, None)
}

/// The lock that shows that a member lives.
pub(crate) fn member(group: &str, member: &str) -> Result<LockName> {
    LockName::new(format!("@member/{group}/{member}"))
}
