//! Names of code that a process generates (JIT): its file /tmp/perf-PID.map, lines `START SIZE NAME` in hexadecimal.

use kestrel_kernel::Host;
use kestrel_trace::symbol::Symbols;
use std::fs;
use std::path::{Path, PathBuf};

/// The longest file that is read.
const LONGEST: u64 = 1 << 28;

/// The names that a process wrote, and its file; none where it wrote none.
pub(super) fn read(host: &Host, pid: u32) -> Option<(Symbols, PathBuf)> {
    let (path, _) = find(host, pid)?;
    let bytes = fs::read(&path).ok()?;
    Some((parse(&String::from_utf8_lossy(&bytes)), path))
}

/// A process's file, and its size.
fn find(host: &Host, pid: u32) -> Option<(PathBuf, u64)> {
    places(host, pid).into_iter().find_map(|path| {
        let about = fs::metadata(&path).ok()?;
        // Anybody may put a file there: one that never ends is none.
        (about.is_file() && about.len() <= LONGEST).then(|| (path, about.len()))
    })
}

/// The names that a process has written so far: read again when there are more.
#[derive(Debug, Default)]
pub(super) struct Growing {
    size: u64,
    symbols: Symbols,
    path: PathBuf,
}

impl Growing {
    /// The names, if there are more than at the last call.
    pub(super) fn refresh(&mut self, host: &Host, pid: u32) -> bool {
        let Some((path, size)) = find(host, pid) else {
            return false;
        };
        if (&path, size) == (&self.path, self.size) {
            return false;
        }
        let Ok(bytes) = fs::read(&path) else { return false };
        self.symbols = parse(&String::from_utf8_lossy(&bytes));
        (self.path, self.size) = (path, size);
        true
    }

    /// The names.
    pub(super) fn symbols(&self) -> &Symbols {
        &self.symbols
    }

    /// Its file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

/// Where a process's file lies: in its own root, under the number that it has in its container, or here.
fn places(host: &Host, pid: u32) -> Vec<PathBuf> {
    let status = host.read(format!("/proc/{pid}/status")).unwrap_or_default();
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    let inner = numbers
        .and_then(|numbers| numbers.split_whitespace().last())
        .map_or(pid.to_string(), str::to_owned);
    vec![
        host.path(format!("/proc/{pid}/root/tmp/perf-{inner}.map")),
        host.path(format!("/tmp/perf-{pid}.map")),
    ]
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
