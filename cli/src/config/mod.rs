//! Where a setting comes from: the command line, then the environment, then a file, then the default.

mod file;
mod key;
mod show;

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::exit::Failure;
use crate::output::Voice;
use file::{ConfigFile, has_password, url_in};
pub(crate) use key::{Key, one_of};
pub(crate) use show::show;

/// What the environment and the files say.
pub(crate) struct Config {
    /// The nearer first.
    files: Vec<ConfigFile>,
    /// Where files were looked for.
    looked_at: Vec<PathBuf>,
    /// The URL alone is taken from the environment.
    url_alone: bool,
}

/// Where a value stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    Flag,
    /// This environment variable.
    Environment(String),
    File(PathBuf),
    /// The query of the URL.
    Url,
    Default,
}

/// A value and where it stands. No `Debug`: it may be a URL.
#[derive(Clone)]
pub(crate) struct Found {
    pub(crate) text: String,
    pub(crate) origin: Origin,
}

impl Config {
    const VARIABLE: &str = "LOCKYARD_CONFIG";
    const OF_THE_HOST: &str = "/etc/lockyard/config.toml";

    /// Reads the file that was named, or else the user's and the host's, of which the user's comes first.
    ///
    /// # Errors
    /// `Config` for a file that is wrong, or named and not there.
    pub(crate) fn load(named: Option<&Path>) -> Result<Self, Failure> {
        let variable = variable(Self::VARIABLE).map(PathBuf::from);
        let (looked_at, must_be) = match named.map(Path::to_owned).or(variable) {
            Some(path) => (vec![path], true),
            None => (usual_places(), false),
        };
        let mut files = Vec::new();
        for path in &looked_at {
            match ConfigFile::read(path)? {
                Some(file) => files.push(file),
                None if must_be => {
                    let shown = path.display();
                    return Err(Failure::config(format!("{shown}: there is no such file (--config, LOCKYARD_CONFIG)")));
                }
                None => {}
            }
        }
        Ok(Self { files, looked_at, url_alone: false })
    }

    /// One that says nothing but the URL of the environment.
    #[cfg(feature = "lab")]
    pub(crate) const fn of_the_url_alone() -> Self {
        Self { files: Vec::new(), looked_at: Vec::new(), url_alone: true }
    }

    /// Tells of passwords that others can read.
    pub(crate) fn warn(&self, voice: Voice) {
        for file in self.files.iter().filter(|file| file.tells_a_password) {
            let path = file.path.display();
            voice.warn(format_args!(
                "{path} holds a password and others can read it: chmod 600 it, or name a file of its own by url_file"
            ));
        }
    }

    /// What the environment says, or else the files.
    ///
    /// # Errors
    /// `Config` for a variable whose value the setting does not take.
    pub(crate) fn get(&self, key: Key) -> Result<Option<Found>, Failure> {
        Ok(of_environment(key)?.or_else(|| self.of_files(key)))
    }

    /// What the environment says.
    ///
    /// # Errors
    /// As [`Config::get`].
    pub(crate) fn of_environment(&self, key: Key) -> Result<Option<String>, Failure> {
        if self.url_alone {
            return Ok(None);
        }
        Ok(of_environment(key)?.map(|found| found.text))
    }

    /// A setting whose value a flag would take so.
    ///
    /// # Errors
    /// As [`Config::get`].
    pub(crate) fn parsed<T>(&self, key: Key, parse: fn(&str) -> Result<T, String>) -> Result<Option<T>, Failure> {
        let Some(found) = self.get(key)? else { return Ok(None) };
        let value = parse(&found.text).map_err(|problem| Failure::config(format!("{}: {problem}", key.name())))?;
        Ok(Some(value))
    }

    pub(crate) fn of_files(&self, key: Key) -> Option<Found> {
        self.files.iter().find_map(|file| {
            let text = file.values.get(&key)?.clone();
            Some(Found { text, origin: Origin::File(file.path.clone()) })
        })
    }

    /// The URL: a URL itself and a file with one are one setting, of which the nearer holds.
    ///
    /// # Errors
    /// `Config` for a file that cannot be read or says nothing.
    pub(crate) fn url(&self) -> Result<Option<Found>, Failure> {
        if let Some(found) = of_environment(Key::Url)? {
            return Ok(Some(found));
        }
        if let Some(path) = variable("LOCKYARD_URL_FILE") {
            let text = url_in(Path::new(&path), "LOCKYARD_URL_FILE")?;
            return Ok(Some(Found { text, origin: Origin::Environment("LOCKYARD_URL_FILE".to_owned()) }));
        }
        for file in &self.files {
            let origin = Origin::File(file.path.clone());
            if let Some(text) = file.values.get(&Key::Url) {
                return Ok(Some(Found { text: text.clone(), origin }));
            }
            if let Some(path) = file.values.get(&Key::UrlFile) {
                let text = url_in(Path::new(path), &format!("url_file of {}", file.path.display()))?;
                return Ok(Some(Found { text, origin }));
            }
        }
        Ok(None)
    }
}

/// What the environment says of a setting; an empty variable says nothing.
fn of_environment(key: Key) -> Result<Option<Found>, Failure> {
    let name = key.variable();
    let Some(text) = variable(&name) else { return Ok(None) };
    let text = text.into_string().map_err(|_| Failure::config(format!("{name} is not UTF-8")))?;
    // A wrong URL is explained where it is taken apart.
    if key != Key::Url {
        key.check(&text).map_err(|problem| Failure::config(format!("{name}: {problem}")))?;
    }
    Ok(Some(Found { text, origin: Origin::Environment(name) }))
}

fn variable(name: &str) -> Option<OsString> {
    env::var_os(name).filter(|value| !value.is_empty())
}

/// As the XDG base directories have it (<https://specifications.freedesktop.org/basedir-spec/latest/>): a relative path counts as
/// none.
fn usual_places() -> Vec<PathBuf> {
    let absolute = |path: OsString| Some(PathBuf::from(path)).filter(|path| path.is_absolute());
    let home = || variable("HOME").and_then(absolute).map(|home| home.join(".config"));
    let own = variable("XDG_CONFIG_HOME").and_then(absolute).or_else(home);
    own.map(|own| own.join("lockyard/config.toml")).into_iter().chain([PathBuf::from(Config::OF_THE_HOST)]).collect()
}

/// Tells of a password on a command line, which everybody on the host can read.
pub(crate) fn warn_of_password(url: &str, voice: Voice) {
    if has_password(url) {
        voice.warn("the URL on the command line holds a password, which everybody on this host can read: put it into LOCKYARD_URL or a file named by LOCKYARD_URL_FILE");
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config").field("looked_at", &self.looked_at).finish_non_exhaustive()
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag => f.write_str("command line"),
            Self::Environment(name) => write!(f, "environment: {name}"),
            Self::File(path) => write!(f, "file: {}", path.display()),
            Self::Url => f.write_str("the URL"),
            Self::Default => f.write_str("default"),
        }
    }
}
