//! What this backend keeps in the database, and its creation.

use lockyard_api::Result;

use crate::config::{Mode, PostgresConfig};
use crate::control::{Control, ServerFacts, column};
use crate::epoch;
use crate::sentence::quoted;

/// The first version with sequences that are not logged.
const UNLOGGED_SEQUENCES: i32 = 150_000;

/// The names of what lies in the schema, quoted for use in statements.
#[derive(Debug, Clone)]
pub(crate) struct Schema {
    quoted: String,
}

impl Schema {
    pub(crate) fn new(schema: &str) -> Self {
        Self { quoted: schema.replace('"', "\"\"") }
    }

    /// The name of a table or sequence, as an identifier.
    fn name(&self, object: &str) -> String {
        format!("\"{}\".{object}", self.quoted)
    }

    /// Puts this schema's names into a statement that is written with `{schema}`.
    pub(crate) fn fill(&self, template: &str) -> String {
        // Inside the literal of nextval a quote is doubled; inside the identifier it is not.
        let literal = |object| format!("'{}'", self.name(object).replace('\'', "''"));
        template
            .replace("{draw}", &literal("draw"))
            .replace("{version}", &literal("version"))
            .replace("{epoch_bits}", &epoch::BITS.to_string())
            .replace("{schema}", &format!("\"{}\"", self.quoted))
    }

    /// Creates what `mode` needs unless it is there.
    pub(crate) async fn create(&self, control: &Control, facts: ServerFacts, mode: Mode) -> Result<()> {
        let objects = match mode {
            Mode::Advisory => &["begin_epoch_1"][..],
            Mode::Row => &["begin_epoch_1", "row"],
            Mode::Lease => &["begin_epoch_1", "lease", "waiter", "take_lease_6", "give_lease_3"],
        };
        self.create_unless(control, facts, objects).await
    }

    /// Creates what registers need unless it is there.
    pub(crate) async fn create_register(&self, control: &Control, facts: ServerFacts) -> Result<()> {
        self.create_unless(control, facts, &["register", "write_register_2"]).await
    }

    /// Looked at first: a user without the right to create may use what its owner created.
    async fn create_unless(&self, control: &Control, facts: ServerFacts, objects: &[&str]) -> Result<()> {
        let there = |object: &&str| {
            let name = quoted(&self.name(object));
            format!("(to_regclass({name}) IS NOT NULL OR to_regproc({name}) IS NOT NULL)")
        };
        let look = objects.iter().map(there).collect::<Vec<_>>().join(" AND ");
        let row = control.simple(format!("SELECT {look}"), "looking for the schema").await?;
        let there = row.map(|row| column::<Option<bool>>(&row, 0)).transpose()?.flatten().unwrap_or(false);
        if there {
            return Ok(());
        }
        let unlogged = if facts.version >= UNLOGGED_SEQUENCES { "UNLOGGED " } else { "" };
        let script = self.fill(include_str!("sql/create.sql")).replace("{unlogged}", unlogged);
        control.simple(script, "creating the schema").await.map(drop)
    }
}

impl From<&PostgresConfig> for Schema {
    fn from(config: &PostgresConfig) -> Self {
        Self::new(&config.schema)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_for_their_place() {
        let schema = Schema::new("o'\"x");
        assert_eq!(
            schema.fill("SELECT nextval({draw}) FROM {schema}.row"),
            r#"SELECT nextval('"o''""x".draw') FROM "o'""x".row"#
        );
    }
}
