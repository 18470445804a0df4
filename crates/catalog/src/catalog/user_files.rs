//! The files that the path of an event stands for: one, those that match a pattern, or those that a process, or any process, has mapped.

use super::glob::Glob;
use super::lookup::Catalog;
use crate::error::{Error, Result};
use crate::executable;
use kestrel_kernel::procfs;
use kestrel_trace::files;
use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A pattern stands for at most so many files.
const MAX: usize = 4096;

/// The paths of the files, as they are shown.
///
/// # Errors
/// When there are none.
pub(super) fn files(catalog: &Catalog, path: &str) -> Result<Vec<String>> {
    let process = catalog.script().and_then(|view| view.process);
    if Glob::new(path).is_plain() {
        return Ok(vec![shown(catalog, path, process)?]);
    }
    if let Some(process) = process {
        return mapped(catalog, process, path);
    }
    if path == "*" {
        return running(catalog);
    }
    let mut found = Vec::new();
    let (start, parts) = match path.strip_prefix('/') {
        Some(rest) => ("/".to_owned(), rest),
        None => (String::new(), path),
    };
    let parts: Vec<&str> = parts.split('/').collect();
    expand(&start, &parts, &mut found);
    found.sort_unstable();
    match found.is_empty() {
        false => Ok(found),
        true => Err(Error::Object {
            object: path.to_owned(),
            why: "no program and no library matches".to_owned(),
        }),
    }
}

/// A path as it is shown: as it is written, where it is one and a program of the language asks.
fn shown(catalog: &Catalog, path: &str, process: Option<u32>) -> Result<String> {
    let found = executable::find(path)?;
    let is_path = path.contains('/');
    if let Some(process) = process
        && is_path
        && !found.exists()
    {
        // A process may see another tree of files.
        let inside = format!("/proc/{process}/root{}", found.display());
        let inside = catalog.host().path(&inside).display().to_string();
        if files::open(Path::new(&inside)).is_ok() {
            return Ok(inside);
        }
    }
    Ok(match catalog.script() {
        Some(_) if is_path => path.to_owned(),
        _ => found.display().to_string(),
    })
}

/// Adds the programs and libraries below a folder that match the parts of a pattern.
fn expand(folder: &str, parts: &[&str], found: &mut Vec<String>) {
    let Some((part, rest)) = parts.split_first() else {
        return;
    };
    let glob = Glob::new(*part);
    let mut go_on = |path: String| match rest.is_empty() {
        true if found.len() < MAX && is_program(&path) => found.push(path),
        true => {}
        false => expand(&format!("{path}/"), rest, found),
    };
    if glob.is_plain() {
        go_on(format!("{folder}{part}"));
        return;
    }
    let read = fs::read_dir(match folder {
        "" => ".",
        folder => folder,
    });
    let names = read.into_iter().flatten().flatten();
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| glob.matches(name)).collect();
    names.sort_unstable();
    for name in names {
        go_on(format!("{folder}{name}"));
    }
}

/// Whether an ordinary file begins as ELF files do.
fn is_program(path: &str) -> bool {
    let mut head = [0; 4];
    ordinary(path).is_some_and(|mut file| file.read_exact(&mut head).is_ok()) && head == *b"\x7fELF"
}

/// An ordinary file, opened.
fn ordinary(path: &str) -> Option<fs::File> {
    let opened = files::open_ordinary(Path::new(path));
    opened.ok().map(|opened| opened.file)
}

/// The files that a process has mapped to run and whose paths match.
fn mapped(catalog: &Catalog, process: u32, pattern: &str) -> Result<Vec<String>> {
    let glob = Glob::new(pattern);
    let wanted = |path: &str| {
        let last = path.rsplit('/').next().unwrap_or_default();
        pattern == "*" || glob.matches(path) || glob.matches(last)
    };
    let found: Vec<String> = code_of(catalog, process)?
        .into_iter()
        .filter(|path| wanted(path))
        .filter_map(|path| Code::find(catalog, process, path)?.seen_from_here())
        .take(MAX)
        .collect();
    match found.is_empty() {
        false => Ok(found),
        true => Err(Error::Object {
            object: pattern.to_owned(),
            why: format!("process {process} runs no code of such a file"),
        }),
    }
}

