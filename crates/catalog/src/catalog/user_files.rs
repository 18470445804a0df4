//! The files that the path of an event stands for: one, those that match a pattern, or those that a process has mapped.

use super::glob::Glob;
use super::lookup::Catalog;
use crate::error::{Error, Result};
use crate::executable;
use kestrel_kernel::procfs;
use kestrel_trace::files;
use std::collections::BTreeSet;
use std::fs;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A pattern stands for at most so many files.
const MAX: usize = 4096;

/// The paths of the files, as they are shown.
///
/// # Errors
/// When there are none, or a pattern is given that may mean any file of the system.
pub(super) fn files(catalog: &Catalog, path: &str) -> Result<Vec<String>> {
    let process = catalog.script().and_then(|view| view.process);
    if Glob::new(path).is_plain() {
        return Ok(vec![shown(catalog, path, process)?]);
    }
    if let Some(process) = process {
        return mapped(catalog, process, path);
    }
    if path == "*" {
        return Err(Error::Object {
            object: path.to_owned(),
            why: "all files of a process are meant so: say which one by -p, or give a path".to_owned(),
        });
    }
    let mut found = Vec::new();
    let (start, parts) = match path.strip_prefix('/') {
        Some(rest) => ("/".to_owned(), rest),
        None => (String::new(), path),
    };
    let parts: Vec<&str> = parts.split('/').collect();
    expand(&start, &parts, &mut found);
    found.sort();
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
    names.sort();
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
    let maps = procfs::maps(catalog.host(), process)?;
    let glob = Glob::new(pattern);
    let wanted = |path: &str| {
        let last = path.rsplit('/').next().unwrap_or_default();
        pattern == "*" || glob.matches(path) || glob.matches(last)
    };
    let paths: BTreeSet<&str> = maps
        .iter()
        .filter(|map| map.permissions.execute && map.inode != 0 && map.path.starts_with('/'))
        .map(|map| map.path.as_str())
        .filter(|path| wanted(path))
        .collect();
    let found = paths.into_iter().filter_map(|path| {
        let inside = catalog.host().path(format!("/proc/{process}/root{path}"));
        let inside = inside.display().to_string();
        // A link inside of another process's tree leads to a file of that tree.
        let theirs = ordinary(&inside)?.metadata().ok()?;
        let same =
            fs::metadata(path).is_ok_and(|ours| (ours.dev(), ours.ino()) == (theirs.dev(), theirs.ino()));
        Some(if same { path.to_owned() } else { inside }).filter(|path| is_program(path))
    });
    let found: Vec<String> = found.take(MAX).collect();
    match found.is_empty() {
        false => Ok(found),
        true => Err(Error::Object {
            object: pattern.to_owned(),
            why: format!("process {process} runs no code of such a file"),
        }),
    }
}
