//! `lockyard config show`: what holds, and who says so.

use std::path::Path;
use std::sync::Arc;

use lockyard::LockUrl;
use serde_json::{Map, Value, json};

use super::{Config, Found, Key, Origin};
use crate::args::{ConfigForm, ConfigShowArgs};
use crate::exit::{Exit, Failure};
use crate::output::{Voice, columns, print};

pub(crate) fn show(args: &ConfigShowArgs) -> Result<Exit, Failure> {
    let voice = Voice::new(false, args.verbose);
    let config = args.source.loaded().map(Arc::clone).ok_or_else(|| Failure::internal("no configuration was read"))?;
    config.warn(voice);
    let effective = effective(args, &config)?;
    match args.output {
        ConfigForm::Table => {
            let rows = effective
                .iter()
                .map(|(key, found)| vec![key.name().to_owned(), shown(*key, found), found.origin.to_string()]);
            print(columns(&["KEY", "VALUE", "FROM"], rows));
        }
        ConfigForm::Json => print(format!("{:#}", to_json(&effective, &config))),
    }
    Ok(Exit::Success)
}

/// Every setting with what holds for it.
fn effective(args: &ConfigShowArgs, config: &Config) -> Result<Vec<(Key, Found)>, Failure> {
    let flag = |text: &str| Found { text: text.to_owned(), origin: Origin::Flag };
    let default = |key: Key| Found { text: key.default().to_owned(), origin: Origin::Default };
    let url = match args.source.backend() {
        Some(url) => flag(url),
        None => config.url()?.unwrap_or_else(|| default(Key::Url)),
    };
    let mut effective = Vec::new();
    // The file of a URL is where the URL comes from, and no setting of its own.
    for key in Key::ALL.into_iter().filter(|key| *key != Key::UrlFile) {
        let found = match (key, args.source.namespace()) {
            (Key::Url, _) => url.clone(),
            (Key::Namespace, Some(namespace)) => flag(namespace),
            (Key::Namespace | Key::Ttl, _) => of_source(key, &url, config)?.unwrap_or_else(|| default(key)),
            _ => config.get(key)?.unwrap_or_else(|| default(key)),
        };
        effective.push((key, found));
    }
    Ok(effective)
}

/// What a URL may say as well: the environment, then the URL, then a file.
fn of_source(key: Key, url: &Found, config: &Config) -> Result<Option<Found>, Failure> {
    let found = config.get(key)?;
    if found.as_ref().is_some_and(|found| matches!(found.origin, Origin::Environment(_))) {
        return Ok(found);
    }
    let mut parsed = LockUrl::parse(&url.text)?;
    Ok(parsed.take(key.name()).map(|text| Found { text, origin: Origin::Url }).or(found))
}

/// The value as it may be shown.
fn shown(key: Key, found: &Found) -> String {
    match key {
        // What cannot be taken apart may hold a password in any place.
        Key::Url => LockUrl::parse(&found.text).map_or_else(|_| "***".to_owned(), |url| url.redacted()),
        _ => found.text.clone(),
    }
}

fn to_json(effective: &[(Key, Found)], config: &Config) -> Value {
    let settings: Map<String, Value> = effective
        .iter()
        .map(|(key, found)| {
            let (from, place) = match &found.origin {
                Origin::Flag => ("flag", None),
                Origin::Environment(name) => ("environment", Some(name.clone())),
                Origin::File(path) => ("file", Some(path.display().to_string())),
                Origin::Url => ("url", None),
                Origin::Default => ("default", None),
            };
            (key.name().to_owned(), json!({ "value": shown(*key, found), "from": from, "place": place }))
        })
        .collect();
    let was_read = |path: &Path| config.files.iter().any(|file| file.path == path);
    let files: Vec<Value> =
        config.looked_at.iter().map(|path| json!({ "path": path, "read": was_read(path) })).collect();
    json!({ "schema": 1, "files": files, "settings": settings })
}
