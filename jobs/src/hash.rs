//! A hash that is the same on every machine and in every version.

use std::hash::Hasher;

use fnv::FnvHasher;

/// FNV-1a of the bytes, mixed so that names that differ in their last letter differ in every bit.
pub(crate) fn of(bytes: &[u8]) -> u64 {
    let mut hasher = FnvHasher::default();
    hasher.write(bytes);
    // The finalizer of MurmurHash3.
    let mut hash = hasher.finish();
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}
