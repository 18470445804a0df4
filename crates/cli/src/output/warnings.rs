//! Warnings about a table file, on stderr.

use crate::style::{diagnostics, diagnostics_in};
use kestrel::language::Diagnostic;
use kestrel::table::TableFile;

/// Writes the warnings of a file's plan to stderr, each with the text that it is about, which mostly is the file's.
pub(crate) fn warn_of_plan(file: &TableFile, warnings: &[(String, Diagnostic)]) {
    for (text, warning) in warnings {
        let one = std::slice::from_ref(warning);
        match **text == *file.text {
            true => eprintln!("{}", diagnostics_in(&file.name, one, text)),
            false => eprintln!("{}", diagnostics(one, text)),
        }
    }
}

/// Writes warnings about a table file to stderr.
pub(crate) fn warn<'d>(file: &TableFile, warnings: impl Iterator<Item = &'d Diagnostic>) {
    for warning in warnings {
        let one = std::slice::from_ref(warning);
        eprintln!("{}", diagnostics_in(&file.name, one, &file.text));
    }
}
