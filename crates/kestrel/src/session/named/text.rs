//! The text of a named probe as a table file of one table, and what can be a probe's name.

use crate::error::{Error, Result};
use crate::table::{BufferSpec, IMPLICIT, TableFile, TableSpec, read};
use kestrel_compiler::lang::ast::Spanned;
use kestrel_compiler::lang::diag::has_errors;
use kestrel_compiler::lang::parse_events;

/// Longest name of a probe.
const LONGEST: usize = 64;

/// Whether a text can be a probe's name.
///
/// # Errors
/// [`Error::Name`] when it cannot.
pub(super) fn check_name(name: &str) -> Result<()> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/');
    let plain = name.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    if plain && name.len() <= LONGEST && name.chars().all(fits) {
        return Ok(());
    }
    Err(Error::Name {
        what: "probe",
        name: name.to_owned(),
        shape: "letters, digits, `_`, `-`, `.` and `/`, at most 64 of them, a letter, digit or `_` first",
    })
}

/// Reads a probe's text: events with or without a block, or several such with blocks.
pub(super) fn file(name: &str, text: &str) -> Result<TableFile> {
    let (probe, found) = parse_events(text);
    if !has_errors(&found) {
        return Ok(TableFile {
            name: name.to_owned(),
            text: text.into(),
            buffers: vec![BufferSpec::default()],
            parameters: Vec::new(),
            tables: vec![TableSpec {
                name: Spanned {
                    node: IMPLICIT.to_owned(),
                    span: probe.span,
                },
                parent: None,
                probes: vec![probe],
            }],
            max_map_keys: None,
            warnings: found,
        });
    }
    let (file, wrong) = read(text, name);
    let only_probes = file.table_names().eq([IMPLICIT]) && file.buffers.iter().all(|b| b.span.end == 0);
    if !has_errors(&wrong) && only_probes {
        return Ok(TableFile {
            warnings: wrong,
            ..file
        });
    }
    // A text of several probes goes further when it is read as such.
    let last = |found: &[kestrel_compiler::lang::diag::Diagnostic]| found.iter().map(|d| d.span.start).min();
    let diagnostics = match has_errors(&wrong) && last(&wrong) > last(&found) {
        true => wrong,
        false => found,
    };
    Err(Error::Program {
        source_text: text.to_owned(),
        diagnostics,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_events_or_several_probes() {
        for (text, probes) in [
            ("kprobe:vfs_read", 1),
            ("kprobe:vfs_read /pid == 1/", 1),
            ("kprobe:vfs_read, kprobe:vfs_write { count() }", 1),
            (
                "kprobe:vfs_read { count() } kretprobe:vfs_read { record(retval) }",
                2,
            ),
        ] {
            let file = file("p", text).unwrap();
            assert_eq!(file.tables.len(), 1, "{text}");
            assert_eq!(file.tables[0].probes.len(), probes, "{text}");
            assert_eq!(&*file.text, text);
        }
        for wrong in [
            "",
            "kprobe:vfs_read {",
            "table x { kprobe:f { record() } }",
            "buffer b { size = 4M } kprobe:f { record() }",
        ] {
            assert!(matches!(file("p", wrong), Err(Error::Program { .. })), "{wrong}");
        }
    }

    #[test]
    fn names_are_words_with_slashes() {
        for good in ["a", "grp/name", "p_vfs_read_0", "x-1.y", "0"] {
            check_name(good).unwrap();
        }
        for bad in ["", "a b", "-x", "/x", ".x", "a:b", "ä", &"x".repeat(65)] {
            assert!(matches!(check_name(bad), Err(Error::Name { .. })), "{bad}");
        }
    }
}
