//! A configuration file.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use lockyard::LockUrl;
use toml::{Table, Value};

use super::Key;
use crate::exit::Failure;

/// What a file says. No `Debug`: it may hold a password.
pub(crate) struct ConfigFile {
    pub(crate) path: PathBuf,
    pub(crate) values: BTreeMap<Key, String>,
    /// Whether others than its owner may read the password that stands in it.
    pub(crate) tells_a_password: bool,
}

impl ConfigFile {
    /// Reads it; `None` when there is none.
    ///
    /// # Errors
    /// `Config` for a file that cannot be read, that is no TOML, or that says something that no setting takes.
    pub(crate) fn read(path: &Path) -> Result<Option<Self>, Failure> {
        let wrong = |problem: String| Failure::config(format!("{}: {problem}", path.display()));
        let mut file = match File::open(path) {
            Ok(file) => file,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(None),
            Err(error) => return Err(wrong(format!("cannot be read: {error}"))),
        };
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(|error| wrong(format!("cannot be read: {error}")))?;
        let table: Table = text.parse().map_err(|error| wrong(explained(&error, &text)))?;
        let mut values = BTreeMap::new();
        for (name, value) in table {
            let key: Key = name.parse().map_err(&wrong)?;
            let Value::String(value) = value else {
                let kind = value.type_str();
                return Err(wrong(format!("{name}: a {kind} where a string belongs, such as {name} = \"…\"")));
            };
            key.check(&value).map_err(|problem| wrong(format!("{name}: {problem}")))?;
            values.insert(key, value);
        }
        if values.contains_key(&Key::Url) && values.contains_key(&Key::UrlFile) {
            return Err(wrong("url and url_file contradict each other: give one of them".to_owned()));
        }
        let mode = file.metadata().map(|metadata| metadata.permissions().mode());
        let is_open = mode.is_ok_and(|mode| mode & 0o044 != 0);
        let tells_a_password = is_open && values.get(&Key::Url).is_some_and(|url| has_password(url));
        Ok(Some(Self { path: path.to_owned(), values, tells_a_password }))
    }
}

/// The first line of a file that says a URL.
///
/// # Errors
/// `Config`, naming the file and who named it.
pub(crate) fn url_in(path: &Path, named_by: &str) -> Result<String, Failure> {
    let shown = path.display();
    let text = fs::read_to_string(path)
        .map_err(|error| Failure::config(format!("cannot read {shown} ({named_by}): {error}")))?;
    match text.trim() {
        "" => Err(Failure::config(format!("{shown} ({named_by}) is empty"))),
        url => Ok(url.to_owned()),
    }
}

pub(crate) fn has_password(url: &str) -> bool {
    LockUrl::parse(url).is_ok_and(|url| url.password.is_some())
}

/// What is wrong and in which line, without the line itself: it may hold a password.
fn explained(error: &toml::de::Error, text: &str) -> String {
    let line = error.span().map(|span| text.get(..span.start).unwrap_or_default().matches('\n').count() + 1);
    let line = line.map_or_else(String::new, |line| format!("line {line}: "));
    format!("{line}no TOML: {}", error.message())
}
