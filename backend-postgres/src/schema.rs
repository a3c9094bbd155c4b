//! What this backend keeps in the database, and its creation.

use lockyard_api::Result;

use crate::config::{Mode, PostgresConfig};
use crate::control::{Control, column};
use crate::sentence::quoted;

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
        let literal = self.name("token").replace('\'', "''");
        template
            .replace("{token}", &format!("nextval('{literal}')"))
            .replace("{schema}", &format!("\"{}\"", self.quoted))
    }

    /// Creates what `mode` needs unless it is there.
    pub(crate) async fn create(&self, control: &Control, mode: Mode) -> Result<()> {
        let objects = match mode {
            Mode::Advisory => &["token"][..],
            Mode::Row => &["token", "row"],
            Mode::Lease => &["token", "lease", "waiter", "take_lease_2", "give_lease_1"],
        };
        self.create_unless(control, objects).await
    }

    /// Creates what registers need unless it is there.
    pub(crate) async fn create_register(&self, control: &Control) -> Result<()> {
        self.create_unless(control, &["token", "register", "write_register_2"]).await
    }

    /// Looked at first: a user without the right to create may use what its owner created.
    async fn create_unless(&self, control: &Control, objects: &[&str]) -> Result<()> {
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
        control.simple(self.fill(include_str!("sql/create.sql")), "creating the schema").await.map(drop)
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
            schema.fill("SELECT {token} FROM {schema}.row"),
            r#"SELECT nextval('"o''""x".token') FROM "o'""x".row"#
        );
    }
}
