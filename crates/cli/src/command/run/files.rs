//! Files that a script takes in: imports beside it, headers of its own.

use kestrel::language::expand::{Files, ImportedText};
use kestrel::language::number_of;
use kestrel_trace::syscall::error_numbers;
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// Access to the files of a script.
pub(super) struct ScriptFiles<'a> {
    /// Where headers are sought (`-I`), before the folders of [`INCLUDES`].
    pub(super) directories: &'a [PathBuf],
}

/// Environment variables that name further folders of headers, as compilers of C have them.
const INCLUDES: &[&str] = &["CPATH", "C_INCLUDE_PATH"];

/// Headers that belong to a compiler of C: what they define is in the language, but for these lines.
const COMPILERS: &[(&str, &str)] = &[
    ("stdbool.h", ""),
    ("stddef.h", "#define NULL 0\n"),
    ("stdarg.h", ""),
    ("stdint.h", ""),
    ("limits.h", ""),
    ("float.h", ""),
    ("stdalign.h", ""),
    ("stdnoreturn.h", ""),
    ("stdatomic.h", ""),
    ("iso646.h", ""),
];

/// Directories of the kernel's headers: their types are in BTF, so that the files need not be there.
const KERNELS: &[&str] = &[
    "acpi",
    "asm",
    "asm-generic",
    "bpf",
    "crypto",
    "drm",
    "generated",
    "keys",
    "kunit",
    "kvm",
    "linux",
    "math-emu",
    "media",
    "misc",
    "mtd",
    "net",
    "pcmcia",
    "ras",
    "rdma",
    "rv",
    "scsi",
    "soc",
    "sound",
    "target",
    "trace",
    "uapi",
    "ufs",
    "vdso",
    "video",
    "xen",
];
/// Directories of the headers of user space, of which numbers are read.
const SYSTEM: &[&str] = &[
    "/usr/include",
    "/usr/local/include",
    "/usr/include/x86_64-linux-gnu",
];
/// Most bytes of a file that is taken in.
const MAX: u64 = 4 << 20;

impl Files for ScriptFiles<'_> {
    fn import(&self, path: &str, from: &str) -> Result<Vec<ImportedText>, String> {
        let whole = beside(from).join(path);
        let found = fs::metadata(&whole).map_err(|error| crate::style::system_words(&error))?;
        let directory = match found.is_dir() {
            true => whole.clone(),
            false => whole.parent().unwrap_or(Path::new(".")).to_owned(),
        };
        let mode = fs::metadata(&directory).map_err(|error| crate::style::system_words(&error))?;
        if mode.permissions().mode() & 0o002 != 0 {
            let directory = directory.display();
            return Err(format!(
                "anybody can write to {directory} (`chmod o-w {directory}`)"
            ));
        }
        if !found.is_dir() {
            return Ok(vec![read(&whole)?]);
        }
        let entries = fs::read_dir(&whole).map_err(|error| crate::style::system_words(&error))?;
        let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        files.retain(|path| {
            path.is_file() && matches!(path.extension(), Some(end) if end == "bt" || end == "h")
        });
        files.sort_unstable();
        files.iter().map(|path| read(path)).collect()
    }

    fn header(&self, path: &str, own: bool, from: &str) -> Result<Option<ImportedText>, String> {
        let beside = own.then(|| beside(from));
        let is_system = || SYSTEM.iter().any(|place| Path::new(path).starts_with(place));
        let root = (Path::new(path).is_absolute() && !is_system()).then(|| PathBuf::from("/"));
        let places = beside
            .into_iter()
            .chain(root)
            .chain(self.directories.iter().cloned())
            .chain(INCLUDES.iter().filter_map(env::var_os).flat_map(|all| {
                let folders = env::split_paths(&all).filter(|folder| !folder.as_os_str().is_empty());
                folders.collect::<Vec<_>>()
            }));
        for place in places {
            let whole = place.join(path);
            if whole.is_file() {
                return read(&whole).map(Some);
            }
        }
        if let Some(text) = constants(path) {
            return Ok(Some(ImportedText {
                name: path.to_owned(),
                text,
            }));
        }
        let first = path.split('/').next().unwrap_or_default();
        let mut places = SYSTEM.iter().map(|place| Path::new(place).join(path));
        match places.find(|place| place.is_file()) {
            // Its functions and types are for a compiler of C.
            Some(whole) => {
                let header = read(&whole)?;
                let text = numbers(&header.text);
                Ok(Some(ImportedText { text, ..header }))
            }
            None if KERNELS.contains(&first) => Ok(None),
            None if let Some((name, text)) = COMPILERS.iter().find(|(name, _)| *name == path) => {
                Ok(Some(ImportedText {
                    name: (*name).to_owned(),
                    text: (*text).to_owned(),
                }))
            }
            None => Err(format!("'{path}' file not found")),
        }
    }
}

