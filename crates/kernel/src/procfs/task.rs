//! A process as /proc describes it: names, threads, memory map; watching processes is tracing.

use crate::error::{Error, Result};
use crate::host::Host;
use std::path::PathBuf;

/// The name of a process or thread: at most 15 bytes.
///
/// # Errors
/// [`Error::System`]: `ENOENT` if it has gone.
pub fn comm(host: &Host, pid: u32) -> Result<String> {
    host.read(format!("/proc/{pid}/comm"))
        .map(|text| text.trim_end_matches('\n').to_owned())
}

/// The name of a thread as the kernel has it, which need not be UTF-8.
///
/// # Errors
/// As [`comm`].
pub fn comm_bytes(host: &Host, pid: u32) -> Result<Vec<u8>> {
    let mut name = host.read_bytes(format!("/proc/{pid}/comm"))?;
    name.pop_if(|last| *last == b'\n');
    Ok(name)
}

/// The arguments of a process; empty for kernel threads.
///
/// # Errors
/// As [`comm`].
pub fn command_line(host: &Host, pid: u32) -> Result<Vec<String>> {
    let text = host.read(format!("/proc/{pid}/cmdline"))?;
    Ok(text.split_terminator('\0').map(str::to_owned).collect())
}

/// The file that a process runs.
///
/// # Errors
/// As [`comm`]; kernel threads have none (`ENOENT`).
pub fn executable(host: &Host, pid: u32) -> Result<PathBuf> {
    let path = host.path(format!("/proc/{pid}/exe"));
    std::fs::read_link(&path).map_err(|error| Error::file("read the link", &path, error))
}

/// The threads of a process, ascending, its first one included.
///
/// # Errors
/// As [`comm`].
pub fn threads(host: &Host, pid: u32) -> Result<Vec<u32>> {
    numbers(host, &format!("/proc/{pid}/task"))
}

/// All processes that this one can see, ascending.
///
/// # Errors
/// [`Error::System`].
pub fn processes(host: &Host) -> Result<Vec<u32>> {
    numbers(host, "/proc")
}

fn numbers(host: &Host, path: &str) -> Result<Vec<u32>> {
    let path = host.path(path);
    let directory = std::fs::read_dir(&path).map_err(|error| Error::file("list", &path, error))?;
    let mut numbers: Vec<u32> = directory
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// The parent of a process; 0 for the first process and for kernel threads' ancestor.
///
/// # Errors
/// As [`comm`]; [`Error::Format`].
pub fn parent(host: &Host, pid: u32) -> Result<u32> {
    let path = format!("/proc/{pid}/status");
    let text = host.read(&path)?;
    let line = text.lines().find_map(|line| line.strip_prefix("PPid:"));
    line.and_then(|line| line.trim().parse().ok())
        .ok_or_else(|| Error::Format {
            subject: host.path(&path).display().to_string(),
            why: "the line PPid is missing".to_owned(),
        })
}

/// When a process began, in clock ticks since boot: with its number it names the process for good.
///
/// # Errors
/// As [`comm`]; [`Error::Format`].
pub fn start_time(host: &Host, pid: u32) -> Result<u64> {
    let path = format!("/proc/{pid}/stat");
    let text = host.read(&path)?;
    // The name may hold anything, parentheses and blanks too; it is the only field in parentheses.
    let rest = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    let field = rest.split_ascii_whitespace().nth(19);
    field
        .and_then(|ticks| ticks.parse().ok())
        .ok_or_else(|| Error::Format {
            subject: host.path(&path).display().to_string(),
            why: "there is no start time in it".to_owned(),
        })
}

/// Whether a process is stopped (Ctrl-Z, a debugger), until it is continued.
///
/// # Errors
/// As [`comm`].
pub fn is_stopped(host: &Host, pid: u32) -> Result<bool> {
    let text = host.read(format!("/proc/{pid}/stat"))?;
    let state = text
        .rsplit_once(')')
        .and_then(|(_, rest)| rest.split_ascii_whitespace().next());
    Ok(matches!(state, Some("T" | "t")))
}

/// Whether a process is in the background of its terminal (`&` of a shell): another group of processes has it. One without a terminal is not.
///
/// # Errors
/// As [`comm`].
pub fn is_in_background(host: &Host, pid: u32) -> Result<bool> {
    let text = host.read(format!("/proc/{pid}/stat"))?;
    let rest = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    let mut fields = rest.split_ascii_whitespace().map(str::parse::<i64>);
    // Behind the name: state, parent, group, session, terminal, the group that has the terminal.
    let (group, in_front) = (fields.nth(2), fields.nth(2));
    Ok(
        matches!((group, in_front), (Some(Ok(group)), Some(Ok(in_front))) if in_front > 0 && group != in_front),
    )
}

/// Permissions of a memory mapping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "fields speak for themselves")]
pub struct Permissions {
    pub read: bool,
    pub write: bool,
    pub execute: bool,
    pub shared: bool,
}

/// A part of a process's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// First address.
    pub start: u64,
    /// One past the last address.
    pub end: u64,
    /// Permissions of the mapping.
    pub permissions: Permissions,
    /// Where in the file it begins: bytes.
    pub offset: u64,
    /// Inode of the file; 0 if there is none.
    pub inode: u64,
    /// The file, or `[heap]`, `[vdso]` and the like; empty if anonymous. A deleted file has ` (deleted)` behind.
    pub path: String,
}

