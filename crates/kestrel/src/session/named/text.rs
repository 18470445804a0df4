//! The text of a named probe as a table file of one table, and what can be a probe's name.

use kestrel_catalog::{Error, Result};
use kestrel_compiler::lang::ast::Spanned;
use kestrel_compiler::lang::diag::has_errors;
use kestrel_compiler::lang::expand::with_library;
use kestrel_compiler::lang::parse_probes;
use kestrel_hook::table::{BufferSpec, IMPLICIT, TableFile, TableSpec};
use std::cmp::Reverse;
use std::path::Path;

/// Longest name of a probe: a group and an event of the kernel's, 63 letters each.
const LONGEST: usize = 128;

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
        shape: "letters, digits, `_`, `-`, `.` and `/`, at most 128 of them, a letter, digit or `_` first",
    })
}

/// Reads a probe's text: events with or without a block, or several such with blocks.
pub(super) fn file(name: &str, text: &str) -> Result<TableFile> {
    let (probes, mut found) = parse_probes(text);
    let (probes, wrong) = with_library(probes);
    found.extend(wrong);
    if has_errors(&found) {
        return Err(Error::Program {
            source_text: text.to_owned(),
            diagnostics: found,
        });
    }
    Ok(TableFile {
        name: name.to_owned(),
        text: text.into(),
        buffers: vec![BufferSpec::default()],
        parameters: Vec::new(),
        tables: vec![TableSpec {
            name: Spanned {
                node: IMPLICIT.to_owned(),
                span: probes[0].span,
            },
            parent: None,
            probes,
        }],
        max_map_keys: None,
        warnings: found,
        objection: None,
    })
}

/// The text with the paths of its compiled objects from the root: it is read again, wherever from, when its module has come back.
///
/// # Errors
/// [`Error::Io`] where the current directory is unknown.
pub(super) fn rooted(file: TableFile, beside: &Path) -> Result<String> {
    let mut text = file.text.to_string();
    let probes = file.tables.iter().flat_map(|table| &table.probes);
    let mut objects: Vec<&Spanned<String>> = probes.filter_map(|probe| probe.object.as_ref()).collect();
    objects.sort_by_key(|object| Reverse(object.span.start));
    for object in objects {
        let path = beside.join(&object.node);
        let path = std::path::absolute(&path).map_err(Error::io("find the directory of", path.display()))?;
        let quoted = path
            .display()
            .to_string()
            .replace('\\', r"\\")
            .replace('"', "\\\"");
        text.replace_range(
            object.span.start as usize..object.span.end as usize,
            &format!("\"{quoted}\""),
        );
    }
    Ok(text)
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
    fn paths_of_objects_are_from_the_root() {
        let text = "kprobe:f handler \"x.o\" kretprobe:f /pid == 1/ handler \"../y \\\"z.o:exit\"";
        let wanted =
            "kprobe:f handler \"/a/b/x.o\" kretprobe:f /pid == 1/ handler \"/a/b/../y \\\"z.o:exit\"";
        let of = |text: &str| rooted(file("p", text).unwrap(), Path::new("/a/b")).unwrap();
        assert_eq!(of(text), wanted);
        assert_eq!(of(wanted), wanted);
        assert_eq!(of("kprobe:f"), "kprobe:f");
    }

    #[test]
    fn names_are_words_with_slashes() {
        for good in ["a", "grp/name", "p_vfs_read_0", "x-1.y", "0"] {
            check_name(good).unwrap();
        }
        for bad in ["", "a b", "-x", "/x", ".x", "a:b", "ä", &"x".repeat(129)] {
            assert!(matches!(check_name(bad), Err(Error::Name { .. })), "{bad}");
        }
    }
}
