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

impl Tone {
    pub(super) const fn class(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Good => "good",
            Self::Bad => "bad",
            Self::Faint => "faint",
        }
    }
}

/// A cell of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) text: String,
    pub(super) tone: Tone,
}

impl Cell {
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), tone: Tone::Plain }
    }

    pub(super) fn toned(text: impl Into<String>, tone: Tone) -> Self {
        Self { text: text.into(), tone }
    }

    /// Text, or a dash for what there is not.
    pub(super) fn or_dash(text: Option<String>) -> Self {
        text.map_or_else(|| Self::toned("–", Tone::Faint), Self::new)
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

/// A table; the first cell of a row heads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Table {
    pub(super) caption: String,
    pub(super) columns: Vec<String>,
    pub(super) rows: Vec<(String, Vec<Cell>)>,
}

impl Table {
    pub(super) fn new<S: Into<String>>(caption: impl Into<String>, columns: impl IntoIterator<Item = S>) -> Self {
        Self { caption: caption.into(), columns: columns.into_iter().map(Into::into).collect(), rows: Vec::new() }
    }

    /// The table without the columns in which no row has anything.
    pub(super) fn without_empty_columns(mut self) -> Self {
        let is_empty = |cell: &Cell| cell.text.is_empty() || cell.text == "–";
        // The first column is the head of the row.
        for at in (1..self.columns.len()).rev() {
            if self.rows.iter().all(|(_, cells)| cells.get(at - 1).is_none_or(is_empty)) {
                self.columns.remove(at);
                for (_, cells) in self.rows.iter_mut().filter(|(_, cells)| cells.len() >= at) {
                    cells.remove(at - 1);
                }
            }
        }
        self
    }

    pub(super) fn row(&mut self, head: impl Into<String>, cells: Vec<Cell>) {
        self.rows.push((head.into(), cells));
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
}

impl Section {
    pub(super) fn new(id: &'static str, title: &'static str, text: impl Into<String>) -> Self {
        Self { id, title, text: vec![text.into()], tables: Vec::new(), charts: Vec::new() }
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
        assert_eq!(table.rows[0], ("1".to_owned(), vec!["x".into()]));
        assert_eq!(table.rows[1].1.len(), 1);
    }
}