/// The memory map of a process, by address.
///
/// # Errors
/// As [`comm`]; `EACCES` for other users' processes.
pub fn maps(host: &Host, pid: u32) -> Result<Vec<Mapped>> {
    let path = format!("/proc/{pid}/maps");
    let text = host.read(&path)?;
    let wrong = |line: &str| Error::Format {
        subject: host.path(&path).display().to_string(),
        why: format!("`{line}`"),
    };
    text.lines()
        .map(|line| mapped(line).ok_or_else(|| wrong(line)))
        .collect()
}

/// One line: `start-end rwxp offset device inode   path`.
fn mapped(line: &str) -> Option<Mapped> {
    let mut parts = line.splitn(6, ' ');
    let (start, end) = parts.next()?.split_once('-')?;
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    let letters = parts.next()?;
    let permissions = Permissions {
        read: letters.contains('r'),
        write: letters.contains('w'),
        execute: letters.contains('x'),
        shared: letters.contains('s'),
    };
    let offset = number(parts.next()?)?;
    let inode = parts.nth(1)?.parse().ok()?;
    let path = parts.next().unwrap_or_default().trim_start().to_owned();
    Some(Mapped {
        start: number(start)?,
        end: number(end)?,
        permissions,
        offset,
        inode,
        path,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stopped_process_is_known() {
        let host = Host::default();
        // It stops itself.
        let mut child = std::process::Command::new("sh")
            .args(["-c", "kill -STOP $$"])
            .spawn()
            .unwrap();
        let stopped = || is_stopped(&host, child.id()).unwrap();
        while !stopped() {
            std::thread::yield_now();
        }
        assert!(!is_stopped(&host, std::process::id()).unwrap());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(is_stopped(&host, child.id()).is_err());
    }

    #[test]
    fn who_has_the_terminal_is_read_from_behind_the_name() {
        let folder = tempfile::tempdir().unwrap();
        let host = Host::new(folder.path());
        let process = folder.path().join("proc/7");
        std::fs::create_dir_all(&process).unwrap();
        for (line, expected) in [
            ("7 (a) b 1) S 1 7 7 34816 7 0 0", false),
            ("7 (a) S 1 7 5 34816 9 0 0", true),
            ("7 (a) S 1 7 7 0 -1 0 0", false),
            ("7 (a)", false),
        ] {
            std::fs::write(process.join("stat"), line).unwrap();
            assert_eq!(is_in_background(&host, 7).unwrap(), expected, "{line}");
        }
    }

    #[test]
    fn this_process_is_as_it_knows_itself() {
        let host = Host::default();
        let pid = std::process::id();
        assert!(processes(&host).unwrap().contains(&pid));
        assert!(threads(&host, pid).unwrap().contains(&pid));
        assert_eq!(parent(&host, pid).unwrap(), std::os::unix::process::parent_id());
        assert_eq!(executable(&host, pid).unwrap(), std::env::current_exe().unwrap());
        assert_eq!(
            command_line(&host, pid).unwrap(),
            std::env::args().collect::<Vec<_>>()
        );
        assert!(!comm(&host, pid).unwrap().is_empty());
        let here = this_process_is_as_it_knows_itself as *const () as u64;
        let maps = maps(&host, pid).unwrap();
        let code = maps
            .iter()
            .find(|part| (part.start..part.end).contains(&here))
            .unwrap();
        assert!(code.permissions.execute && !code.permissions.write && code.inode != 0);
    }

    #[test]
    fn paths_with_spaces_and_anonymous_parts() {
        let part = mapped("7f00-7fff rw-s 00001000 08:01 42      /tmp/a b (deleted)").unwrap();
        assert_eq!(
            (part.path.as_str(), part.offset, part.inode),
            ("/tmp/a b (deleted)", 0x1000, 42)
        );
        assert!(part.permissions.shared && part.permissions.write && !part.permissions.execute);
        assert_eq!(mapped("7f00-7fff ---p 00000000 00:00 0 ").unwrap().path, "");
        assert_eq!(mapped("nonsense"), None);
    }
}
