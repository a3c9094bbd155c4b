//! The command: what it is and whether it can be started, found out before any lock is taken.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, access};

use crate::args::RunArgs;
use crate::exit::{Exit, Failure};

/// A program and its arguments.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) path: OsString,
    pub(super) arguments: Vec<OsString>,
}

impl Program {
    /// The command of the command line, looked up as the shell would.
    pub(super) fn find(args: &RunArgs) -> Result<Self, Failure> {
        if let Some(text) = &args.command {
            return Ok(Self { path: "/bin/sh".into(), arguments: vec!["-c".into(), text.clone()] });
        }
        let Some((path, arguments)) = args.program.split_first() else {
            return Err(Failure::usage("no command given: write it after --"));
        };
        look_up(path)?;
        Ok(Self { path: path.clone(), arguments: arguments.to_vec() })
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = std::iter::once(&self.path).chain(&self.arguments);
        let words: Vec<String> = words.map(|word| word.to_string_lossy().into_owned()).collect();
        f.write_str(&words.join(" "))
    }
}

/// Finds what execvp(3) would execute.
fn look_up(program: &OsStr) -> Result<(), Failure> {
    let shown = program.to_string_lossy();
    if program.is_empty() {
        return Err(Failure::new(Exit::NotFound, "the command is empty"));
    }
    let candidates: Vec<PathBuf> = if program.as_bytes().contains(&b'/') {
        vec![PathBuf::from(program)]
    } else {
        let path = env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
        env::split_paths(&path).map(|folder| folder.join(program)).collect()
    };
    let mut found = None;
    for candidate in candidates.iter().filter(|candidate| candidate.exists()) {
        if is_executable(candidate) {
            return Ok(());
        }
        found.get_or_insert(candidate);
    }
    match found {
        None => Err(Failure::new(Exit::NotFound, format!("{shown}: command not found"))),
        Some(path) if path.is_dir() => {
            Err(Failure::new(Exit::NotExecutable, format!("{}: is a folder", path.display())))
        }
        Some(path) => Err(Failure::new(Exit::NotExecutable, format!("{}: permission denied", path.display()))),
    }
}

fn is_executable(path: &Path) -> bool {
    path.is_file() && access(path, AccessFlags::X_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(program: &str) -> Option<u8> {
        look_up(OsStr::new(program)).err().map(|failure| failure.exit.code())
    }

    #[test]
    fn a_program_is_found_as_the_shell_finds_it() {
        assert_eq!(code("sh"), None);
        assert_eq!(code("/bin/sh"), None);
        for missing in ["", "no-such-command-here", "/no/such/command"] {
            assert_eq!(code(missing), Some(127), "{missing:?}");
        }
        for refused in ["/", "/etc/passwd"] {
            assert_eq!(code(refused), Some(126), "{refused:?}");
        }
    }
}
