//! Addresses of source lines by DWARF: where the statements of a line begin, once in each function and in each inlined copy of one.

use super::sections::Slice;
use super::unit::Die;
use gimli::{ColumnType, LineProgramHeader, Unit, constants as dw};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

/// Addresses of a source line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lines {
    /// Addresses where its statements begin.
    pub addresses: Vec<u64>,
    /// Lines of the file near it at which statements begin.
    pub near: Vec<u64>,
    /// Whether debug information mentions the file.
    pub has_file: bool,
}

/// A source line that is looked for.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    /// The file: its whole path, or the end of it.
    pub file: &'a str,
    /// The number of the line.
    pub line: u64,
    /// The column, if the event names one.
    pub column: Option<u64>,
}

/// The most neighbouring lines that an error names.
const NEAR: usize = 4;

/// State of a search through the units.
#[derive(Debug, Default)]
pub(super) struct Search {
    found: BTreeSet<u64>,
    lines: BTreeSet<u64>,
    has_file: bool,
}

impl Search {
    /// Searches the line table of a unit. The unit's entries (those of its split file, if it has one) say which function an address belongs to.
    pub(super) fn unit(
        &mut self,
        root: &Die<'_>,
        entries: impl FnOnce() -> Option<Vec<Scope>>,
        wanted: Line<'_>,
    ) {
        let Some(program) = root.unit.line_program.clone() else {
            return;
        };
        let header = program.header();
        let last = header.file_names().len() as u64;
        let files: BTreeSet<u64> = (0..=last)
            .filter(|index| path_of(root, header, *index).is_some_and(|path| is_file(&path, wanted.file)))
            .collect();
        if files.is_empty() {
            return;
        }
        self.has_file = true;
        let mut rows = program.rows();
        let mut here = Vec::new();
        while let Ok(Some((_, row))) = rows.next_row() {
            if row.end_sequence() || !row.is_stmt() || !files.contains(&row.file_index()) {
                continue;
            }
            let Some(line) = row.line() else {
                continue;
            };
            self.lines.insert(line.get());
            let column = match row.column() {
                ColumnType::LeftEdge => 0,
                ColumnType::Column(column) => column.get(),
            };
            if line.get() == wanted.line && wanted.column.is_none_or(|wanted| wanted == column) {
                here.push(row.address());
            }
        }
        if here.is_empty() {
            return;
        }
        // Code that the linker has removed has address 0.
        here.retain(|address| *address != 0);
        let scopes = entries().unwrap_or_default();
        let mut first: BTreeMap<Option<usize>, u64> = BTreeMap::new();
        for address in here {
            let around = scopes.iter().enumerate();
            let around = around.filter(|(_, scope)| scope.range.0 <= address && address < scope.range.1);
            let innermost = around
                .min_by_key(|(_, scope)| scope.size)
                .map(|(_, scope)| scope.entry);
            let known = first.entry(innermost).or_insert(address);
            *known = address.min(*known);
        }
        self.found.extend(first.into_values());
    }

    /// The result of the search through all units.
    pub(super) fn finish(self, wanted: Line<'_>) -> Lines {
        let mut near: Vec<u64> = self
            .lines
            .into_iter()
            .filter(|line| *line != wanted.line)
            .collect();
        near.sort_by_key(|line| line.abs_diff(wanted.line));
        near.truncate(NEAR);
        near.sort_unstable();
        Lines {
            addresses: self.found.into_iter().collect(),
            near,
            has_file: self.has_file,
        }
    }
}

/// The code of a function, or of an inlined copy of one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scope {
    entry: usize,
    range: (u64, u64),
    /// Sum of the sizes of its ranges, in bytes.
    size: u64,
}

/// The functions of a unit, and their inlined copies.
pub(super) fn scopes(root: &Die<'_>) -> Vec<Scope> {
    let mut all = Vec::new();
    let mut entries = root.unit.entries();
    while let Ok(Some(entry)) = entries.next_dfs() {
        if !matches!(entry.tag(), dw::DW_TAG_subprogram | dw::DW_TAG_inlined_subroutine) {
            continue;
        }
        let Ok(mut ranges) = root.units.dwarf.die_ranges(&root.unit, entry) else {
            continue;
        };
        let mut own = Vec::new();
        while let Ok(Some(range)) = ranges.next() {
            if range.begin < range.end {
                own.push((range.begin, range.end));
            }
        }
        let size = own
            .iter()
            .fold(0_u64, |size, (begin, end)| size.saturating_add(end - begin));
        all.extend(own.into_iter().map(|range| Scope {
            entry: entry.offset().0,
            range,
            size,
        }));
    }
    all
}

/// The path of a file of a unit.
fn path_of(root: &Die<'_>, header: &LineProgramHeader<Slice<'_>>, index: u64) -> Option<PathBuf> {
    let unit: &Unit<_> = &root.unit;
    let text = |value| {
        let text = root.units.dwarf.attr_string(unit, value).ok()?;
        Some(text.to_string_lossy().into_owned())
    };
    let file = header.file(index)?;
    let mut path = PathBuf::new();
    if let Some(folder) = &unit.comp_dir {
        path.push(folder.to_string_lossy().as_ref());
    }
    if let Some(folder) = file.directory(header).and_then(text) {
        path.push(folder);
    }
    path.push(text(file.path_name())?);
    Some(path)
}

/// Whether a path is the one that is wanted, or ends in it.
fn is_file(path: &Path, wanted: &str) -> bool {
    let parts = |path: &Path| -> Vec<String> {
        let parts = path.components().filter(|part| *part != Component::CurDir);
        parts
            .map(|part| part.as_os_str().to_string_lossy().into_owned())
            .collect()
    };
    let (path, wanted) = (parts(path), parts(Path::new(wanted)));
    !wanted.is_empty() && path.ends_with(&wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_named_by_the_end_of_its_path() {
        let path = Path::new("/srv/x/src/./deep/a.c");
        for wanted in ["a.c", "deep/a.c", "./deep/a.c", "/srv/x/src/deep/a.c"] {
            assert!(is_file(path, wanted), "{wanted}");
        }
        for wanted in ["", "b.c", "x/a.c", "eep/a.c", "/deep/a.c"] {
            assert!(!is_file(path, wanted), "{wanted}");
        }
    }
}
