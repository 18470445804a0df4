//! The binaries that processes have mapped: each is opened when it is first seen, so that it can be read when its process, or its name, is gone.

use super::perf_map::Home;
use kestrel_kernel::Host;
use kestrel_kernel::perf::side_band::CodeMapping;
use kestrel_kernel::process::allow_open_files;
use kestrel_kernel::procfs::Mapped;
use object::read::{Object as _, ReadCache};
use std::collections::HashMap;
use std::fs::File;
use std::path::PathBuf;

/// Binaries that are held open at once.
const OPEN: u64 = 1024;
/// Files that a session and this process have open besides.
const OTHERS: u64 = 4096;
/// How often a binary that could not be opened is tried again, with other processes that map it.
const TRIES: u32 = 8;

/// What the kernel puts behind the path of a file that has no name any more.
const DELETED: &str = " (deleted)";

/// Which binary: those of one path may be several, one after another or in several containers.
type Identity = (String, Option<Vec<u8>>);

/// One binary.
#[derive(Debug)]
pub(super) struct MappedBinary {
    /// As the process saw it.
    pub(super) path: String,
    pub(super) build_id: Option<Vec<u8>>,
    /// The file, where it could be opened.
    pub(super) file: Option<File>,
    /// The process that has code of no file there.
    pub(super) generated_by: Option<u32>,
    tries: u32,
}

impl MappedBinary {
    /// A binary whose file is open.
    pub(super) fn opened(path: &str, build_id: Option<Vec<u8>>, file: File) -> Self {
        Self {
            path: path.to_owned(),
            build_id,
            file: Some(file),
            generated_by: None,
            tries: 0,
        }
    }
}

/// All binaries, by number.
#[derive(Debug)]
pub(super) struct Binaries {
    host: Host,
    all: Vec<MappedBinary>,
    numbers: HashMap<Identity, u32>,
    /// By process that has code of no file: where it writes what that is called.
    homes: HashMap<u32, Home>,
    /// Root directories of processes other than `/`: containers' and those of chroot(2).
    roots: Vec<PathBuf>,
    open: u64,
}

/// Whether a path names memory of no file: of the kernel, or of what a program generates.
pub(super) fn is_generated(path: &str) -> bool {
    path.is_empty()
        || path.starts_with("//anon")
        || path.starts_with("/memfd:")
        || path.starts_with("/dev/zero")
}

impl Binaries {
    pub(super) fn new(host: &Host) -> Self {
        allow_open_files(OPEN + OTHERS);
        Self {
            host: host.clone(),
            all: Vec::new(),
            numbers: HashMap::new(),
            homes: HashMap::new(),
            roots: Vec::new(),
            open: 0,
        }
    }

    /// The binary of that number.
    pub(super) fn get(&self, number: u32) -> Option<&MappedBinary> {
        self.all.get(number as usize)
    }

    /// Enters a file that no process is known to have mapped; gives its number.
    pub(super) fn add_open(&mut self, path: &str, file: File) -> u32 {
        let build_id = build_id_of(&file);
        self.add(path, build_id, Some(file), None)
    }

    /// Where a process that generates code writes what that is called.
    pub(super) fn home(&self, pid: u32) -> Option<&Home> {
        self.homes.get(&pid)
    }

    /// Whether the binary of that number is no code that a process generates.
    pub(super) fn is_of_a_file(&self, number: u32) -> bool {
        self.get(number)
            .is_some_and(|binary| binary.generated_by.is_none())
    }

    /// The number of the binary that a process has mapped, as /proc has it.
    pub(super) fn mapped(&mut self, pid: u32, mapped: &Mapped) -> u32 {
        let range = (mapped.start, mapped.end);
        self.number(pid, range, &mapped.path, None)
    }

    /// The number of the binary that a process has just mapped.
    pub(super) fn changed(&mut self, pid: u32, mapping: &CodeMapping) -> u32 {
        self.number(
            pid,
            (mapping.start, mapping.end),
            &mapping.path,
            mapping.build_id.as_deref(),
        )
    }

