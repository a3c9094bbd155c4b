//! A statement with its values, prepared or written out.

use std::fmt::{self, Display, Write};
use std::sync::Arc;

use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, PgConnection};

use crate::lines::Path;

/// A value of a statement.
#[derive(Debug, Clone)]
pub(crate) enum Value {
    Text(Arc<str>),
    MaybeText(Option<Arc<str>>),
    Int(i32),
    Big(i64),
    Bytes(Arc<[u8]>),
    Texts(Vec<String>),
    Bigs(Vec<i64>),
}

/// A statement and the values of `$1`, `$2`, …
#[derive(Debug, Clone)]
pub(crate) struct Sentence {
    pub(crate) sql: Arc<str>,
    pub(crate) values: Vec<Value>,
}

impl Sentence {
    /// Runs it, and answers its first row. Prepared once for each connection, or behind a pooler in the simple protocol, which leaves nothing on the server's side
    /// that the next statement would miss (<https://www.postgresql.org/docs/current/protocol-flow.html>).
    pub(crate) async fn fetch(&self, path: Path, connection: &mut PgConnection) -> Result<Option<PgRow>, sqlx::Error> {
        match path {
            Path::Direct => {
                let mut query = sqlx::query(AssertSqlSafe(Arc::clone(&self.sql)));
                for value in &self.values {
                    query = match value {
                        Value::Text(text) => query.bind(Arc::clone(text)),
                        Value::MaybeText(text) => query.bind(text.clone()),
                        Value::Int(number) => query.bind(*number),
                        Value::Big(number) => query.bind(*number),
                        Value::Bytes(bytes) => query.bind(bytes.to_vec()),
                        Value::Texts(texts) => query.bind(texts.clone()),
                        Value::Bigs(numbers) => query.bind(numbers.clone()),
                    };
                }
                query.fetch_optional(connection).await
            }
            Path::Pooled => sqlx::raw_sql(AssertSqlSafe(self.written_out())).fetch_optional(connection).await,
        }
    }

    /// With the values in their places.
    pub(crate) fn written_out(&self) -> String {
        let mut text = String::with_capacity(self.sql.len() + 200);
        let mut parts = self.sql.split('$');
        text.push_str(parts.next().unwrap_or_default());
        for part in parts {
            let digits = part.bytes().take_while(u8::is_ascii_digit).count();
            let value = part[..digits].parse::<usize>().ok().and_then(|at| self.values.get(at.checked_sub(1)?));
            match value {
                Some(value) => write_value(&mut text, value),
                None => text.push('$'),
            }
            text.push_str(if value.is_some() { &part[digits..] } else { part });
        }
        text
    }
}

fn write_value(text: &mut String, value: &Value) {
    // Writing to a string does not fail.
    let _written = match value {
        Value::Text(value) | Value::MaybeText(Some(value)) => write!(text, "{}::text", quoted(value)),
        Value::MaybeText(None) => write!(text, "NULL::text"),
        Value::Int(number) => write!(text, "({number})::int4"),
        Value::Big(number) => write!(text, "({number})::int8"),
        // Needs no quoting but that of its backslash.
        Value::Bytes(bytes) => {
            text.push_str("$q$\\x");
            bytes.iter().try_for_each(|byte| write!(text, "{byte:02x}")).and_then(|()| write!(text, "$q$::bytea"))
        }
        Value::Texts(texts) => write_array(text, texts.iter().map(|text| quoted(text)), "text"),
        Value::Bigs(numbers) => write_array(text, numbers, "int8"),
    };
}

fn write_array(text: &mut String, values: impl IntoIterator<Item = impl Display>, element: &str) -> fmt::Result {
    text.push_str("ARRAY[");
    for (at, value) in values.into_iter().enumerate() {
        write!(text, "{}{value}", if at == 0 { "" } else { ", " })?;
    }
    write!(text, "]::{element}[]")
}

/// A literal that means the same under every setting of `standard_conforming_strings`.
pub(crate) fn quoted(value: &str) -> String {
    let mut tag = "$q$".to_owned();
    // The first tag behind the beginning must be the one at the end, also when the value ends like the beginning of a tag.
    while format!("{value}{tag}").find(&tag) != Some(value.len()) {
        tag = format!("$q{:x}$", fastrand::u64(..));
    }
    format!("{tag}{value}{tag}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_in_their_places() {
        let sentence = Sentence {
            sql: "SELECT $2, $1, $3, $4, $5, $6, $7, $10".into(),
            values: vec![
                Value::Text("a'b\\".into()),
                Value::Big(-5),
                Value::MaybeText(None),
                Value::Bytes([0, 0xff].as_slice().into()),
                Value::Texts(vec!["a,'\"}".into(), "$2".into()]),
                Value::Bigs(vec![-1, 2]),
                Value::Texts(Vec::new()),
            ],
        };
        let right = "SELECT (-5)::int8, $q$a'b\\$q$::text, NULL::text, $q$\\x00ff$q$::bytea, \
            ARRAY[$q$a,'\"}$q$, $q$$2$q$]::text[], ARRAY[-1, 2]::int8[], ARRAY[]::text[], $10";
        assert_eq!(sentence.written_out(), right);
    }

    #[test]
    fn a_literal_ends_where_the_value_does() {
        for value in ["", "$q$", "$", "a$q", "$q$; DROP TABLE x; --", "$$"] {
            let text = quoted(value);
            let tag = &text[..text[1..].find('$').expect("a tag") + 2];
            let inner = &text[tag.len()..text.len() - tag.len()];
            assert_eq!(inner, value);
            assert_eq!(text[1..].find(tag).expect("ends") + 1, text.len() - tag.len());
        }
    }
}
