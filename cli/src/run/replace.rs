//! Files that are written in one step.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::Path;

/// Writes a file aside and renames it: a reader sees the old one or the new one, never half.
pub(super) fn replace(path: &Path, text: &str) -> io::Result<()> {
    let mut aside = OsString::from(path);
    // Not the ending of what a collector reads.
    aside.push(format!(".{}.tmp", std::process::id()));
    let written = fs::write(&aside, text).and_then(|()| fs::rename(&aside, path));
    if written.is_err() {
        let _ = fs::remove_file(&aside);
    }
    written
}
