//! Names of code that a process generates (JIT): its file /tmp/perf-PID.map, lines `START SIZE NAME` in hexadecimal.

use kestrel_kernel::Host;
use kestrel_trace::files;
use kestrel_trace::symbol::Symbols;
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The longest file that is read.
const LONGEST: u64 = 1 << 28;

/// Where a process writes its perf map file: seen while it lives, held for when it has ended.
#[derive(Debug)]
pub(super) struct Home {
    /// The root directory, where that is another than ours.
    root: Option<File>,
    /// The number that it has in its container.
    number: u32,
}

impl Home {
    /// The map of a process, if that still runs.
    pub(super) fn of(host: &Host, pid: u32) -> Option<Self> {
        let status = host.read(format!("/proc/{pid}/status")).ok()?;
        let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
        let inner = numbers.and_then(|numbers| numbers.split_whitespace().last()?.parse().ok());
        let root = File::open(host.path(format!("/proc/{pid}/root"))).ok();
        let is_ours = |root: &File| {
            let (its, ours) = (root.metadata().ok()?, fs::metadata(host.path("/")).ok()?);
            Some((its.dev(), its.ino()) == (ours.dev(), ours.ino()))
        };
        Some(Self {
            root: root.filter(|root| is_ours(root) != Some(true)),
            number: inner.unwrap_or(pid),
        })
    }

    /// Whether it holds a file open.
    pub(super) fn is_open(&self) -> bool {
        self.root.is_some()
    }
}

/// The names that a process wrote, and its file; none where it wrote none.
pub(super) fn read(host: &Host, pid: u32, home: Option<&Home>) -> Option<(Symbols, PathBuf)> {
    let found = find(host, pid, home)?;
    let symbols = found.symbols()?;
    Some((symbols, found.path))
}

/// A process's file.
struct Found {
    file: File,
    /// Path of the file as the process sees it.
    path: PathBuf,
    size: u64,
}

impl Found {
    fn symbols(&self) -> Option<Symbols> {
        let mut bytes = Vec::new();
        (&self.file).take(LONGEST).read_to_end(&mut bytes).ok()?;
        Some(parse(&String::from_utf8_lossy(&bytes)))
    }
}

/// The file in the process's own root, under the number that it has in its container, or here.
fn find(host: &Host, pid: u32, home: Option<&Home>) -> Option<Found> {
    let inner = home.map_or(pid, |home| home.number);
    let place = |number: u32| PathBuf::from(format!("/tmp/perf-{number}.map"));
    let usable = |file: File, number: u32| {
        let about = file.metadata().ok()?;
        // Anybody may put a file there: one that never ends is none.
        let is_usable = about.is_file() && about.len() <= LONGEST;
        is_usable.then(|| Found {
            file,
            path: place(number),
            size: about.len(),
        })
    };
    let here = |number: u32| {
        let opened = files::open_ordinary(&host.path(place(number))).ok()?;
        usable(opened.file, number)
    };
    let own = match home.and_then(|home| home.root.as_ref()) {
        Some(root) => files::open_in(root, &place(inner))
            .ok()
            .and_then(|opened| usable(opened.file, inner)),
        None => here(inner),
    };
    own.or_else(|| (inner != pid).then(|| here(pid))?)
}

/// The names that a process has written so far: read again when there are more.
#[derive(Debug, Default)]
pub(super) struct Growing {
    size: u64,
    symbols: Symbols,
    path: PathBuf,
}

impl Growing {
    /// Takes the names that were written since the last call.
    pub(super) fn refresh(&mut self, host: &Host, pid: u32, home: Option<&Home>) {
        let Some(found) = find(host, pid, home) else {
            return;
        };
        if (&found.path, found.size) == (&self.path, self.size) {
            return;
        }
        let Some(symbols) = found.symbols() else { return };
        self.symbols = symbols;
        (self.path, self.size) = (found.path, found.size);
    }

    /// The names read so far.
    pub(super) fn symbols(&self) -> &Symbols {
        &self.symbols
    }

    /// The path of the file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

/// Of several names at one address the last counts: what was generated there later.
fn parse(text: &str) -> Symbols {
    let lines: Vec<&str> = text.lines().collect();
    Symbols::new(lines.into_iter().rev().filter_map(|line| {
        let mut words = line.splitn(3, ' ');
        let mut number = || {
            let word = words.next()?;
            u64::from_str_radix(word.strip_prefix("0x").unwrap_or(word), 16).ok()
        };
        let (address, size) = (number()?, number()?);
        let name = words.next()?.trim();
        Some((address, size.max(1), name, None))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_name_counts_and_lines_that_make_no_sense_are_none() {
        let symbols = parse("1000 20 old\n0x2000 10 py::f:/x y.py\nnonsense\n1000 20 new\n3000\n");
        let name = |address| symbols.resolve(address).map(|it| it.name.to_owned());
        assert_eq!(name(0x101f).as_deref(), Some("new"));
        assert_eq!(name(0x2008).as_deref(), Some("py::f:/x y.py"));
        assert_eq!(name(0x3000), None);
    }
}
