//! `lockyard inspect`: who holds a lock.

use lockyard::{Holder, Locker};
use serde_json::{Value, json};

use crate::args::{Form, InspectArgs};
use crate::exit::{Exit, Failure};
use crate::output::{Voice, columns, print, rough};
use crate::source::Source;

pub(crate) async fn inspect(args: InspectArgs) -> Result<Exit, Failure> {
    let voice = Voice::new(false, args.verbose);
    let source = args.source.resolve(None, voice)?;
    let locks = lockyard::connect(source.url()).await?;
    let found = look(&locks, &args.names).await?;
    if args.is_held {
        let all = found.iter().all(|(_, holder)| holder.is_some());
        return Ok(if all { Exit::Success } else { Exit::Free });
    }
    match args.output {
        Form::Table => {
            voice.tell(format_args!("{} namespace {:?}", source.shown(), source.options().namespace.as_str()));
            print(table(&found));
        }
        Form::Json => print(format!("{:#}", to_json(&found, &source))),
        Form::Name => found.iter().filter(|(_, holder)| holder.is_some()).for_each(|(name, _)| print(name)),
    }
    Ok(Exit::Success)
}

type Found = Vec<(String, Option<Holder>)>;

async fn look(locks: &Locker, names: &[String]) -> Result<Found, Failure> {
    let mut found = Vec::new();
    for name in names {
        found.push((name.clone(), locks.inspect(name).await?));
    }
    Ok(found)
}

fn table(found: &Found) -> String {
    let rows = found.iter().map(|(name, holder)| {
        let Some(holder) = holder else {
            return [name.as_str(), "free", "-", "-", "-", "-", "-"].map(str::to_owned).to_vec();
        };
        let shown = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        vec![
            name.clone(),
            "held".to_owned(),
            shown(holder_name(holder)),
            shown(holder.token.map(|token| token.to_string())),
            shown(holder.held_for.map(rough)),
            shown(holder.expires_in.map(rough)),
            shown(holder.waiters.map(|waiters| waiters.to_string())),
        ]
    });
    columns(&["NAME", "STATE", "HOLDER", "TOKEN", "AGE", "EXPIRES", "WAITERS"], rows)
}

/// What people know the holder by: what it calls itself, else where it comes from, else its owner.
fn holder_name(holder: &Holder) -> Option<String> {
    let label = holder.label.as_ref().map(ToString::to_string);
    label.or_else(|| holder.origin.clone()).or_else(|| holder.owner.map(|owner| owner.to_string()))
}

/// With the place, since the same name is another lock in another database.
fn to_json(found: &Found, source: &Source) -> Value {
    let locks: Vec<Value> = found
        .iter()
        .map(|(name, holder)| {
            let holder = holder.as_ref();
            let text = |get: fn(&Holder) -> Option<String>| holder.and_then(get);
            json!({
                "name": name,
                "state": if holder.is_some() { "held" } else { "free" },
                "holder": text(holder_name),
                "owner": text(|holder| holder.owner.map(|owner| owner.to_string())),
                "origin": text(|holder| holder.origin.clone()),
                "token": text(|holder| holder.token.map(|token| token.to_string())),
                "held_seconds": holder.and_then(|holder| holder.held_for).map(|time| time.as_secs_f64()),
                "expires_seconds": holder.and_then(|holder| holder.expires_in).map(|time| time.as_secs_f64()),
                "waiters": holder.and_then(|holder| holder.waiters),
            })
        })
        .collect();
    let namespace = source.options().namespace.as_str();
    json!({ "schema": 1, "backend": source.shown(), "namespace": namespace, "locks": locks })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_table_has_a_line_a_name() {
        let mut holder = Holder::new();
        holder.label = Some("web-1".into());
        holder.held_for = Some(Duration::from_secs(125));
        holder.waiters = Some(2);
        let text = table(&vec![("a".to_owned(), Some(holder)), ("b".to_owned(), None)]);
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[0], ["NAME", "STATE", "HOLDER", "TOKEN", "AGE", "EXPIRES", "WAITERS"]);
        assert_eq!(lines[1], ["a", "held", "web-1", "-", "2m", "5s", "-", "2"]);
        assert_eq!(lines[2], ["b", "free", "-", "-", "-", "-", "-"]);
    }
}
