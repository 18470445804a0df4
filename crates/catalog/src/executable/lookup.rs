//! Search for programs and libraries that are named without their paths: `bash`, `libc`, `libc.so.6`.

use super::library_cache;
use crate::error::{Error, Result};
use std::path::{Path, PathBuf};

/// Directories of libraries that the loader's cache does not list.
const LIBRARIES: &[&str] = &[
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
];
/// Directories of programs behind those of `PATH`, which `sudo` shortens.
const PROGRAMS: &[&str] = &[
    "/usr/local/sbin",
    "/usr/local/bin",
    "/usr/sbin",
    "/usr/bin",
    "/sbin",
    "/bin",
];

/// The absolute path of a file that may be given by its name alone: programs by their name, libraries by theirs with or without `.so` and what follows that.
///
/// # Errors
/// When there is none.
pub fn find(name: &str) -> Result<PathBuf> {
    if name.contains('/') {
        return std::path::absolute(name).map_err(Error::io("find", name));
    }
    let found = match name.starts_with("lib") {
        true => library(name).or_else(|| program(name)),
        false => program(name).or_else(|| library(name)),
    };
    found.ok_or_else(|| Error::Object {
        object: name.to_owned(),
        why: "no program of this name in PATH, and no library in the loader's cache (ldconfig -p); give its path".to_owned(),
    })
}

fn program(name: &str) -> Option<PathBuf> {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let paths = std::env::split_paths(&paths).chain(PROGRAMS.iter().map(PathBuf::from));
    let mut paths = paths
        .filter(|path| path.is_absolute())
        .map(|path| path.join(name));
    paths.find(|path| path.is_file())
}

fn library(name: &str) -> Option<PathBuf> {
    let cache = library_cache::read();
    let listed = library_cache::find(&cache, name).map(PathBuf::from);
    let listed = listed.filter(|path| path.is_file());
    listed.or_else(|| {
        LIBRARIES
            .iter()
            .find_map(|place| in_directory(Path::new(place), name))
    })
}

/// The library itself, or else its shortest version: `libc.so.6` for `libc`.
fn in_directory(directory: &Path, name: &str) -> Option<PathBuf> {
    let exact = directory.join(name);
    if exact.is_file() {
        return Some(exact);
    }
    let stem = format!("{name}.so");
    let names = std::fs::read_dir(directory)
        .ok()?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let is_version = |known: &String| {
        known
            .strip_prefix(&stem)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let mut versions: Vec<String> = names.filter(is_version).collect();
    versions.sort_unstable_by(|one, other| (one.len(), one).cmp(&(other.len(), other)));
    versions
        .into_iter()
        .map(|name| directory.join(name))
        .find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_and_libraries_are_found_by_name() {
        assert!(find("sh").unwrap().is_absolute());
        let short = find("libc").unwrap();
        assert_eq!(short, find("libc.so.6").unwrap());
        assert!(short.is_file(), "{}", short.display());
        assert_eq!(find("/x/y").unwrap(), Path::new("/x/y"));
        let why = find("no-such-program").unwrap_err().to_string();
        assert!(why.contains("no-such-program") && why.contains("PATH"), "{why}");
    }
}
