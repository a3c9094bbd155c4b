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