/// The files that any process runs, each once, and the program of the command that waits to be run: `*`, where no process is named.
fn running(catalog: &Catalog) -> Result<Vec<String>> {
    let mut seen = HashSet::new();
    let mut found = BTreeSet::new();
    let command = catalog.script().and_then(|view| view.command);
    // Further programs that the command will run are not known beforehand.
    if let Some(program) = command.and_then(|_| catalog.command_file())
        && let (Ok(path), Ok(metadata)) = (fs::canonicalize(program), fs::metadata(program))
    {
        seen.insert((metadata.dev(), metadata.ino()));
        found.insert(path.display().to_string());
    }
    for process in procfs::processes(catalog.host())? {
        // It may have ended, or be the kernel's.
        for path in code_of(catalog, process).unwrap_or_default() {
            let file = Code::find(catalog, process, path);
            if let Some(file) = file.filter(|file| found.len() < MAX && seen.insert(file.identity)) {
                found.extend(file.seen_from_here());
            }
        }
    }
    match found.is_empty() {
        false => Ok(found.into_iter().collect()),
        true => Err(Error::Object {
            object: "*".to_owned(),
            why: "no process is seen whose files could be meant".to_owned(),
        }),
    }
}

/// A file that a process has mapped to run.
struct Code {
    /// Path of the file, as the process sees it.
    path: String,
    /// Path of the file through the process's tree of files.
    inside: String,
    /// Device and inode.
    identity: (u64, u64),
}

impl Code {
    /// The file at a path as a process sees it; none where it was deleted, or is no ordinary file.
    fn find(catalog: &Catalog, process: u32, path: String) -> Option<Self> {
        let inside = catalog.host().path(format!("/proc/{process}/root{path}"));
        let inside = inside.display().to_string();
        // A link inside of another process's tree leads to a file of that tree.
        let metadata = ordinary(&inside)?.metadata().ok()?;
        Some(Self {
            path,
            inside,
            identity: (metadata.dev(), metadata.ino()),
        })
    }

    /// The path of it here, where it is a program or a library: that of the process's own tree, where another file lies at its path here.
    fn seen_from_here(self) -> Option<String> {
        let here = fs::metadata(&self.path).is_ok_and(|ours| (ours.dev(), ours.ino()) == self.identity);
        Some(if here { self.path } else { self.inside }).filter(|path| is_program(path))
    }
}

/// Paths of the files that a process has mapped to run.
fn code_of(catalog: &Catalog, process: u32) -> Result<BTreeSet<String>> {
    let maps = procfs::maps(catalog.host(), process)?;
    let code = maps
        .into_iter()
        .filter(|map| map.permissions.execute && map.inode != 0 && map.path.starts_with('/'));
    Ok(code.map(|map| map.path).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use kestrel_kernel::Host;

    #[test]
    fn without_a_process_all_that_runs_is_meant_each_file_once() {
        let catalog = Catalog::new(Host::default()).for_script(None);
        let own = std::env::current_exe().and_then(fs::canonicalize).unwrap();
        let own = own.display().to_string();
        let found = files(&catalog, "*").unwrap();
        assert_eq!(found.iter().filter(|path| **path == own).count(), 1, "{found:?}");
        // A command has not begun to run: its program is known by its path, however that is written.
        let begun = fs::canonicalize("/bin/sleep").unwrap().display().to_string();
        let catalog = catalog.with_command(1, "/bin/../bin/sleep");
        let found = files(&catalog, "*").unwrap();
        assert_eq!(
            found.iter().filter(|path| **path == begun).count(),
            1,
            "{found:?}"
        );
    }
}
