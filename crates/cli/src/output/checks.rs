//! Printing the results of checks of a machine or a session, one per line with yes or no.

use super::Format;
use super::columns::Column::Left;
use super::columns::Columns;
use super::json;
use crate::exit::Failure;
use crate::style;
use serde::Serialize;
use std::io::{IsTerminal, Write};

/// The result of one check.
#[derive(Serialize)]
pub(crate) struct Check {
    /// The feature, setting or session that was checked.
    pub(crate) name: String,
    /// Whether the check passed.
    #[serde(rename = "works")]
    pub(crate) passed: bool,
    /// The result in words.
    #[serde(rename = "says")]
    pub(crate) finding: String,
    /// The use of the feature; empty where that is obvious.
    #[serde(rename = "for")]
    pub(crate) purpose: &'static str,
}

/// Prints the results of checks.
pub(crate) fn print_checks(rows: &[Check], format: Format) -> Result<(), Failure> {
    let mut out = crate::screen::out();
    match format {
        Format::Json => {
            for row in rows {
                writeln!(out, "{}", json::line(row)?)?;
            }
            Ok(())
        }
        Format::Text => text(rows, &mut out),
    }
}

fn text(rows: &[Check], out: &mut impl Write) -> Result<(), Failure> {
    let colour = style::colour(std::io::stdout().is_terminal());
    let mut columns = Columns::new([Left, Left]);
    for row in rows {
        let mark = match (row.passed, colour) {
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
            [row.name.clone(), format!("{}{purpose}", row.finding)],
        );
    }
    Ok(out.write_all(columns.text().as_bytes())?)
}
