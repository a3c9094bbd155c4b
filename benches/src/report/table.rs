//! Tables: what Markdown and HTML both show.

/// How a cell is to be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Tone {
    #[default]
    Plain,
    Good,
    Bad,
    /// Not measured, not applicable.
    Faint,
}

/// A cell of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) text: String,
    pub(super) tone: Tone,
    /// The anchor of what shows it.
    pub(super) evidence: Option<String>,
}

impl Cell {
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self::toned(text, Tone::Plain)
    }

    pub(super) fn toned(text: impl Into<String>, tone: Tone) -> Self {
        Self { text: text.into(), tone, evidence: None }
    }

    /// Text, or a dash for what there is not.
    pub(super) fn or_dash(text: Option<String>) -> Self {
        text.map_or_else(|| Self::toned("–", Tone::Faint), Self::new)
    }

    /// The cell with a link to what shows it.
    pub(super) fn shown_by(mut self, anchor: impl Into<String>) -> Self {
        self.evidence = Some(anchor.into());
        self
    }

    /// The classes of its element: its tone, and whether it is short enough to stay on one line.
    pub(super) fn class(&self) -> &'static str {
        match (self.tone, self.text.chars().count() < 34 && self.text.contains(' ')) {
            (Tone::Plain, true) => "figure",
            (Tone::Plain, false) => "",
            (Tone::Good, true) => "good figure",
            (Tone::Good, false) => "good",
            (Tone::Bad, true) => "bad figure",
            (Tone::Bad, false) => "bad",
            (Tone::Faint, true) => "faint figure",
            (Tone::Faint, false) => "faint",
        }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

/// A row of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    /// What others link to, or empty.
    pub(super) anchor: String,
    pub(super) head: String,
    pub(super) cells: Vec<Cell>,
}

impl Row {
    pub(super) fn has_short_head(&self) -> bool {
        self.head.chars().count() < 24
    }
}

/// A table; the first column heads the rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Table {
    /// What others link to, or empty.
    pub(super) anchor: String,
    pub(super) caption: String,
    pub(super) columns: Vec<String>,
    pub(super) rows: Vec<Row>,
    /// Whether a reader of the page may fold it away. It starts open: not every browser opens what a link leads into.
    pub(super) folded: bool,
}

impl Table {
    pub(super) fn new<S: Into<String>>(caption: impl Into<String>, columns: impl IntoIterator<Item = S>) -> Self {
        Self {
            anchor: String::new(),
            caption: caption.into(),
            columns: columns.into_iter().map(Into::into).collect(),
            rows: Vec::new(),
            folded: false,
        }
    }

    /// The table with an anchor.
    pub(super) fn at(mut self, anchor: impl Into<String>) -> Self {
        self.anchor = anchor.into();
        self
    }

    /// The table, such that it may be folded away.
    pub(super) const fn folded(mut self) -> Self {
        self.folded = true;
        self
    }

    /// The table without the columns in which no row has anything.
    pub(super) fn without_empty_columns(mut self) -> Self {
        let is_empty = |cell: &Cell| cell.text.is_empty() || cell.text == "–";
        // The first column is the head of the row.
        for at in (1..self.columns.len()).rev() {
            if self.rows.iter().all(|row| row.cells.get(at - 1).is_none_or(is_empty)) {
                self.columns.remove(at);
                for row in self.rows.iter_mut().filter(|row| row.cells.len() >= at) {
                    row.cells.remove(at - 1);
                }
            }
        }
        self
    }

    pub(super) fn row(&mut self, head: impl Into<String>, cells: Vec<Cell>) {
        self.row_at("", head, cells);
    }

    /// A row that others link to.
    pub(super) fn row_at(&mut self, anchor: impl Into<String>, head: impl Into<String>, cells: Vec<Cell>) {
        self.rows.push(Row { anchor: anchor.into(), head: head.into(), cells });
    }
}

/// A drawn chart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Drawing {
    pub(super) caption: String,
    /// How to read it.
    pub(super) reading: String,
    /// Every text in it is escaped.
    pub(super) svg: String,
    /// What it shows, for those who do not see it.
    pub(super) data: Table,
}

/// A part of the report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Section {
    /// The anchor.
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    /// How to read what follows.
    pub(super) text: Vec<String>,
    pub(super) tables: Vec<Table>,
    pub(super) charts: Vec<Drawing>,
    /// Lines for a shell.
    pub(super) commands: Vec<String>,
    /// Figures for spreadsheets, or empty. Only the page carries them.
    pub(super) csv: String,
}

impl Section {
    pub(super) fn new(id: &'static str, title: &'static str, text: impl Into<String>) -> Self {
        let (tables, charts, commands, csv) = (Vec::new(), Vec::new(), Vec::new(), String::new());
        Self { id, title, text: vec![text.into()], tables, charts, commands, csv }
    }

    pub(super) fn with(mut self, tables: impl IntoIterator<Item = Table>) -> Self {
        self.tables.extend(tables);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_without_anything_go() {
        let mut table = Table::new("t", ["a", "b", "c", "d"]);
        table.row("1", vec![Cell::or_dash(None), "x".into(), "".into()]);
        table.row("2", vec!["".into(), Cell::or_dash(None), "".into()]);
        let table = table.without_empty_columns();
        assert_eq!(table.columns, ["a", "c"]);
        assert_eq!(table.rows[0].cells, ["x".into()]);
        assert_eq!(table.rows[1].cells.len(), 1);
    }
}
