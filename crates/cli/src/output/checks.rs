//! Findings about a machine or a session: a line each, with yes or no.

use super::Format;
use super::columns::Column::Left;
use super::columns::Columns;
use crate::exit::Failure;
use crate::style;
use std::io::{IsTerminal, Write};

/// One finding.
pub(crate) struct Row {
    /// What was examined.
    pub(crate) name: String,
    /// Whether it is as it should be.
    pub(crate) good: bool,
    /// What was found.
    pub(crate) says: String,
    /// What it is good for.
    pub(crate) purpose: &'static str,
}

/// Shows findings.
pub(crate) fn show(rows: &[Row], format: Format) -> Result<(), Failure> {
    let mut out = crate::screen::out();
    match format {
        Format::Json => {
            for row in rows {
                let line = serde_json::json!({ "name": row.name, "works": row.good, "says": row.says, "for": row.purpose });
                writeln!(out, "{line}")?;
            }
            Ok(())
        }
        Format::Text => text(rows, &mut out),
    }
}

fn text(rows: &[Row], out: &mut impl Write) -> Result<(), Failure> {
    let colour = style::colour(std::io::stdout().is_terminal());
    let mut columns = Columns::new([Left, Left]);
    for row in rows {
        let mark = match (row.good, colour) {
            (true, true) => "\x1b[32m yes\x1b[0m",
            (true, false) => " yes",
            (false, true) => "\x1b[31m  no\x1b[0m",
            (false, false) => "  no",
        };
        let purpose = if row.purpose.is_empty() {
            String::new()
        } else {
            format!(" — {}", row.purpose)
        };
        columns.row(
            format!("{mark}  "),
            [row.name.clone(), format!("{}{purpose}", row.says)],
        );
    }
    Ok(out.write_all(columns.text().as_bytes())?)
}