/// Numbers that are macros of C, and so in no BTF: the end of the header's path, names and numbers.
const MACROS: &[(&str, &[(&str, i64)])] = &[
    (
        "socket.h",
        &[
            ("AF_UNSPEC", 0),
            ("AF_UNIX", 1),
            ("AF_LOCAL", 1),
            ("AF_INET", 2),
            ("AF_INET6", 10),
            ("AF_NETLINK", 16),
            ("AF_PACKET", 17),
            ("AF_VSOCK", 40),
        ],
    ),
    (
        "signal.h",
        &[
            ("SIGHUP", 1),
            ("SIGINT", 2),
            ("SIGQUIT", 3),
            ("SIGKILL", 9),
            ("SIGUSR1", 10),
            ("SIGSEGV", 11),
            ("SIGUSR2", 12),
            ("SIGPIPE", 13),
            ("SIGTERM", 15),
            ("SIGCHLD", 17),
            ("SIGCONT", 18),
            ("SIGSTOP", 19),
        ],
    ),
];

/// Constants of a C header that scripts use and that BTF does not have.
fn constants(path: &str) -> Option<String> {
    let line = |(name, number): (&str, i64)| format!("#define {name} {number}\n");
    if path.ends_with("errno.h") {
        return Some(error_numbers().map(line).collect());
    }
    let (_, names) = MACROS.iter().find(|(end, _)| path.ends_with(end))?;
    Some(names.iter().copied().map(line).collect())
}

/// The lines of a C header that give one number to one name, whatever the conditions around them.
fn numbers(header: &str) -> String {
    let mut found: BTreeMap<&str, Option<&str>> = BTreeMap::new();
    for line in header.lines() {
        let Some(line) = line.trim_start().strip_prefix('#') else {
            continue;
        };
        let mut words = line.split_ascii_whitespace();
        let (Some("define"), Some(name), Some(value)) = (words.next(), words.next(), words.next()) else {
            continue;
        };
        let ends = words
            .next()
            .is_none_or(|word| word.starts_with("/*") || word.starts_with("//"));
        let is_name = name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        // Names in small letters would stand for variables and members.
        let is_constant = name.starts_with("__NR_") || !name.bytes().any(|byte| byte.is_ascii_lowercase());
        if !is_name || !is_constant {
            continue;
        }
        let value = Some(value).filter(|value| ends && number_of(value).is_some());
        found
            .entry(name)
            .and_modify(|known| *known = known.filter(|_| *known == value))
            .or_insert(value);
    }
    let known = found.iter().filter_map(|(name, value)| Some((name, (*value)?)));
    known
        .map(|(name, value)| format!("#define {name} {value}\n"))
        .collect()
}

/// The directory that paths in a file count from: its own; for texts that are no files, the one that Kestrel runs in.
fn beside(from: &str) -> PathBuf {
    let from = Path::new(from);
    match (from.is_file(), from.parent()) {
        (true, Some(parent)) if parent.as_os_str().is_empty() => PathBuf::from("."),
        (true, Some(parent)) => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

fn read(path: &Path) -> Result<ImportedText, String> {
    let name = path.display().to_string();
    if name.ends_with(".c") {
        return Err("it is C, and there is no compiler of C in Kestrel".to_owned());
    }
    let size = fs::metadata(path)
        .map_err(|error| crate::style::system_words(&error))?
        .len();
    if size > MAX {
        return Err(format!("it has {size} bytes, more than the {MAX} that are read"));
    }
    let bytes = fs::read(path).map_err(|error| crate::style::system_words(&error))?;
    if bytes.starts_with(b"\x7fELF") {
        return Err("it is a compiled object, whose functions no script can call".to_owned());
    }
    Ok(ImportedText {
        name,
        text: super::encoding::decoded(bytes),
    })
}

#[cfg(test)]
mod tests {
    use super::numbers;

    #[test]
    fn headers_give_numbers_to_names() {
        let header = "\
#define _FCNTL_H 1
# define O_CREAT\t   0100\t/* Not fcntl.  */
#define O_NDELAY O_NONBLOCK
#define ADD(a, b) 1
#define TWICE (2)
#define SUM 1 + 2
#define EITHER 1
# define EITHER 2
#define SAME 3
#define SAME 3
#define member 4
#define __NR_read 0
int O_NUMBER = 5;
";
        let wanted = "#define O_CREAT 0100\n#define SAME 3\n#define _FCNTL_H 1\n#define __NR_read 0\n";
        assert_eq!(numbers(header), wanted);
    }
}
