//! The report as Markdown.

use std::fmt::Write as _;

use super::model::Report;
use super::sections;
use super::table::{Cell, Section, Table};

impl Report {
    /// The report as Markdown: with the anchors of the page, and the data of its charts as tables.
    #[must_use]
    pub fn to_markdown(&self) -> String {
        let mut page = format!("# lockyard compare\n\n{}\n\n", escape(&self.strip()));
        for sentence in self.sentences() {
            push(&mut page, format_args!("- {}\n", escape(&sentence)));
        }
        for part in sections::all(self) {
            section(&mut page, &part);
        }
        page
    }

    /// Date, version, revision, machine.
    pub(super) fn strip(&self) -> String {
        let revision = if self.tool.git_sha.is_empty() { String::new() } else { format!(" ({})", self.tool.git_sha) };
        format!(
            "{} · lockyard {}{revision} · {}, {} processors",
            self.env.date, self.tool.version, self.env.cpu, self.env.cores
        )
    }
}

fn section(page: &mut String, section: &Section) {
    push(page, format_args!("\n{}\n\n## {}\n", anchor(section.id), section.title));
    for text in &section.text {
        push(page, format_args!("\n{}\n", escape(text)));
    }
    section.charts.iter().for_each(|chart| table(page, &chart.data));
    section.tables.iter().for_each(|part| table(page, part));
    for command in &section.commands {
        push(page, format_args!("\n    {command}\n"));
    }
}

fn table(page: &mut String, table: &Table) {
    push(page, format_args!("\n{}**{}**\n\n", anchor(&table.anchor), escape(&table.caption)));
    let heads: Vec<String> = table.columns.iter().map(|column| escape(column)).collect();
    push(page, format_args!("| {} |\n|{}\n", heads.join(" | "), "---|".repeat(heads.len())));
    for row in &table.rows {
        let cells: Vec<String> = row.cells.iter().map(cell).collect();
        push(page, format_args!("| {}{} | {} |\n", anchor(&row.anchor), escape(&row.head), cells.join(" | ")));
    }
}

fn cell(cell: &Cell) -> String {
    let text = escape(&cell.text);
    cell.evidence.as_ref().map_or_else(|| text.clone(), |anchor| format!("[{text}](#{anchor})"))
}

/// What a link leads to, or nothing without a name.
fn anchor(id: &str) -> String {
    if id.is_empty() { String::new() } else { format!("<a id=\"{id}\"></a>") }
}

/// Writing to a string cannot fail.
fn push(page: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = page.write_fmt(text);
}

/// So that no text ends a cell, begins HTML or becomes markup.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\n' | '\r' => escaped.push(' '),
            '<' => escaped.push_str("&lt;"),
            '|' | '*' | '`' | '[' | ']' | '\\' => escaped.extend(['\\', letter]),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_breaks_out_of_a_cell() {
        assert_eq!(escape("a|b\n<script>`x` [y]"), "a\\|b &lt;script>\\`x\\` \\[y\\]");
    }
}
