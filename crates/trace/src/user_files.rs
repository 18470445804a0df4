//! Events of programs' and libraries' files, which recordings name by whole paths, as scripts and command lines name them: `./server`, `libc`.

use crate::event_kind::{self, Optional};

/// Whether a pattern, without its kind, means a recorded event of that kind by its file's name or the end of its path; `is_like` decides whether the text behind
/// the file is like a pattern. Paths in full are patterns as others are.
pub fn matches(kind: &str, pattern: &str, name: &str, is_like: impl Fn(&str, &str) -> bool) -> bool {
    let (Some((file, rest)), Some((path, place))) = (pattern.split_once(':'), name.split_once(':')) else {
        return false;
    };
    let Some(kind) = event_kind::find(kind).filter(|kind| kind.subject.is_file()) else {
        return false;
    };
    if !is_file(file, path) {
        return false;
    }
    // The provider of a USDT probe may be left out.
    let alone = place
        .split_once(':')
        .filter(|_| kind.optional == Optional::Provider);
    is_like(rest, place) || alone.is_some_and(|(_, probe)| is_like(rest, probe))
}

fn is_file(file: &str, path: &str) -> bool {
    if file.starts_with('/') || !path.starts_with('/') {
        return file == path;
    }
    // From which directory it was recorded is not known.
    let components = file.split('/').filter(|part| !matches!(*part, "." | ".."));
    let end: Vec<&str> = components.collect();
    let recorded: Vec<&str> = path.split('/').collect();
    if !end.is_empty() && recorded.ends_with(&end) {
        return true;
    }
    // A library goes without its ending and version: `libc` is `libc.so.6`.
    let library = recorded.last().and_then(|last| last.strip_prefix(file));
    library.is_some_and(|ending| ending.starts_with(".so"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_named_by_their_ends() {
        let server = "/tmp/b/server:main";
        for (kind, pattern, name, expected) in [
            ("uprobe", "./server:main", server, true),
            ("uprobe", "../b/server:main", server, true),
            ("uprobe", "b/server:ma*", server, true),
            ("uprobe", "server:main", server, true),
            ("uprobe", "/tmp/b/server:main", server, true),
            ("uprobe", "/b/server:main", server, false),
            ("uprobe", "c/server:main", server, false),
            ("uprobe", "./server:other", server, false),
            ("uprobe", "erver:main", server, false),
            ("uprobe", ":main", server, false),
            ("kprobe", "server:main", server, false),
            (
                "uretprobe",
                "libc:malloc",
                "/usr/lib/x86_64-linux-gnu/libc.so.6:malloc",
                true,
            ),
            (
                "uretprobe",
                "libc.so.6:malloc",
                "/usr/lib/x86_64-linux-gnu/libc.so.6:malloc",
                true,
            ),
            ("uprobe", "libc:malloc", "/usr/lib/libcap.so.2:malloc", false),
            ("usdt", "./server:shop:sold", "/tmp/server:shop:sold", true),
            ("usdt", "./server:sold", "/tmp/server:shop:sold", true),
            ("usdt", "./server:*", "/tmp/server:shop:sold", true),
            ("usdt", "./server:other:sold", "/tmp/server:shop:sold", false),
        ] {
            let is_like = |pattern: &str, name: &str| match pattern.strip_suffix('*') {
                Some(begin) => name.starts_with(begin),
                None => name == pattern,
            };
            assert_eq!(
                matches(kind, pattern, name, is_like),
                expected,
                "{kind}:{pattern} {name}"
            );
        }
    }
}
