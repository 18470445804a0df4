//! Rows of cells as aligned columns of text: the one printer of tables.

use kestrel_trace::print::columns;

/// The alignment and width of a column.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Column {
    /// Aligned left, as wide as its widest cell.
    Left,
    /// Aligned right, as wide as its widest cell.
    Right,
    /// Aligned left, of a fixed width; a longer cell moves the rest of its line.
    LeftOf(usize),
    /// Aligned right, of a fixed width; a longer cell moves the rest of its line.
    RightOf(usize),
}

/// A table under construction: its columns, and the rows added so far.
#[derive(Debug)]
pub(crate) struct Columns {
    columns: Vec<Column>,
    rows: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    /// Text before the first cell, the same number of characters in each row.
    lead: String,
    cells: Vec<String>,
    /// Lines between this row and the next, in no column.
    below: String,
}

impl Columns {
    /// A table without rows.
    pub(crate) fn new(columns: impl Into<Vec<Column>>) -> Self {
        Self {
            columns: columns.into(),
            rows: Vec::new(),
        }
    }

    /// Adds the row of column names.
    pub(crate) fn head<const N: usize>(&mut self, lead: &str, names: [&str; N]) {
        self.row(lead, names.map(str::to_owned));
    }

    /// Adds a row behind its lead: an indentation or a mark.
    pub(crate) fn row(&mut self, lead: impl Into<String>, cells: impl Into<Vec<String>>) {
        self.rows.push(Row {
            lead: lead.into(),
            cells: cells.into(),
            below: String::new(),
        });
    }

    /// Adds a line of its own below the last row.
    pub(crate) fn line(&mut self, line: &str) {
        if let Some(row) = self.rows.last_mut() {
            row.below.push_str(line);
            row.below.push('\n');
        }
    }

    /// The rows as lines, with two spaces between columns and none at the end of a line.
    pub(crate) fn text(&self) -> String {
        let widths: Vec<usize> = (0..self.columns.len()).map(|column| self.width(column)).collect();
        let mut out = String::new();
        for row in &self.rows {
            out.push_str(&row.lead);
            // Spaces are written when a cell follows them.
            let mut spaces = 0;
            for ((cell, width), column) in row.cells.iter().zip(&widths).zip(&self.columns) {
                let free = width.saturating_sub(columns(cell));
                let (before, after) = match column {
                    Column::Left | Column::LeftOf(_) => (0, free),
                    Column::Right | Column::RightOf(_) => (free, 0),
                };
                spaces += before;
                if !cell.is_empty() {
                    out.extend(std::iter::repeat_n(' ', spaces));
                    out.push_str(cell);
                    spaces = 0;
                }
                spaces += after + 2;
            }
            out.push('\n');
            out.push_str(&row.below);
        }
        out
    }

    fn width(&self, column: usize) -> usize {
        match self.columns[column] {
            Column::LeftOf(width) | Column::RightOf(width) => width,
            Column::Left | Column::Right => {
                let cells = self.rows.iter().map(|row| columns(&row.cells[column]));
                cells.max().unwrap_or(0)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_aligned_and_lines_end_without_spaces() {
        let mut table = Columns::new([Column::Left, Column::Right, Column::LeftOf(4), Column::RightOf(3)]);
        table.head("  ", ["name", "count", "mode", "per"]);
        table.row("* ", ["ä", "1", "open", "1"].map(str::to_owned));
        table.line("    below");
        table.row("  ", ["longer", "12,345", "frozen", "12"].map(str::to_owned));
        table.row("  ", ["", "2", "", ""].map(str::to_owned));
        assert_eq!(
            table.text(),
            "  name     count  mode  per\n* ä            1  open    1\n    below\n  longer  12,345  frozen   12\n               2\n"
        );
        assert_eq!(Columns::new([Column::Left]).text(), "");
        let mut wide = Columns::new([Column::Left, Column::Right]);
        wide.row("", ["日本", "1"].map(str::to_owned));
        wide.row("", ["e\u{301}", "1"].map(str::to_owned));
        assert_eq!(wide.text(), "日本  1\ne\u{301}     1\n");
    }
}