    fn number(&mut self, pid: u32, range: (u64, u64), path: &str, build_id: Option<&[u8]>) -> u32 {
        if is_generated(path) {
            return self.generated(pid);
        }
        let path = path.strip_suffix(DELETED).unwrap_or(path);
        if let Some(known) = self.numbers.get(&(path.to_owned(), build_id.map(<[u8]>::to_vec))) {
            let known = *known;
            let tries = &mut self.all[known as usize];
            if tries.file.is_some() || tries.tries == 0 || path.starts_with('[') {
                return known;
            }
            tries.tries -= 1;
            let file = self.open(pid, range, path, build_id);
            self.open += u64::from(file.is_some());
            self.all[known as usize].file = file;
            return known;
        }
        let file = self.open(pid, range, path, build_id);
        self.open += u64::from(file.is_some());
        let read = file.as_ref().and_then(build_id_of);
        let whole = build_id.map(<[u8]>::to_vec).or(read);
        // One that /proc told of is known by its build id, too, when it is mapped again.
        let identity = (path.to_owned(), whole.clone());
        let number = match self.numbers.get(&identity) {
            Some(known) => *known,
            None => self.add(path, whole, file, None),
        };
        self.numbers
            .insert((path.to_owned(), build_id.map(<[u8]>::to_vec)), number);
        self.numbers.insert(identity, number);
        number
    }

    /// Code of no file: a process's own.
    fn generated(&mut self, pid: u32) -> u32 {
        if !self.homes.contains_key(&pid)
            && self.open < OPEN
            && let Some(home) = Home::of(&self.host, pid)
        {
            self.open += u64::from(home.is_open());
            self.homes.insert(pid, home);
        }
        let identity = (format!("//anon {pid}"), None);
        if let Some(known) = self.numbers.get(&identity) {
            return *known;
        }
        let number = self.add("//anon", None, None, Some(pid));
        self.numbers.insert(identity, number);
        number
    }

    fn add(
        &mut self,
        path: &str,
        build_id: Option<Vec<u8>>,
        file: Option<File>,
        generated_by: Option<u32>,
    ) -> u32 {
        self.all.push(MappedBinary {
            path: path.to_owned(),
            build_id,
            file,
            generated_by,
            tries: TRIES,
        });
        self.all.len() as u32 - 1
    }

    /// Opens what a process has mapped: by the mapping itself, by its path in the process's root directory, or by its path where a file of the
    /// same build lies. The last two may be other files, so they count only with the same build id.
    fn open(
        &mut self,
        pid: u32,
        (start, end): (u64, u64),
        path: &str,
        build_id: Option<&[u8]>,
    ) -> Option<File> {
        if !path.starts_with('/') || self.open >= OPEN {
            return None;
        }
        let process = |rest: String| self.host.path(format!("/proc/{pid}/{rest}"));
        if let Ok(file) = File::open(process(format!("map_files/{start:x}-{end:x}"))) {
            return Some(file);
        }
        if let Ok(root) = std::fs::read_link(process("root".to_owned()))
            && root.as_os_str() != "/"
            && !self.roots.contains(&root)
        {
            self.roots.push(root);
        }
        let inner = path.trim_start_matches('/');
        let mut places = vec![process(format!("root/{inner}")), self.host.path(path)];
        places.extend(self.roots.iter().map(|root| root.join(inner)));
        let same = |file: &File| build_id.is_none_or(|id| build_id_of(file).is_some_and(|found| found == id));
        places
            .into_iter()
            .filter_map(|place| {
                File::open(place)
                    .ok()
                    .filter(|file| file.metadata().is_ok_and(|it| it.is_file()))
            })
            .find(same)
    }
}

/// The build id in a file's notes.
pub(super) fn build_id_of(file: &File) -> Option<Vec<u8>> {
    let cache = ReadCache::new(file);
    let parsed = object::File::parse(&cache).ok()?;
    parsed.build_id().ok()?.map(<[u8]>::to_vec)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kestrel_kernel::procfs;

    #[test]
    fn the_own_binary_is_held_open_and_is_one_however_it_is_seen() {
        let host = Host::default();
        let pid = std::process::id();
        let mut binaries = Binaries::new(&host);
        let maps = procfs::maps(&host, pid).unwrap();
        let own = std::env::current_exe().unwrap();
        let code = maps
            .iter()
            .find(|it| it.permissions.execute && it.path == own.to_str().unwrap())
            .unwrap();
        let number = binaries.mapped(pid, code);
        let binary = binaries.get(number).unwrap();
        let id = binary.build_id.clone();
        assert!(binary.file.is_some());
        let mapping = CodeMapping {
            start: code.start,
            end: code.end,
            offset: code.offset,
            path: code.path.clone(),
            build_id: id.clone(),
        };
        assert_eq!(binaries.changed(pid, &mapping), number);
        // A file of that path, but another build, is another binary, and the one that lies there is not taken for it.
        let other = CodeMapping {
            start: 1,
            end: 2,
            build_id: Some(vec![1; 20]),
            ..mapping
        };
        let other = binaries.changed(pid, &other);
        assert_ne!(other, number);
        assert!(binaries.get(other).unwrap().file.is_none());
    }
}
